//! Prints what a GGUF file holds: `cargo run -p bloomery-gguf --example inspect -- model.gguf`
//!
//! Exit codes: 64 for a wrong command line, 66 for a file that cannot be read, 74 for output that cannot be written.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use bloomery_gguf::{Format, Gguf, Value};

/// Longer values are cut: chat templates have thousands of characters.
const VALUE_WIDTH: usize = 100;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [path] = arguments.as_slice() else {
        return fail(64, &"usage: inspect FILE.gguf");
    };
    let gguf = match Gguf::open(path) {
        Ok(gguf) => gguf,
        Err(error) => return fail(66, &error),
    };
    match print(&gguf, &mut BufWriter::new(io::stdout().lock())) {
        // The reader, such as `head`, has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(74, &error),
        Ok(()) => ExitCode::SUCCESS,
    }
}

#[expect(clippy::print_stderr, reason = "a program's errors go there")]
fn fail(code: u8, message: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("inspect: {message}");
    ExitCode::from(code)
}

fn print(gguf: &Gguf, out: &mut impl Write) -> io::Result<()> {
    for path in gguf.paths() {
        writeln!(out, "{}", path.display())?;
    }
    let tensors = gguf.tensors().len();
    let keys = gguf.metadata().len();
    writeln!(out, "GGUF v{}, {} bytes, {keys} keys, {tensors} tensors\n", gguf.version(), gguf.file_bytes())?;
    print_metadata(gguf, out)?;
    print_tensors(gguf, out)?;
    print_totals(gguf, out)?;
    out.flush()
}

fn print_metadata(gguf: &Gguf, out: &mut impl Write) -> io::Result<()> {
    let width = gguf.metadata().iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0).min(60);
    for (key, value) in gguf.metadata().iter() {
        let kind = match value {
            Value::Array(_) => "",
            scalar => scalar.value_type().name(),
        };
        writeln!(out, "{:<width$}  {kind:<6}  {}", plain(key), cut(&value.to_string()))?;
    }
    writeln!(out)
}

fn print_tensors(gguf: &Gguf, out: &mut impl Write) -> io::Result<()> {
    let width = gguf.tensors().map(|tensor| tensor.name.chars().count()).max().unwrap_or(0).clamp(6, 60);
    writeln!(out, "{:<width$}  {:>24}  {:<7}  {:>13}", "tensor", "dims", "format", "bytes")?;
    for tensor in gguf.tensors() {
        let dims: Vec<String> = tensor.dims.iter().map(u64::to_string).collect();
        let (name, dims, format) = (plain(&tensor.name), dims.join(" x "), tensor.format.name());
        writeln!(out, "{name:<width$}  {dims:>24}  {format:<7}  {:>13}", tensor.bytes())?;
    }
    writeln!(out)
}

fn print_totals(gguf: &Gguf, out: &mut impl Write) -> io::Result<()> {
    let mut totals: BTreeMap<Format, Total> = BTreeMap::new();
    let mut whole = Total::default();
    for tensor in gguf.tensors() {
        for total in [totals.entry(tensor.format).or_default(), &mut whole] {
            total.tensors += 1;
            total.elements += u128::from(tensor.elements());
            total.bytes += u128::from(tensor.bytes());
        }
    }
    writeln!(out, "{:<7}  {:>7}  {:>15}  {:>15}  bits each", "format", "tensors", "values", "bytes")?;
    for (format, total) in &totals {
        total.print(format.name(), out)?;
    }
    whole.print("all", out)
}

#[derive(Default)]
struct Total {
    tensors: u64,
    elements: u128,
    bytes: u128,
}

impl Total {
    fn print(&self, name: &str, out: &mut impl Write) -> io::Result<()> {
        let Self { tensors, elements, bytes } = self;
        let bits = *bytes as f64 * 8.0 / (*elements).max(1) as f64;
        writeln!(out, "{name:<7}  {tensors:>7}  {elements:>15}  {bytes:>15}  {bits:>9.4}")
    }
}

/// Names come from the file: without their control characters they cannot drive a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(VALUE_WIDTH) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}
