//! Commands that `.ci/run` runs already.

use super::shell;

/// Every line of a block must stand in the script.
pub(super) fn check(text: &str, script: &str) -> Result<(), String> {
    match shell::lines(text).find(|line| !script.contains(line)) {
        Some(line) => Err(format!("`{line}` is no command of .ci/run")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_looked_up() {
        let script = "run \"tests\" cargo test --workspace\n";
        assert!(check("cargo test --workspace   # minutes\n", script).is_ok());
        assert!(check("cargo test --workspace --release\n", script).is_err());
    }
}
