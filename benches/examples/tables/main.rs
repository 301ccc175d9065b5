//! Rows of a table of n-grams that lies in a file: `tables FILE [--gib N] [--row BYTES] [--rows N] [--tokens N] [--prompts N,N,..]`.
//!
//! FILE is made if it is not there: noise, in tensors of 256 MiB. Every token needs `--rows` rows anywhere in it. Ways to get them are
//! timed over tokens of their own, whose pages the system has dropped before: all rows at once when they are wanted, asked for 5 ms before
//! that, and once more when they are in memory. Then the rows of whole prompts, as they come and sorted.

#![forbid(unsafe_code)]

#[cfg(target_os = "linux")]
mod options;
#[cfg(target_os = "linux")]
mod pool;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod table;
#[cfg(target_os = "linux")]
mod way;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    report::run(&options::Options::read()?)
}

#[cfg(not(target_os = "linux"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    Err("only Linux tells this program to forget pages, and reads past them".into())
}
