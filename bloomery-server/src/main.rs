//! bloomery-serve.
fn main() {}
