//! What a program asks of the machine it starts on: shared libraries, and versions of their symbols.

use std::path::Path;
use std::process::Command;

use super::output;
use crate::error::Error;

/// The only libraries that a machine without development packages is sure to have. The driver's are opened at run time.
const LIBRARIES: &[&str] = &["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"];
/// The newest symbols: of Debian 12, Ubuntu 22.04, RHEL 9 and later. Rust's own floor is 2.17, but a program linked on
/// glibc 2.34 or newer has that version's `__libc_start_main` and thread functions.
const NEWEST: &[(&str, &[u32])] = &[("GLIBC_", &[2, 34]), ("GCC_", &[7])];

/// Fails with everything that an older machine would not have.
pub(super) fn check(program: &Path) -> Result<(), Error> {
    let mut readelf = Command::new("readelf");
    readelf.env("LC_ALL", "C").args(["--wide", "--dynamic", "--version-info"]).arg(program);
    let text = output(&mut readelf)?;
    let excess = excess(&String::from_utf8_lossy(&text));
    match excess.is_empty() {
        true => Ok(()),
        false => Err(Error::Failed(format!("{} needs {}", program.display(), excess.join(", ")))),
    }
}

/// Needs beyond the limits, of what readelf prints.
fn excess(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut needed = 0;
    let mut versions = false;
    for line in text.lines() {
        if line.starts_with("Version ") {
            versions = line.starts_with("Version needs");
        }
        if let Some((_, library)) = line.split_once("Shared library: [") {
            needed += 1;
            let library = library.trim_end_matches(']');
            if !LIBRARIES.contains(&library) {
                found.push(library.to_owned());
            }
        }
        let entry = line.split_once("Name: ").and_then(|(_, rest)| rest.split_whitespace().next());
        if let Some(version) = entry.filter(|version| versions && too_new(version)) {
            found.push(version.to_owned());
        }
    }
    if needed == 0 {
        found.push("no shared library at all: readelf did not find the dynamic section".to_owned());
    }
    found
}

/// Names that are no numbers (`GLIBC_PRIVATE`, `GLIBC_ABI_DT_RELR`) mark what only some versions have.
fn too_new(version: &str) -> bool {
    let Some((number, newest)) =
        NEWEST.iter().find_map(|(prefix, newest)| Some((version.strip_prefix(prefix)?, newest)))
    else {
        return true;
    };
    let parts: Result<Vec<u32>, _> = number.split('.').map(str::parse).collect();
    parts.map_or(true, |parts| parts.as_slice() > *newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
Dynamic section at offset 0x16b0 contains 30 entries:
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]

Version symbols section '.gnu.version' contains 150 entries:
  000:   0 (*local*)       2 (GLIBC_2.36)    3 (GLIBC_2.2.5)   2 (GLIBC_2.36)

Version needs section '.gnu.version_r' contains 2 entries:
 Addr: 0x0000000000001660  Offset: 0x001660  Link: 7 (.dynstr)
  000000: Version: 1  File: libgcc_s.so.1  Cnt: 1
  0x0010:   Name: GCC_4.2.0  Flags: none  Version: 11
  0x0020: Version: 1  File: libc.so.6  Cnt: 2
  0x0030:   Name: GLIBC_2.34  Flags: none  Version: 3
  0x0040:   Name: GLIBC_2.2.5  Flags: none  Version: 2
";

    #[test]
    fn needs_within_the_limits_are_fine() {
        assert_eq!(excess(TEXT), Vec::<String>::new());
    }

    #[test]
    fn newer_symbols_are_named() {
        assert_eq!(excess(&TEXT.replace("Name: GLIBC_2.34", "Name: GLIBC_2.36")), ["GLIBC_2.36"]);
        assert_eq!(
            excess(&TEXT.replace("Name: GLIBC_2.34", "Name: GLIBC_ABI_DT_RELR")),
            ["GLIBC_ABI_DT_RELR"]
        );
        assert_eq!(excess(&TEXT.replace("GCC_4.2.0", "GCC_12.0.0")), ["GCC_12.0.0"]);
        assert_eq!(excess(&TEXT.replace("GCC_4.2.0", "CXXABI_1.3")), ["CXXABI_1.3"]);
        assert!(too_new("GLIBC_2.34.1") && too_new("GLIBC_3") && !too_new("GLIBC_2.4"));
    }

    #[test]
    fn other_libraries_are_named() {
        assert_eq!(excess(&TEXT.replace("libgcc_s.so.1]", "libssl.so.3]")), ["libssl.so.3"]);
        assert_eq!(excess("").len(), 1);
    }
}
