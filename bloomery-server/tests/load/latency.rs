//! How soon the first token of a known prompt comes.

use std::time::Duration;

use serde_json::json;

use crate::alone;
use crate::client::post;
use crate::figures::quantile;
use crate::process::Process;

const TRIES: usize = 40;

/// A thousand known tokens, of which one has to be computed, and one token of answer.
#[test]
fn a_known_prompt_is_answered_at_once() {
    let _turn = alone();
    let process = Process::start(&["-np", "2", "-c", "4096"]);
    let prompt: Vec<u32> = (0..1000).map(|i| 300 + i * 37 % 3000).collect();
    let body = json!({"prompt": prompt, "n_predict": 1, "temperature": 0, "stream": true});
    let mut times: [Vec<Duration>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..=TRIES {
        let reply = post(process.address, "/completion", &body).unwrap();
        let (sent, head) = (reply.sent, reply.head);
        let (body, first) = reply.finish().unwrap();
        times[0].push(head - sent);
        times[1].push(first.unwrap() - sent);
        let last = body.rsplit("data: ").next().unwrap_or_default();
        assert!(last.contains(r#""tokens_evaluated":1000"#), "{last}");
    }
    // The first one had to compute the prompt.
    let unknown = times[1].remove(0);
    times[0].remove(0);
    let [[_, head, _], [quick, first, late]] =
        times.map(|times| [0.25, 0.5, 0.99].map(|share| quantile(&times, share)));
    println!(
        "1000 tokens of prompt: {unknown:.1?} unknown; known: head {head:.2?}, first token {first:.2?}, p99 {late:.2?}"
    );
    // A quarter of the tries are free of what else the machine does.
    assert!(quick < Duration::from_millis(5), "the first token of a known prompt takes {quick:?}");
}
