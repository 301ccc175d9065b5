//! bloomery-serve.
#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    bloomery_server::serve::run(env::args_os().skip(1), env::vars_os())
}
