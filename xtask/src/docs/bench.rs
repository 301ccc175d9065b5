//! The place where commands of documents are run: a folder that looks like the root of the tree, with the files that
//! the commands name, and programs that are built.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::help::Help;
use super::rule::Rule;
use super::server::{Group, Server, free_port, ready};
use super::{outside, shell, stage};

/// Small files that commands name, and a list of links to larger ones.
const FILES: &str = "tests/docs/files";
const LINKS: &str = "tests/docs/links";
/// What no link is made to: cargo finds the workspace by walking up, and would take a second one here for another.
const NOT_LINKED: [&str; 5] = ["Cargo.toml", "Cargo.lock", ".git", ".cargo", "target"];
/// Addresses of a server in documents.
const ADDRESSES: [&str; 3] = ["127.0.0.1:8080", "localhost:8080", "server:8080"];
/// `cargo run` of what is built already. Cargo would build it once more, with the features that it alone needs.
const BUILT: &str = r#"
cargo() {
    local name="" words=("$@")
    [[ $1 == run ]] || { command cargo "${words[@]}"; return; }
    shift
    while [[ $# -gt 0 ]]; do
        case $1 in
            --release) shift ;;
            --bin) name=$2; shift 2 ;;
            --example) name=examples/$2; shift 2 ;;
            --) shift; break ;;
            *) command cargo "${words[@]}"; return ;;
        esac
    done
    "$PROGRAMS/$name" "$@"
}
"#;
/// How long a block may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Everything that blocks need.
#[derive(Debug)]
pub(super) struct Bench {
    root: PathBuf,
    /// Where commands run.
    folder: PathBuf,
    /// Where the programs are.
    programs: PathBuf,
    release: bool,
    script: String,
    help: Help,
    servers: Vec<Server>,
    count: usize,
}

impl Bench {
    /// Builds the programs, unless a folder has them, and lays out the folder.
    pub(super) fn new(root: &Path, release: bool, built: Option<PathBuf>) -> Result<Self, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let programs = match built {
            Some(folder) => {
                folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?
            }
            None => {
                build(root, release)?;
                target.join(if release { "release" } else { "debug" })
            }
        };
        // Inside of the tree, whatever the target folder is: cargo must find the workspace above.
        let folder = root.join("target/docs");
        lay_out(root, &folder, &target).map_err(|error| format!("{}: {error}", folder.display()))?;
        let script = root.join(".ci/run");
        let script = fs::read_to_string(&script).map_err(|error| format!("{}: {error}", script.display()))?;
        Ok(Self {
            root: root.to_owned(),
            folder,
            programs,
            release,
            script,
            help: Help::default(),
            servers: Vec::new(),
            count: 0,
        })
    }

    /// Checks one block.
    pub(super) fn check(&mut self, rule: &Rule, text: &str) -> Result<(), String> {
        if matches!(rule, Rule::Run | Rule::Server(_) | Rule::Serve) {
            outside::check(text)?;
            // A command in the background fails unseen.
            self.help.check(text, &self.programs, &self.root, false)?;
        }
        match rule {
            Rule::Skip(_) => Ok(()),
            Rule::Stage => stage::check(text, &self.script),
            Rule::Parse => self.help.check(text, &self.programs, &self.root, true),
            Rule::Run => self.run(text),
            Rule::Plan => {
                if let Some(words) = shell::commands(text).iter().find(|words| words[0] != "bloomery-serve") {
                    return Err(format!("`{}` knows no --plan: parse looks its flags up", words[0]));
                }
                self.run(&format!("bloomery-serve() {{ command bloomery-serve \"$@\" --plan; }}\n{text}"))
            }
            Rule::Server(flags) => {
                let port = self.server(flags)?;
                let address = format!("127.0.0.1:{port}");
                let text = ADDRESSES.iter().fold(text.to_owned(), |text, from| text.replace(from, &address));
                self.run(&text)
            }
            Rule::Serve => self.serve(text),
        }
    }

    fn run(&mut self, text: &str) -> Result<(), String> {
        let (mut command, log) = self.command(text, free_port()?)?;
        let mut group = Group::start(&mut command, &log)?;
        match group.wait(PATIENCE)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{status}\n{}", tail(&log))),
            None => Err(format!("not done in {} s\n{}", PATIENCE.as_secs(), tail(&log))),
        }
    }

    fn serve(&mut self, text: &str) -> Result<(), String> {
        let port = free_port()?;
        // The shell outlives the signal, so that its status is the server's.
        let (mut command, log) = self.command(&format!("trap : TERM\n{text}"), port)?;
        let mut group = Group::start(&mut command, &log)?;
        ready(port, &mut group).map_err(|why| format!("{why}\n{}", tail(&log)))?;
        match group.end()? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("ended with {status}\n{}", tail(&log))),
            None => Err("did not end when it was told to".to_owned()),
        }
    }

    /// A server with these flags, and perhaps one that runs already.
    fn server(&mut self, flags: &[String]) -> Result<u16, String> {
        if let Some(server) = self.servers.iter().find(|server| server.flags == flags) {
            return Ok(server.port);
        }
        let log = self.log();
        let program = self.programs.join("bloomery-serve");
        let server = Server::start(&program, &self.folder, flags, &log)
            .map_err(|why| format!("{why}\n{}", tail(&log)))?;
        let port = server.port;
        self.servers.push(server);
        Ok(port)
    }

    /// A shell that runs the text, and where it will write. Programs of ours are in the path, curl fails on an error
    /// status, servers take the port, downloads are off, and nothing is written to the user's home.
    fn command(&mut self, text: &str, port: u16) -> Result<(Command, PathBuf), String> {
        let log = self.log();
        let mut prelude =
            "set -euo pipefail\ncurl() { command curl -sS --fail-with-body \"$@\"; }\n".to_owned();
        if !self.release {
            prelude += BUILT;
        }
        let home = std::env::var_os("HOME").map_or_else(PathBuf::new, PathBuf::from);
        let keep = |name: &str, folder: &str| {
            std::env::var_os(name).unwrap_or_else(|| home.join(folder).into_os_string())
        };
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("{prelude}{text}")])
            .current_dir(&self.folder)
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("CARGO_HOME", keep("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", keep("RUSTUP_HOME", ".rustup"))
            .env("HOME", self.folder.join("home"))
            .env("PROGRAMS", &self.programs)
            .env("HF_HUB_OFFLINE", "1")
            .env("LLAMA_ARG_PORT", port.to_string());
        Ok((command, log))
    }

    fn log(&mut self) -> PathBuf {
        self.count += 1;
        self.folder.join(format!("home/block-{}.log", self.count))
    }
}

/// With the features that `cargo test --workspace` has, so that after it there is nothing to do.
fn build(root: &Path, release: bool) -> Result<(), String> {
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--workspace", "--bins", "--examples"]).current_dir(root);
    if release {
        build.arg("--release");
    }
    match build.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo build: {status}")),
        Err(error) => Err(format!("cargo build: {error}")),
    }
}

/// Makes the folder anew.
fn lay_out(root: &Path, folder: &Path, target: &Path) -> std::io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder.join("home"))?;
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        if !NOT_LINKED.iter().any(|not| name == *not) {
            symlink(root.join(&name), folder.join(&name))?;
        }
    }
    symlink(target, folder.join("target"))?;
    for entry in fs::read_dir(root.join(FILES))? {
        let entry = entry?;
        fs::copy(entry.path(), folder.join(entry.file_name()))?;
    }
    for line in fs::read_to_string(root.join(LINKS))?.lines().filter(|line| !line.starts_with('#')) {
        if let Some((name, source)) = line.split_once(char::is_whitespace) {
            symlink(root.join(source.trim()), folder.join(name))?;
        }
    }
    Ok(())
}

/// The end of what was said.
fn tail(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
