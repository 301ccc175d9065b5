//! A chunk of a streamed answer on its way to the connection: framed as a server-sent event, through the channel, out of the
//! body. Beside it `serde_json::to_vec` of the same value alone.

use bloomery_benches::{Criterion, OURS, criterion};
use bloomery_server::http::Events;
use criterion::{BenchmarkId, criterion_group, criterion_main};
use http_body_util::BodyExt;
use serde_json::{Value, json};

fn chunk(logprobs: usize) -> Value {
    let tops: Vec<Value> = (0..logprobs)
        .map(|rank| json!({"id": 561, "token": " fox", "bytes": [32, 102, 111, 120], "logprob": -0.25 * rank as f64}))
        .collect();
    let probs = match logprobs {
        0 => Value::Null,
        _ => json!({"content": [{"id": 561, "token": " fox", "bytes": [32, 102, 111, 120], "logprob": -0.125,
            "top_logprobs": tops}]}),
    };
    json!({
        "choices": [{"finish_reason": null, "index": 0, "delta": {"content": " fox"}, "logprobs": probs}],
        "created": 1_796_000_000, "id": "chatcmpl-0123456789abcdefghijklmnopqrstuv", "model": "bloomery-demo",
        "system_fingerprint": "b1-0123456", "object": "chat.completion.chunk"
    })
}

fn events(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be built");
    let mut group = criterion.benchmark_group("event");
    for (name, value) in [("plain", chunk(0)), ("20 logprobs", chunk(20))] {
        let (sender, mut body) = Events::channel();
        let (sender, runtime) = (&sender, &runtime);
        let mut frame = || {
            let frame = runtime.block_on(body.frame()).expect("a frame was sent");
            frame.map(|frame| frame.into_data().expect("an event is data")).expect("a body never fails")
        };
        let ours = || runtime.block_on(sender.data(&value)).expect("the body is there");
        ours();
        let json = serde_json::to_string(&value).expect("a value can be written");
        assert_eq!(frame(), format!("data: {json}\n\n"), "{name}: the same work");
        group.bench_function(BenchmarkId::new(OURS, name), |bencher| {
            bencher.iter(|| {
                ours();
                frame().len()
            });
        });
        group.bench_function(BenchmarkId::new("to_vec alone", name), |bencher| {
            bencher.iter(|| serde_json::to_vec(&value).expect("a value can be written").len());
        });
    }
    group.finish();
}

criterion_group!(name = benches; config = criterion(); targets = events);
criterion_main!(benches);
