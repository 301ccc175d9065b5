//! Spawning the programs, and files for them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use bloomery_gguf::{Format, Gguf, Value, Writer};

pub(crate) const CHAT: &str = env!("CARGO_BIN_EXE_bloomery-chat");

/// The example of this name, which `cargo test` builds beside the programs.
pub(crate) fn example(name: &str) -> String {
    let folder = Path::new(CHAT).parent().unwrap().join("examples");
    folder.join(name).to_str().unwrap().to_owned()
}

/// The demo model as a file.
pub(crate) fn demo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../bloomery-core/demo/bloomery-demo-q4_k_m.gguf")
}

pub(crate) fn alice() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/alice.txt")
}

/// What a program did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    fn new(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// It ended with this code and said why in one line that has this word in it.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, word: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.contains(": error: ") && self.stderr.contains(word), "{word}: {self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
    }

    /// It ended well and said nothing on stderr. Returns stdout.
    #[track_caller]
    pub(crate) fn fine(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        self.stdout
    }

    /// It ended well. Returns stdout and stderr.
    #[track_caller]
    pub(crate) fn told(self) -> (String, String) {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        (self.stdout, self.stderr)
    }
}

/// Runs a program to its end, without input.
pub(crate) fn run(program: &str, words: &[&str]) -> Ran {
    Ran::new(Command::new(program).args(words).stdin(Stdio::null()).output().unwrap())
}

/// Runs a program to its end with this text on stdin.
pub(crate) fn run_with(program: &str, words: &[&str], input: &str) -> Ran {
    let mut child = spawn(program, words, Stdio::piped());
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Ran::new(child.wait_with_output().unwrap())
}

/// Starts a program whose output is read by the test.
pub(crate) fn spawn(program: &str, words: &[&str], stdin: Stdio) -> Child {
    let mut command = Command::new(program);
    command.args(words).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A folder that goes away at the end of the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("bloomery-cli-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.0.join(name), bytes).unwrap();
        self.path(name)
    }

    /// Names of the files in it.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The demo model without its last third.
    pub(crate) fn truncated_model(&self) -> String {
        let bytes = fs::read(demo()).unwrap();
        self.write("truncated.gguf", &bytes[..bytes.len() / 3 * 2])
    }

    /// A sound file of an architecture that nobody runs.
    pub(crate) fn unknown_model(&self) -> String {
        let mut writer = Writer::new();
        writer.set("general.architecture", "abacus");
        writer.tensor("beads.weight", &[4], Format::F32, vec![0; 16]).unwrap();
        let path = self.path("unknown.gguf");
        writer.write_file(&path).unwrap();
        path
    }

    /// The demo model without its chat template.
    pub(crate) fn model_without_template(&self) -> String {
        let demo = Gguf::open(demo()).unwrap();
        let mut writer = Writer::new();
        for (key, value) in demo.metadata().iter() {
            if key != "tokenizer.chat_template" {
                writer.set(key, Value::clone(value));
            }
        }
        for tensor in demo.tensors() {
            writer.tensor(tensor.name.as_str(), &tensor.dims, tensor.format, demo.data(tensor)).unwrap();
        }
        let path = self.path("plain.gguf");
        writer.write_file(&path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}
