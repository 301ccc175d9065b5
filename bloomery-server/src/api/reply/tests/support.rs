//! Steps to tell of, and facts that do not change.

use std::time::Duration;

use bloomery_core::scheduler::Progress;
use serde_json::Value;

use super::super::{End, Facts, Finish, Frame, Message, Step, Whole, Wire};
use crate::chat::Delta;

pub(super) fn facts() -> Facts {
    Facts { id: "ID".to_owned(), created: 7, ..Facts::new("demo", 10) }
}

pub(super) fn progress(prompt: usize, generated: usize) -> Progress {
    let time = Duration::from_millis;
    Progress {
        cached: 4,
        prompt,
        prompt_time: time(prompt as u64),
        generated,
        generate_time: time(generated as u64),
        ..Progress::default()
    }
}

pub(super) fn started() -> Step {
    Step::Started { cached: 4 }
}

pub(super) fn token(generated: usize, deltas: Vec<Delta>) -> Step {
    Step::Token { deltas, probs: None, progress: progress(6, generated) }
}

pub(super) fn end(finish: Finish, deltas: Vec<Delta>) -> Step {
    Step::End(End { deltas, finish, progress: progress(6, 9), verbose: None })
}

pub(super) fn content(text: &str) -> Delta {
    Delta::Content(text.to_owned())
}

pub(super) fn reasoning(text: &str) -> Delta {
    Delta::Reasoning(text.to_owned())
}

/// A call in three pieces.
pub(super) fn call(index: usize, name: &str, arguments: [&str; 2]) -> Vec<Delta> {
    let fragment = |text: &str| Delta::ToolArguments { index, fragment: text.to_owned() };
    vec![
        Delta::ToolStart { index, id: format!("c{index}"), name: name.to_owned() },
        fragment(arguments[0]),
        fragment(arguments[1]),
        Delta::ToolEnd { index },
    ]
}

/// The steps of a reply that thinks, talks and calls two tools.
pub(super) fn rich() -> Vec<Step> {
    vec![
        started(),
        Step::Prompt(progress(6, 0)),
        token(1, vec![reasoning("Hm")]),
        token(2, vec![reasoning("m.")]),
        token(3, vec![content("Let me")]),
        token(4, vec![]),
        token(5, vec![content(" look.")]),
        token(6, call(0, "f", ["{\"a\":", "1}"])),
        token(7, call(1, "g", ["{", "}"])),
        end(Finish::ToolCalls, vec![]),
    ]
}

/// All frames of a stream with one choice.
pub(super) fn frames(wire: &mut dyn Wire, steps: &[Step]) -> Vec<Frame> {
    let mut out = Vec::new();
    steps.iter().for_each(|step| wire.step(0, step, &mut out));
    out
}

/// The same steps put together.
pub(super) fn whole(steps: &[Step]) -> Whole {
    let mut message = Message::default();
    for step in steps {
        match step {
            Step::Token { deltas, .. } => deltas.iter().for_each(|delta| message.push(delta)),
            Step::End(end) => {
                end.deltas.iter().for_each(|delta| message.push(delta));
                let (finish, progress) = (end.finish.clone(), end.progress);
                return Whole { message, probs: Vec::new(), finish, progress, verbose: None };
            }
            _ => {}
        }
    }
    panic!("no end");
}

/// The payload of an event with its name.
pub(super) fn named(frame: &Frame) -> (&str, &Value) {
    match frame {
        Frame::Event(name, value) => {
            assert_eq!(value["type"], *name);
            (name, value)
        }
        other => panic!("{other:?}"),
    }
}
