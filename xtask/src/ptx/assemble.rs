//! The committed PTX through `ptxas`: registers of every kernel, and no spills, local memory or calls.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::error::{Error, io_error, say};

/// (what the file is for, what it is assembled for)
const TARGETS: &[(&str, &[&str])] =
    &[("sm_80", &["sm_80", "sm_86", "sm_89"]), ("sm_90", &["sm_90a", "sm_120"])];

/// Spills that are known, in bytes: of attention to ends of groups, 255 registers are too few on one kind of cards by a handful.
/// Nobody has measured there what it costs; elsewhere it has none.
const KNOWN: [(&str, &str, u32); 1] = [("sm_120", "ends_f16_512", 52)];

/// What ptxas says about a kernel.
#[derive(Debug, Default, PartialEq, Eq)]
struct Usage {
    kernel: String,
    registers: u32,
    stack: u32,
    spills: u32,
}

/// Assembles every file for all its targets and prints a table.
pub(super) fn all(root: &Path, ptxas: &Path, out: &mut dyn Write) -> Result<(), Error> {
    let mut bad = Vec::new();
    let mut kernels = 0;
    for file in super::manifest::files(root, super::PTX)? {
        let Some((_, targets)) = TARGETS.iter().find(|(made, _)| file.ends_with(&format!(".{made}.ptx")))
        else {
            continue;
        };
        let path = root.join(&file);
        let text = std::fs::read_to_string(&path).map_err(io_error(&file))?;
        bad.extend(calls(&text).map(|line| format!("{file}: {line}")));
        for target in *targets {
            for usage in one(&path, ptxas, target)? {
                let Usage { kernel, registers, stack, spills } = &usage;
                kernels += 1;
                say(out, format_args!("{target:7} {kernel:32} {registers:3} registers"))?;
                let is_known =
                    |known: &&(&str, &str, u32)| (known.0, known.1) == (&**target, kernel.as_str());
                let known = KNOWN.iter().find(is_known).map_or(0, |known| known.2);
                if *spills > known || (*stack > 0 && known == 0) {
                    bad.push(format!("{target} {kernel}: {stack} bytes of stack, {spills} of spills"));
                }
            }
        }
    }
    if !bad.is_empty() {
        return Err(Error::Failed(bad.join("\n")));
    }
    say(out, format_args!("ptx: {kernels} kernels assembled, no spills but known ones, no calls"))
}

/// Functions and calls of them: everything is to be inlined.
fn calls(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.lines().map(str::trim).filter(|line| {
        let first = line.split_whitespace().next().unwrap_or_default();
        first == ".func" || line.contains(" .func ") || first == "call" || first.starts_with("call.")
    })
}

fn one(path: &Path, ptxas: &Path, target: &str) -> Result<Vec<Usage>, Error> {
    let output = Command::new(ptxas)
        .args(["-v", "-arch", target, "-o", "/dev/null"])
        .arg(path)
        .output()
        .map_err(io_error(ptxas.display()))?;
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(Error::Failed(format!("{} for {target}:\n{text}", path.display())));
    }
    Ok(read(&text))
}

/// The kernels in the output of `ptxas -v`.
fn read(text: &str) -> Vec<Usage> {
    let mut found: Vec<Usage> = Vec::new();
    for line in text.lines() {
        if let Some(kernel) = line.split('\'').nth(1).filter(|_| line.contains("Compiling entry function")) {
            found.push(Usage { kernel: kernel.to_owned(), ..Usage::default() });
        }
        let Some(usage) = found.last_mut() else { continue };
        usage.stack = usage.stack.max(before(line, " bytes stack frame"));
        usage.spills += before(line, " bytes spill stores") + before(line, " bytes spill loads");
        usage.registers = usage.registers.max(before(line, " registers"));
    }
    found
}

/// The number before `words`.
fn before(line: &str, words: &str) -> u32 {
    let Some((head, _)) = line.split_once(words) else { return 0 };
    let digits = head.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_functions_are_found() {
        let text = ".visible .entry a(\n)\n{\n\tcall.uni (retval0), f, (param0);\n\tcalled_something;\n}\n.extern .func f()\n.func g()\n";
        let found: Vec<&str> = calls(text).collect();
        assert_eq!(found, ["call.uni (retval0), f, (param0);", ".extern .func f()", ".func g()"]);
    }

    #[test]
    fn reads_what_ptxas_says() {
        let text = "ptxas info    : Compiling entry function 'a' for 'sm_90'\n\
            ptxas info    : Function properties for a\n    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n\
            ptxas info    : Used 40 registers, used 1 barriers\n\
            ptxas info    : Compiling entry function 'b' for 'sm_90'\n\
            ptxas info    : Used 12 registers, used 1 barriers\n";
        let a = Usage { kernel: "a".into(), registers: 40, stack: 8, spills: 16 };
        let b = Usage { kernel: "b".into(), registers: 12, stack: 0, spills: 0 };
        assert_eq!(read(text), [a, b]);
    }
}
