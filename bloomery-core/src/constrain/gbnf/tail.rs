//! Rules that end with themselves, as repetitions.
//!
//! The engine keeps every level of `list ::= item ("," list)?` open until the last item, so a list of a thousand would
//! be too complex for it. `list ::= (item ",")* item` means the same.

use super::node::Node;

/// The rule `rule` without itself at its end.
pub(super) fn repeated(rule: usize, body: Node) -> Node {
    let (again, last) = split(rule, &body);
    match (again, last) {
        (Some(again), Some(last)) => Node::Sequence(vec![Node::Repeat(Box::new(again), 0, None), last]),
        _ => body,
    }
}

/// What stands before the rule where it ends with itself, and the ways in which it does not.
fn split(rule: usize, node: &Node) -> (Option<Node>, Option<Node>) {
    match node {
        Node::Rule(other) if *other == rule => (Some(Node::Sequence(Vec::new())), None),
        Node::Sequence(parts) => {
            let Some((end, before)) = parts.split_last() else { return (None, Some(node.clone())) };
            let (again, last) = split(rule, end);
            if again.is_none() {
                return (None, Some(node.clone()));
            }
            let behind = |end: Node| Node::Sequence(before.iter().cloned().chain([end]).collect());
            (again.map(behind), last.map(behind))
        }
        Node::Choice(parts) => {
            let (again, last): (Vec<_>, Vec<_>) = parts.iter().map(|part| split(rule, part)).unzip();
            (one_of(again), one_of(last))
        }
        Node::Repeat(inner, 0, Some(1)) => {
            let (again, last) = split(rule, inner);
            (again, one_of(vec![last, Some(Node::Sequence(Vec::new()))]))
        }
        _ => (None, Some(node.clone())),
    }
}

fn one_of(parts: Vec<Option<Node>>) -> Option<Node> {
    let mut parts: Vec<Node> = parts.into_iter().flatten().collect();
    if parts.len() > 1 { Some(Node::Choice(parts)) } else { parts.pop() }
}
