//! From the kernels' package to PTX: one file for every op family and architecture.

use std::path::Path;
use std::process::Command;

use super::DEVICE;
use super::toolchain::Toolchain;
use crate::error::{Error, io_error};

/// Architectures: sm_80 is what every card has, sm_90 adds the start of a kernel before its predecessor's end. PTX runs on
/// its architecture and all later ones.
const ARCHITECTURES: &[&str] = &["sm_80", "sm_90"];
/// The oldest PTX that has what sm_90 offers: drivers of CUDA 12.0 on.
const PTX_VERSION: &str = "+ptx80";
/// Loops with a constant number of turns are unrolled completely, up to this cost: an array that is indexed by a variable
/// lives in local memory, which the kernels must not use.
const UNROLL: &str = "-unroll-threshold=1500";

/// A PTX file.
pub(super) struct Output {
    pub(super) name: String,
    pub(super) text: String,
}

/// All files, or those of the families in `only`.
pub(super) fn all(root: &Path, toolchain: &Toolchain, only: &[String]) -> Result<Vec<Output>, Error> {
    let manifest = root.join(DEVICE).join("Cargo.toml");
    let manifest = std::fs::read_to_string(&manifest).map_err(io_error(manifest.display()))?;
    let mut outputs = Vec::new();
    let families = features(&manifest);
    if let Some(unknown) = only.iter().find(|family| !families.contains(family)) {
        return Err(Error::Usage(format!("{unknown} is none of {}", families.join(", "))));
    }
    for family in families.into_iter().filter(|family| only.is_empty() || only.contains(family)) {
        for architecture in ARCHITECTURES {
            let text = one(root, toolchain, &family, architecture)?;
            outputs.push(Output { name: format!("{family}.{architecture}.ptx"), text });
        }
    }
    Ok(outputs)
}

/// The features that are op families.
fn features(manifest: &str) -> Vec<String> {
    let lines = manifest.lines().skip_while(|line| line.trim() != "[features]").skip(1);
    // What families share stands apart, below them.
    lines
        .take_while(|line| !line.starts_with('[') && *line != "# What families share.")
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim().to_owned())
        .filter(|name| !name.starts_with('#') && !name.starts_with("sm_"))
        .collect()
}

fn one(root: &Path, toolchain: &Toolchain, family: &str, architecture: &str) -> Result<String, Error> {
    let target = root.join("target/ptx");
    let mut command = Command::new("cargo");
    command
        .current_dir(root.join(DEVICE))
        .env("RUSTC", &toolchain.rustc)
        // The target, its assembly and building `core` are unstable.
        .env("RUSTC_BOOTSTRAP", "1")
        // With fat LTO the assembly is complete: nothing is left to link.
        .env("RUSTFLAGS", "-C linker=/bin/true")
        .args(["rustc", "--quiet", "--release", "-Zbuild-std=core", "--target", "nvptx64-nvidia-cuda"])
        .arg("--target-dir")
        .arg(&target)
        .args(["--features", &format!("{family},{architecture}"), "--", "--emit=asm"])
        .args(["-C", &format!("target-cpu={architecture}"), "-C", &format!("target-feature={PTX_VERSION}")])
        .args(["-C", &format!("llvm-args={UNROLL}")]);
    let output = command.output().map_err(io_error("cargo"))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(Error::Failed(format!("{family} for {architecture}:\n{messages}")));
    }
    // The flag for PTX is not stable; that is the one warning to expect.
    let warnings: Vec<&str> = messages
        .lines()
        .filter(|line| line.starts_with("warning") && !line.contains("target-feature"))
        .collect();
    if !warnings.is_empty() {
        return Err(Error::Failed(format!("{family} for {architecture}:\n{messages}")));
    }
    let path = target.join("nvptx64-nvidia-cuda/release/deps/bloomery_device.s");
    let text = std::fs::read_to_string(&path).map_err(io_error(path.display()))?;
    bounded(&tidy(&text)).map_err(|line| Error::Failed(format!("{family}: no kernel for `{line}`")))
}

/// What a kernel's source says of its launches, in a comment of assembly: `// bounds KERNEL THREADS BLOCKS`.
const BOUNDS: &str = "// bounds ";

/// Kernels with directives in place of the comments that name them: blocks of up to so many threads, so many of them on a
/// multiprocessor. The compiler then knows how many registers a thread may have; Rust has no attribute for it.
fn bounded(text: &str) -> Result<String, String> {
    let (bounds, text): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.trim().starts_with(BOUNDS));
    let mut text: Vec<String> = text.into_iter().map(str::to_owned).collect();
    for line in bounds {
        let words: Vec<&str> = line.trim()[BOUNDS.len()..].split_whitespace().collect();
        let [kernel, threads, blocks] = words[..] else { return Err(line.to_owned()) };
        let head = format!(".visible .entry {kernel}(");
        let entry = text.iter().position(|line| line.starts_with(&head)).ok_or(line)?;
        let end = text[entry..].iter().position(|line| line.starts_with(')')).ok_or(line)?;
        text[entry + end] = format!(")\n.maxntid {threads}, 1, 1\n.minnctapersm {blocks}");
    }
    Ok(text.into_iter().map(|line| line + "\n").collect())
}

/// Without the remarks that surround every piece of inline assembly.
fn tidy(text: &str) -> String {
    let keep = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && line != "// begin inline asm" && line != "// end inline asm"
    };
    text.lines().filter(keep).map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_the_features_that_name_no_architecture() {
        let manifest = "[package]\nname = \"a\"\n[features]\n# One.\nsm_90 = []\nnorm = []\nheads = []\n\n# What families share.\nc = []\n[x]\ny = 1\n";
        assert_eq!(features(manifest), ["norm", "heads"]);
    }

    #[test]
    fn bounds_go_to_their_kernels() {
        let text = "\t// bounds b 96 2\n.visible .entry a(\n)\n{\n}\n.visible .entry b(\n.param\n)\n{\n}\n";
        let expected = ".visible .entry a(\n)\n{\n}\n.visible .entry b(\n.param\n)\n.maxntid 96, 1, 1\n.minnctapersm 2\n{\n}\n";
        assert_eq!(bounded(text).as_deref(), Ok(expected));
        assert!(bounded("// bounds c 96 2\n").is_err());
    }

    #[test]
    fn remarks_go() {
        assert_eq!(tidy("a\n\n\t// begin inline asm\n\tb;\n\t// end inline asm\n"), "a\n\tb;\n");
    }
}
