//! `cargo xtask docs`: links of the documents lead somewhere, and the commands in them work.

mod bench;
mod help;
mod links;
mod outside;
mod page;
mod rule;
mod server;
mod shell;
mod stage;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use bench::Bench;
use page::{Block, Page};
use rule::{RULES, Rule};

use crate::lint::Tree;

const USAGE: &str = "usage: cargo xtask docs [--run [--release] [--programs FOLDER] [PATH..]]";
/// A document and its translation.
const TWINS: (&str, &str) = ("README.md", "README.ko.md");
/// Other names of what is meant to be `sh`, under which commands would not be seen.
const SHELLS: [&str; 6] = ["bash", "shell", "console", "zsh", "shell-session", "terminal"];
/// What to do about a block that fails.
const ADVICE: &str = "a block that cannot work here needs a rule: CONTRIBUTING.md, \"Commands in documents\"";

/// Runs the command with the arguments after `docs`. The error is for people.
pub(crate) fn run(root: &Path, mut arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let (mut runs, mut release, mut programs, mut only) = (false, false, None, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--run" => runs = true,
            "--release" => release = true,
            "--programs" => programs = Some(PathBuf::from(arguments.next().ok_or(USAGE)?)),
            flag if flag.starts_with('-') => return Err(format!("{flag} is unknown\n{USAGE}")),
            path => only.push(path.to_owned()),
        }
    }
    let tree = Tree::read(root).map_err(|error| format!("the tree: {error}"))?;
    let pages: Vec<Page> = tree.pages().map(|(path, text)| Page::read(path, text)).collect();
    let files: HashSet<String> = tree.paths().map(str::to_owned).collect();
    let mut findings = links::check(&pages, &files);
    findings.extend(links::twins(&pages, TWINS.0, TWINS.1));
    let (blocks, wrong) = rules(&pages);
    findings.extend(wrong);
    let mut out = io::stdout().lock();
    let mut say = |line: &str| writeln!(out, "{line}").map_err(|error| format!("stdout: {error}"));
    for finding in &findings {
        say(finding)?;
    }
    say(&format!(
        "docs: {} pages, {} blocks of commands, {} findings",
        pages.len(),
        blocks.len(),
        findings.len()
    ))?;
    if runs {
        let chosen = |path: &str| only.is_empty() || only.iter().any(|only| only == path);
        let blocks: Vec<_> = blocks.into_iter().filter(|(page, ..)| chosen(&page.path)).collect();
        let start = Instant::now();
        let mut bench = Bench::new(root, release, programs)?;
        say(&format!("programs: {:.1} s", start.elapsed().as_secs_f64()))?;
        findings.extend(execute(&mut bench, &blocks, &mut say)?);
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("docs: {count} findings")),
    }
}

type Ruled<'a> = (&'a Page, &'a Block, Rule);

/// The blocks of commands with their rules, and what is wrong with rules.
fn rules(pages: &[Page]) -> (Vec<Ruled<'_>>, Vec<String>) {
    let (mut blocks, mut findings) = (Vec::new(), Vec::new());
    for page in pages {
        for mark in &page.stray {
            findings
                .push(format!("{}:{}: the rule `{}` has no block below it", page.path, mark.line, mark.text));
        }
        // How test data was made is a record, not a thing to do again.
        for block in page.blocks.iter().filter(|_| !page.path.contains("/tests/data/")) {
            let place = format!("{}:{}", page.path, block.line);
            match (block.info.as_str(), &block.rule) {
                ("sh", None) => blocks.push((page, block, Rule::Run)),
                ("sh", Some(text)) => match Rule::parse(text) {
                    Some(rule) => blocks.push((page, block, rule)),
                    None => findings.push(format!("{place}: `{text}` is no rule: {RULES}")),
                },
                (info, _) if SHELLS.contains(&info) => {
                    findings.push(format!("{place}: write `sh` instead of `{info}`: only those are checked"));
                }
                (info, Some(_)) => {
                    findings.push(format!("{place}: a rule for `{info}`: only `sh` has rules"))
                }
                (_, None) => {}
            }
        }
    }
    (blocks, findings)
}

/// Does to every block what its rule says. Returns a line for each that failed.
fn execute(
    bench: &mut Bench,
    blocks: &[Ruled<'_>],
    say: &mut impl FnMut(&str) -> Result<(), String>,
) -> Result<Vec<String>, String> {
    let start = Instant::now();
    let mut known: HashMap<(&Rule, &str), String> = HashMap::new();
    let mut failed = Vec::new();
    let mut skipped = Vec::new();
    for (page, block, rule) in blocks {
        let place = format!("{}:{}", page.path, block.line);
        if let Rule::Skip(reason) = rule {
            skipped.push(format!("   {place}: {reason}"));
            continue;
        }
        if let Some(first) = known.get(&(rule, block.text.as_str())) {
            say(&format!("{place}: {rule}: as {first}"))?;
            continue;
        }
        let begun = Instant::now();
        let outcome = bench.check(rule, &block.text);
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => say(&format!("{place}: {rule}: ok, {seconds:.1} s"))?,
            Err(why) => {
                say(&format!("{place}: {rule}: FAILED after {seconds:.1} s: {why}"))?;
                failed.push(place.clone());
            }
        }
        known.insert((rule, &block.text), place);
    }
    say(&format!(
        "docs: {} blocks in {:.0} s, {} failed",
        blocks.len(),
        start.elapsed().as_secs_f64(),
        failed.len()
    ))?;
    if !failed.is_empty() {
        say(ADVICE)?;
    }
    if !skipped.is_empty() {
        say(&format!("docs: {} blocks are not run here:", skipped.len()))?;
        skipped.iter().try_for_each(|line| say(line))?;
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> usize {
        rules(&[Page::read("a.md", text)]).1.len()
    }

    #[test]
    fn commands_stand_in_blocks_of_sh_with_rules_that_exist() {
        assert_eq!(
            wrong("```sh\nls\n```\n<!-- check: skip, a reason -->\n```sh\nls\n```\n```json\n{}\n```"),
            0
        );
        for text in [
            "```bash\nls\n```",
            "<!-- check: perhaps -->\n```sh\nls\n```",
            "<!-- check: run -->\n```json\n{}\n```",
            "<!-- check: run -->\ntext",
        ] {
            assert_eq!(wrong(text), 1, "{text}");
        }
    }

    #[test]
    fn a_block_without_a_rule_is_run() {
        let pages = [Page::read("a.md", "```sh\nls\n```")];
        assert_eq!(rules(&pages).0[0].2, Rule::Run);
    }
}
