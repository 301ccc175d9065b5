//! Links and names of files in documents, and the README in two languages.

use std::collections::HashSet;

use super::page::{Mark, Page};

/// A broken rule. Prints as `path:line: message`.
pub(super) type Finding = String;

/// Folders whose files are named in documents; a first part that is none of them is no path of this tree.
const ROOTS: [&str; 12] = [
    ".ci/",
    "benches/",
    "bloomery-core/",
    "bloomery-gguf/",
    "bloomery-kernels/",
    "bloomery-server/",
    "docs/",
    "examples/",
    "fuzz/",
    "packaging/",
    "tests/",
    "xtask/",
];

/// Folders that programs make and git ignores.
const MADE: [&str; 2] = ["fuzz/artifacts", "fuzz/corpus"];

/// Every link leads to a file of the tree and to a heading in it, and so does what looks like a path between backticks.
pub(super) fn check(pages: &[Page], files: &HashSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in pages {
        for link in &page.links {
            if let Err(why) = link_of(page, link, pages, files) {
                findings.push(format!("{}:{}: the link `{}` {why}", page.path, link.line, link.text));
            }
        }
        for span in &page.spans {
            if let Some(path) = path_of(&span.text)
                && !exists(files, path)
                && !MADE.iter().any(|made| path.starts_with(made))
            {
                findings.push(format!("{}:{}: `{path}` is not in the tree", page.path, span.line));
            }
        }
    }
    findings
}

fn link_of(page: &Page, link: &Mark, pages: &[Page], files: &HashSet<String>) -> Result<(), String> {
    let target = &link.text;
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (file, anchor) =
        target.split_once('#').map_or((target.as_str(), None), |(file, name)| (file, Some(name)));
    let path = match file.is_empty() {
        true => page.path.clone(),
        false => resolve(&page.path, file).ok_or("leaves the tree")?,
    };
    if !path.is_empty() && !exists(files, &path) {
        return Err(format!("leads nowhere: there is no {path}"));
    }
    match (anchor, pages.iter().find(|page| page.path == path)) {
        (Some(anchor), Some(page)) if !page.anchors.iter().any(|have| have == anchor) => {
            Err(format!("leads to no heading of {path}; it has {}", page.anchors.join(", ")))
        }
        _ => Ok(()),
    }
}

/// A path of this tree that a span names, its arguments left out.
fn path_of(span: &str) -> Option<&str> {
    let path = span.split_whitespace().next()?.trim_end_matches('/');
    let known = ROOTS.iter().any(|root| path.starts_with(root));
    // A name in capitals or a pattern stands for many files.
    let plain = !path.contains(['*', '<', '{', '$', '(']);
    let fixed = path
        .split(['/', '.', '-'])
        .all(|part| part.is_empty() || part.chars().any(|c| !c.is_ascii_uppercase()));
    (known && plain && fixed).then_some(path)
}

fn exists(files: &HashSet<String>, path: &str) -> bool {
    files.contains(path)
        || files.iter().any(|file| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
}

fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// A translation has the headings, commands and links of what it translates.
pub(super) fn twins(pages: &[Page], one: &str, two: &str) -> Vec<Finding> {
    let find = |path: &str| pages.iter().find(|page| page.path == path);
    let (Some(first), Some(second)) = (find(one), find(two)) else {
        return vec![format!("{one}:1: {one} and {two} belong together, and one of them is missing")];
    };
    let blocks = |page: &Page| -> Vec<String> {
        let commands = page.blocks.iter().filter(|block| block.info == "sh");
        commands.map(|block| format!("{:?} {}", block.rule, block.text)).collect()
    };
    let links = |page: &Page| -> Vec<String> {
        let mut links: Vec<_> = page.links.iter().map(|link| link.text.clone()).collect();
        links.retain(|link| link != one && link != two);
        links.sort();
        links
    };
    let mut findings = Vec::new();
    let mut same = |what: &str, equal: bool| {
        if !equal {
            findings.push(format!("{two}:1: its {what} are not those of {one}"));
        }
    };
    same("headings", first.depths == second.depths);
    same("blocks of commands", blocks(first) == blocks(second));
    same("links", links(first) == links(second));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        let pages = [Page::read("docs/a.md", text), Page::read("README.md", "# The start\n")];
        let files = ["docs/a.md", "README.md", "docs/plots/x.svg"].map(str::to_owned).into();
        check(&pages, &files).len()
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let fine =
            "# Here\n[a](../README.md#the-start) [b](#here) ![c](plots/x.svg) [d](plots) [e](https://a.b/#c)";
        assert_eq!(found(fine), 0);
        for broken in
            ["[a](../README.md#the-end)", "[a](#here)", "[a](b.md)", "[a](../../b.md)", "[a](/README.md)"]
        {
            assert_eq!(found(broken), 1, "{broken}");
        }
    }

    #[test]
    fn paths_between_backticks_are_in_the_tree() {
        assert_eq!(
            found(
                "`docs/plots`, `docs/plots/x.svg --flag`, `docs/NAME.md`, `docs/*.md`, `text/event-stream`"
            ),
            0
        );
        assert_eq!(found("`docs/plots/y.svg`"), 1);
    }

    #[test]
    fn twins_differ_in_nothing_but_language() {
        let one = Page::read("A.md", "# One\n[b](B.md)\n```sh\nls\n```\n[x](x.md)");
        let two = |text: &str| Page::read("B.md", text);
        let count = |text: &str| {
            twins(
                &[Page::read("A.md", "# One\n[b](B.md)\n```sh\nls\n```\n[x](x.md)"), two(text)],
                "A.md",
                "B.md",
            )
            .len()
        };
        assert_eq!(count("# 하나\n[a](A.md)\n```sh\nls\n```\n[x](x.md)"), 0);
        assert_eq!(count("## 하나\n[a](A.md)\n```sh\nls -l\n```\n[y](x2.md)"), 3);
        assert_eq!(twins(&[one], "A.md", "B.md").len(), 1);
    }
}
