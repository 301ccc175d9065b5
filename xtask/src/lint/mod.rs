//! Rules of the tree, one file per subject. A rule sees the whole tree and says where it is broken.

mod layers;
mod lexer;
mod msrv;
mod prose;
mod roots;
mod size;
mod tree;
mod unsafety;
mod words;

pub(crate) use tree::Tree;

use std::fmt;

/// A broken rule. Prints as `path:line: message [rule]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} [{}]", self.path, self.line, self.message, self.rule)
    }
}

/// Where rules leave what they find.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    /// `line` counts from 1.
    fn add(&mut self, rule: &'static str, path: &str, line: usize, message: impl Into<String>) {
        self.0.push(Finding { path: path.to_owned(), line, rule, message: message.into() });
    }
}

/// Every finding of every rule, by path and line.
pub(crate) fn run(tree: &Tree) -> Vec<Finding> {
    let mut findings = Findings::default();
    for rule in
        [unsafety::check, roots::check, words::check, layers::check, msrv::check, size::check, prose::check]
    {
        rule(tree, &mut findings);
    }
    findings.0.sort();
    findings.0
}

/// What one rule finds in made-up files, as `path:line`.
#[cfg(test)]
fn found(rule: fn(&Tree, &mut Findings), name: &str, files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Findings::default();
    rule(&Tree::of(files), &mut findings);
    findings.0.sort();
    findings.0.iter().filter(|f| f.rule == name).map(|f| format!("{}:{}", f.path, f.line)).collect()
}
