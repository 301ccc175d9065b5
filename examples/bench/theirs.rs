//! llama-bench, run for one round of one test.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use bloomery_examples::{CacheType, Failure, Status};
use serde_json::Value;

use crate::test::{Kind, Test};

/// How to run it.
pub(crate) struct Theirs<'a> {
    pub(crate) program: &'a Path,
    pub(crate) model: PathBuf,
    pub(crate) threads: usize,
    pub(crate) cache: CacheType,
    pub(crate) ubatch: u32,
    pub(crate) cpu_only: bool,
    pub(crate) extra: Vec<String>,
}

impl Theirs<'_> {
    /// Tokens per second of one round. Tests of several sequences are not among llama-bench's.
    pub(crate) fn rate(&self, test: Test) -> Result<Option<f64>, Failure> {
        if test.parallel > 1 {
            return Ok(None);
        }
        let failed = |why: String| {
            Failure::new(Status::Software, format!("{}: {test}: {why}", self.program.display()))
        };
        let output = Command::new(self.program)
            .args(self.arguments(test))
            .output()
            .map_err(|error| Failure::new(Status::NoInput, format!("{}: {error}", self.program.display())))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(failed(format!("{}: {}", output.status, said.lines().last().unwrap_or_default())));
        }
        rate_of(&output.stdout).map(Some).ok_or_else(|| failed("no rate in its JSON output".to_owned()))
    }

    fn arguments(&self, test: Test) -> Vec<OsString> {
        let (prompt, generate) = match test.kind {
            Kind::Prompt => (test.tokens, 0),
            Kind::Generate => (0, test.tokens),
        };
        let cache = self.cache.name();
        let mut arguments: Vec<OsString> = vec!["-m".into(), self.model.clone().into()];
        let mut flag =
            |name: &str, value: &dyn ToString| arguments.extend([name.into(), value.to_string().into()]);
        flag("-p", &prompt);
        flag("-n", &generate);
        flag("-d", &test.depth);
        flag("-t", &self.threads);
        flag("-ub", &self.ubatch);
        flag("-ctk", &cache);
        flag("-ctv", &cache);
        flag("-r", &1);
        flag("-o", &"json");
        if self.cpu_only {
            flag("-ngl", &0);
        }
        arguments.extend(self.extra.iter().map(|word| OsStr::new(word).to_owned()));
        arguments
    }
}

/// The first sample of the first test.
fn rate_of(json: &[u8]) -> Option<f64> {
    let results: Value = serde_json::from_slice(json).ok()?;
    results[0]["samples_ts"][0].as_f64().filter(|rate| *rate > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_say_the_same_test() {
        let theirs = Theirs {
            program: Path::new("llama-bench"),
            model: "m.gguf".into(),
            threads: 2,
            cache: CacheType::F16,
            ubatch: 512,
            cpu_only: true,
            extra: vec!["-fa".into(), "1".into()],
        };
        let test = Test { kind: Kind::Generate, tokens: 128, depth: 4096, parallel: 1 };
        let words: Vec<String> =
            theirs.arguments(test).into_iter().map(|word| word.into_string().unwrap()).collect();
        let expected =
            "-m m.gguf -p 0 -n 128 -d 4096 -t 2 -ub 512 -ctk f16 -ctv f16 -r 1 -o json -ngl 0 -fa 1";
        assert_eq!(words.join(" "), expected);
        assert_eq!(theirs.rate(Test { parallel: 2, ..test }).unwrap(), None);
    }

    #[test]
    fn rates_come_from_the_samples() {
        let json = br#"[{"n_prompt": 64, "avg_ts": 1.0, "samples_ns": [40036566], "samples_ts": [1598.54]}]"#;
        assert_eq!(rate_of(json), Some(1598.54));
        for bad in [&b"[]"[..], b"", b"[{}]", br#"[{"samples_ts": [0]}]"#] {
            assert_eq!(rate_of(bad), None);
        }
    }
}
