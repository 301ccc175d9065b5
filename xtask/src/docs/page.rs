//! A document: its blocks, links, headings and pieces of code.

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// Of the opening fence, from 1.
    pub(super) line: usize,
    /// What stands behind the opening fence.
    pub(super) info: String,
    pub(super) text: String,
    /// The comment `<!-- check: ... -->` above it.
    pub(super) rule: Option<String>,
}

/// Something that a line points to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) line: usize,
    pub(super) text: String,
}

/// What the checks want to know of a document.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) path: String,
    pub(super) blocks: Vec<Block>,
    /// Targets of links and images.
    pub(super) links: Vec<Mark>,
    /// Texts between backticks.
    pub(super) spans: Vec<Mark>,
    /// Names that a link can have behind its `#`.
    pub(super) anchors: Vec<String>,
    /// Depths of the headings, in their order.
    pub(super) depths: Vec<usize>,
    /// Comments `<!-- check: ... -->` that belong to no block.
    pub(super) stray: Vec<Mark>,
}

impl Page {
    pub(super) fn read(path: &str, text: &str) -> Self {
        let mut page = Self { path: path.to_owned(), ..Self::default() };
        let mut open: Option<(Block, String, usize)> = None;
        let mut rule: Option<Mark> = None;
        for (index, line) in text.lines().enumerate() {
            let (line, number) = (line.trim_end(), index + 1);
            let bare = line.trim_start();
            let indent = line.len() - bare.len();
            if let Some((block, fence, depth)) = &mut open {
                if bare == fence.as_str() {
                    page.blocks.extend(open.take().map(|(block, ..)| block));
                } else {
                    block.text.push_str(&line[indent.min(*depth)..]);
                    block.text.push('\n');
                }
                continue;
            }
            if let Some(info) = bare.strip_prefix("```") {
                let fence = "`".repeat(bare.len() - bare.trim_start_matches('`').len());
                let info = info.trim_start_matches('`').trim().to_owned();
                let rule = rule.take().map(|mark| mark.text);
                open = Some((Block { line: number, info, text: String::new(), rule }, fence, indent));
            } else if let Some(text) =
                bare.strip_prefix("<!-- check:").and_then(|rest| rest.strip_suffix("-->"))
            {
                page.stray.extend(rule.replace(Mark { line: number, text: text.trim().to_owned() }));
            } else if !bare.is_empty() {
                page.stray.extend(rule.take());
                page.prose(number, bare);
            }
        }
        page.stray.extend(rule);
        page.blocks.extend(open.map(|(block, ..)| block));
        page
    }

    fn prose(&mut self, line: usize, text: &str) {
        let depth = text.len() - text.trim_start_matches('#').len();
        if (1..=6).contains(&depth) && text[depth..].starts_with(' ') {
            let slug = slug(&text[depth..]);
            let before = self.anchors.iter().filter(|have| **have == slug).count();
            self.anchors.push(slug.clone());
            if before > 0 {
                self.anchors.push(format!("{slug}-{before}"));
            }
            self.depths.push(depth);
        }
        // Between backticks there are no links.
        let mut rest = String::new();
        for (index, part) in text.split('`').enumerate() {
            if index % 2 == 0 {
                rest.push_str(part);
            } else {
                self.spans.push(Mark { line, text: part.to_owned() });
                rest.push('c');
            }
        }
        for (open, close) in [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"'), ("href=\"", '"')] {
            for piece in rest.split(open).skip(1) {
                if let Some((target, _)) = piece.split_once(close) {
                    self.links.push(Mark { line, text: target.to_owned() });
                }
            }
        }
        for attribute in ["id=\"", "name=\""] {
            for piece in rest.split(attribute).skip(1) {
                self.anchors.extend(piece.split_once('"').map(|(name, _)| name.to_owned()));
            }
        }
    }
}

/// The name that GitHub gives to a heading.
fn slug(heading: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    // Of a link only its text counts.
    for piece in heading.trim().split_inclusive("](") {
        let piece = match inside {
            true => piece.split_once(')').map_or("", |(_, after)| after),
            false => piece,
        };
        inside = piece.ends_with("](");
        text.push_str(piece);
    }
    text.to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# A page

<!-- check: server --metrics -->

```sh
curl x # [no](link)
```

1. In a list:

   ```rust
   fn f() {
       g();
   }
   ```

## See [the *other*](b.md#part), `c.rs`
## 빠른 시작
## A page
<!-- check: run -->
Text with `[no](link)` and ![a plot](plots/a.svg).
";

    #[test]
    fn blocks_have_their_rule_and_no_indentation() {
        let page = Page::read("a.md", TEXT);
        assert_eq!(page.blocks.len(), 2);
        assert_eq!((page.blocks[0].line, page.blocks[0].info.as_str()), (5, "sh"));
        assert_eq!(page.blocks[0].rule.as_deref(), Some("server --metrics"));
        assert_eq!(page.blocks[1].text, "fn f() {\n    g();\n}\n");
        assert_eq!(page.stray, [Mark { line: 20, text: "run".to_owned() }]);
    }

    #[test]
    fn links_spans_and_anchors_are_found() {
        let page = Page::read("a.md", TEXT);
        let texts = |marks: &[Mark]| marks.iter().map(|mark| mark.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&page.links), ["b.md#part", "plots/a.svg"]);
        assert_eq!(texts(&page.spans), ["c.rs", "[no](link)"]);
        assert_eq!(page.anchors, ["a-page", "see-the-other-crs", "빠른-시작", "a-page", "a-page-1"]);
        assert_eq!(page.depths, [1, 2, 2, 2]);
    }
}
