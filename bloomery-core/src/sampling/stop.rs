//! Stop strings across the borders of text pieces.
//!
//! One Aho-Corasick automaton over the bytes of all stop strings. Its state is the longest ending of the
//! text that begins some stop string, so its depth is exactly what must be held back.

use std::collections::VecDeque;
use std::sync::Arc;

/// What a piece of text led to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StopStep {
    /// Text that no stop string can take back any more.
    pub emit: String,
    /// The stop string that ended the text, as an index into those given. Set once; nothing follows.
    pub stopped: Option<usize>,
}

#[derive(Debug, Default)]
struct Node {
    /// (byte, node), by byte.
    next: Vec<(u8, u32)>,
    /// The node of the longest proper ending that begins a stop string.
    fail: u32,
    /// Bytes from the root.
    depth: usize,
    /// The longest stop string that ends here: (index, bytes).
    ends: Option<(usize, usize)>,
}

/// Looks for stop strings in text that arrives in pieces.
///
/// The result does not depend on how the text is cut. The stop string that is complete first wins, and of
/// those complete at the same byte the longest, so the one that begins earliest. A clone is a fork.
#[derive(Debug, Clone)]
pub struct StopMatcher {
    nodes: Arc<[Node]>,
    stops: Arc<[String]>,
    state: u32,
    held: String,
    stopped: bool,
}

impl StopMatcher {
    /// A matcher for these strings; empty ones never match. With none, all text passes at once.
    pub fn new<S: Into<String>>(stops: impl IntoIterator<Item = S>) -> Self {
        let stops: Vec<String> = stops.into_iter().map(Into::into).collect();
        Self {
            nodes: automaton(&stops).into(),
            stops: stops.into(),
            state: 0,
            held: String::new(),
            stopped: false,
        }
    }

    /// The strings it looks for, as given.
    pub fn stops(&self) -> &[String] {
        &self.stops
    }

    /// Takes the next piece; returns what may go out. After a stop everything is swallowed.
    pub fn push(&mut self, text: &str) -> StopStep {
        if self.stopped {
            return StopStep::default();
        }
        let before = self.held.len();
        self.held.push_str(text);
        for (i, byte) in text.bytes().enumerate() {
            self.state = step(&self.nodes, self.state, byte);
            if let Some((index, length)) = self.nodes[self.state as usize].ends {
                self.stopped = true;
                self.held.truncate(before + i + 1 - length);
                return StopStep { emit: std::mem::take(&mut self.held), stopped: Some(index) };
            }
        }
        // the held text begins where a stop string may begin, which in UTF-8 is the border of a character
        let held = self.held.split_off(self.held.len() - self.nodes[self.state as usize].depth);
        StopStep { emit: std::mem::replace(&mut self.held, held), stopped: None }
    }

    /// The text still held back, for when generation ends another way. The matcher starts over.
    pub fn finish(&mut self) -> String {
        self.state = 0;
        self.stopped = false;
        std::mem::take(&mut self.held)
    }
}

fn child(node: &Node, byte: u8) -> Option<u32> {
    node.next.binary_search_by_key(&byte, |e| e.0).ok().map(|i| node.next[i].1)
}

fn step(nodes: &[Node], mut state: u32, byte: u8) -> u32 {
    loop {
        let node = &nodes[state as usize];
        match child(node, byte) {
            Some(next) => return next,
            None if state == 0 => return 0,
            None => state = node.fail,
        }
    }
}

fn automaton(stops: &[String]) -> Vec<Node> {
    let mut nodes = vec![Node::default()];
    for (index, stop) in stops.iter().enumerate().filter(|s| !s.1.is_empty()) {
        let mut at = 0;
        for byte in stop.bytes() {
            let depth = nodes[at].depth + 1;
            at = match nodes[at].next.binary_search_by_key(&byte, |e| e.0) {
                Ok(i) => nodes[at].next[i].1 as usize,
                Err(i) => {
                    let new = nodes.len();
                    nodes[at].next.insert(i, (byte, new as u32));
                    nodes.push(Node { depth, ..Node::default() });
                    new
                }
            };
        }
        // of equal strings the first given
        nodes[at].ends.get_or_insert((index, stop.len()));
    }
    // breadth first: a fail link points to a shallower node, which is complete by then
    let mut queue = VecDeque::from([0u32]);
    while let Some(at) = queue.pop_front() {
        for (byte, next) in nodes[at as usize].next.clone() {
            let fail = if at == 0 { 0 } else { step(&nodes, nodes[at as usize].fail, byte) };
            let inherited = nodes[fail as usize].ends;
            let node = &mut nodes[next as usize];
            node.fail = fail;
            node.ends = node.ends.or(inherited);
            queue.push_back(next);
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Looks at every prefix of the text for a stop string at its end.
    fn oracle<'t>(stops: &[String], text: &'t str) -> (&'t str, Option<usize>) {
        for end in (0..=text.len()).filter(|&i| text.is_char_boundary(i)) {
            let ending = |s: &&String| !s.is_empty() && text[..end].ends_with(s.as_str());
            if let Some(stop) = stops.iter().filter(ending).max_by_key(|s| s.len()) {
                return (&text[..end - stop.len()], stops.iter().position(|s| s == stop));
            }
        }
        (text, None)
    }

    /// Bytes of the longest ending of `text` that begins a stop string.
    fn holdable(stops: &[String], text: &str) -> usize {
        (0..=text.len())
            .filter(|&i| text.is_char_boundary(i))
            .find(|&i| stops.iter().any(|s| s.len() > text.len() - i && s.starts_with(&text[i..])))
            .map_or(0, |i| text.len() - i)
    }

    proptest! {
        #[test]
        fn equals_the_oracle_however_cut(
            stops in prop::collection::vec("[ab€é]{0,4}", 0..5),
            pieces in prop::collection::vec("[abc€é]{0,5}", 0..12),
        ) {
            let text = pieces.concat();
            let (expected, index) = oracle(&stops, &text);
            let mut matcher = StopMatcher::new(stops.clone());
            let (mut out, mut stopped, mut seen) = (String::new(), None, String::new());
            for piece in &pieces {
                let was = stopped;
                let step = matcher.push(piece);
                seen.push_str(piece);
                out.push_str(&step.emit);
                if was.is_some() {
                    prop_assert_eq!(step, StopStep::default());
                    continue;
                }
                stopped = step.stopped;
                if stopped.is_none() {
                    // exactly what may still become a stop string is held, no more
                    prop_assert_eq!(seen.len() - out.len(), holdable(&stops, &seen));
                }
            }
            out.push_str(&matcher.finish());
            prop_assert_eq!(out.as_str(), expected);
            prop_assert_eq!(stopped, index);
        }
    }

    #[test]
    fn by_hand() {
        let mut m = StopMatcher::new(["<|im_end|>", "\n\nHuman:", "Human"]);
        assert_eq!(m.push("ok <|im").emit, "ok ");
        assert_eq!(m.push("_start").emit, "<|im_start");
        assert_eq!(m.push("\n").emit, "");
        assert_eq!(m.push("\n\nHum").emit, "\n");
        let mut fork = m.clone();
        assert_eq!(m.push("an: x"), StopStep { emit: "\n\n".into(), stopped: Some(2) });
        assert_eq!(m.push("more"), StopStep::default());
        assert_eq!(m.finish(), "");
        assert_eq!(fork.finish(), "\n\nHum");
        assert_eq!(fork.push("an"), StopStep { emit: "an".into(), stopped: None });
    }

    #[test]
    fn none_and_empty() {
        let mut m = StopMatcher::new(Vec::<String>::new());
        assert_eq!(m.push("text"), StopStep { emit: "text".into(), stopped: None });
        let mut m = StopMatcher::new(["", "x"]);
        assert_eq!(m.push("ax"), StopStep { emit: "a".into(), stopped: Some(1) });
    }
}
