//! Hidden states: what the head would have read.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[expect(dead_code, reason = "this binary uses a part of it")]
mod common;

use std::sync::mpsc;

use bloomery_core::scheduler::{Event, Job, Pooling, Scheduler, SchedulerOptions, Sink, SinkState};
use bloomery_core::{Engine, Numerics, Params};
use bloomery_gguf::Gguf;
use common::{Fixture, model_path};

struct Channel(mpsc::Sender<Event>);

impl Sink for Channel {
    fn state(&self) -> SinkState {
        SinkState::Open
    }

    fn send(&mut self, event: Event) {
        let _ = self.0.send(event);
    }
}

fn embed(scheduler: &Scheduler, tokens: &[u32], pooling: Pooling) -> Vec<f32> {
    let (sender, events) = mpsc::channel();
    let job = Job::new(tokens.to_vec(), Params::greedy(), Box::new(Channel(sender)));
    scheduler.submit(Job { embed: Some(pooling), ..job }).unwrap();
    let mut events = events.iter();
    events.find_map(|event| if let Event::Embedding(rows) = event { Some(rows) } else { None }).unwrap()
}

fn scheduler(engine: Engine) -> Scheduler {
    Scheduler::new(engine, SchedulerOptions::default()).unwrap()
}

#[test]
fn the_head_makes_logits_of_hidden_states() {
    let fixture = Fixture::read("llama-small-bf16");
    let engine = fixture.engine(Numerics::Exact);
    let width = engine.model().hidden;
    let gguf = Gguf::open(model_path(fixture.name)).unwrap();
    let head = gguf.tensor("output.weight").or(gguf.tensor("token_embd.weight")).unwrap();
    let mut weights = vec![0.0; width * fixture.vocab];
    bloomery_gguf::dequantize(head.format, gguf.data(head), &mut weights).unwrap();
    let expected = engine.session().unwrap().prefill(&fixture.ids).unwrap().to_vec();
    let hidden = embed(&scheduler(engine), &fixture.ids, Pooling::Last);
    for (row, expected) in weights.chunks_exact(width).zip(expected) {
        let terms = row.iter().zip(&hidden).map(|(&w, &x)| f64::from(w) * f64::from(x));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
        // f32 sums of `width` terms.
        let bound = size * width as f64 * f64::from(f32::EPSILON);
        assert!((sum - f64::from(expected)).abs() <= bound, "{sum} for {expected}");
    }
}

#[test]
fn parts_of_a_prompt_and_pooling_agree() {
    let fixture = Fixture::read("qwen3moe-k-q4_k_m");
    let whole = embed(&scheduler(fixture.engine(Numerics::Fast)), &fixture.ids, Pooling::None);
    let engine = fixture.builder().step_rows(7).plan().unwrap().load(|_| {}).unwrap();
    let width = engine.model().hidden;
    let scheduler = scheduler(engine);
    let parts = embed(&scheduler, &fixture.ids, Pooling::None);
    assert!(whole.iter().map(|x| x.to_bits()).eq(parts.iter().map(|x| x.to_bits())));
    assert_eq!(whole.len(), width * fixture.ids.len());
    assert_eq!(embed(&scheduler, &fixture.ids, Pooling::First), whole[..width]);
    assert_eq!(embed(&scheduler, &fixture.ids, Pooling::Last), whole[whole.len() - width..]);
    let mean = embed(&scheduler, &fixture.ids, Pooling::Mean);
    let column: f64 = whole.iter().step_by(width).map(|&x| f64::from(x)).sum();
    assert_eq!(mean[0], (column / fixture.ids.len() as f64) as f32);
}
