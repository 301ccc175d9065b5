//! What is told of experts on two sides, with made-up numbers.

use std::time::Duration;

use bloomery_core::scheduler::{Counters, Progress};
use bloomery_core::{Bytes as Size, PrefixStats, Traffic};
use serde_json::{Map, json};

use super::super::answer::Answer;
use super::super::generation::Generation;
use super::super::jobs::Jobs;
use super::super::metrics::page;
use super::super::native::Native;
use super::super::placement::{metrics, of_engine};
use super::super::reply::{
    AnthropicWire, ChatWire, End, Facts, Finish, Frame, Message, ResponsesWire, Step, Whole, Wire,
};
use super::*;

fn traffic() -> Traffic {
    let mut traffic = Traffic::default();
    (traffic.card, traffic.experts, traffic.slots) = (1, 6144, 618);
    (traffic.chosen, traffic.on_card, traffic.moves) = (3072, 768, 5);
    (traffic.copied, traffic.host_read) = (Size(15_000_000), Size(7_000_000_000));
    (traffic.host_time, traffic.wait_time) = (Duration::from_micros(62_500), Duration::from_micros(1_250));
    (traffic.streamed_steps, traffic.served_steps, traffic.served_rows) = (1, 8, 24);
    (traffic.link_rate, traffic.host_rate) = (49e9, 107e9);
    traffic
}

fn progress(traffic: Option<Traffic>) -> Progress {
    Progress { prompt: 3, generated: 9, traffic, ..Progress::default() }
}

/// What the timings say with [`traffic`].
fn told() -> Value {
    json!({
        "device": "CUDA1", "slots": 618, "experts": 6144,
        "choices_n": 3072, "hits_n": 768,
        "host_bytes": 7_000_000_000_u64, "host_ms": 62.5, "wait_ms": 1.25,
        "copied_bytes": 15_000_000, "moves_n": 5, "served_n": 8, "streamed_n": 1,
        "hit_rate": 0.25,
    })
}

/// A generated token, and the end.
fn steps(progress: Progress) -> [Step; 3] {
    let deltas = vec![crate::chat::Delta::Content("a".to_owned())];
    [
        Step::Started { cached: 0 },
        Step::Token { deltas, probs: None, progress },
        Step::End(End { deltas: vec![], finish: Finish::Stop, progress, verbose: None }),
    ]
}

/// The `timings` of all events.
fn streamed(wire: &mut dyn Wire, progress: Progress) -> Vec<Value> {
    let mut frames = Vec::new();
    steps(progress).iter().for_each(|step| wire.step(0, step, &mut frames));
    let timings = |frame: &Frame| match frame {
        Frame::Data(value) | Frame::Event(_, value) => value.get("timings").cloned(),
        _ => None,
    };
    frames.iter().filter_map(timings).collect()
}

#[test]
fn streams_tell_it_wherever_they_have_timings() {
    let facts = || Facts { timings_per_token: true, ..Facts::new("demo", 3) };
    let wires: [fn(Facts) -> Box<dyn Wire>; 2] =
        [|facts| Box::new(ChatWire::new(facts)), |facts| Box::new(ResponsesWire::new(facts))];
    for wire in wires {
        let timings = streamed(wire(facts()).as_mut(), progress(Some(traffic())));
        assert_eq!(timings.len(), 2);
        assert!(timings.iter().all(|timings| timings["placement"] == told()), "{timings:?}");
        let without = streamed(wire(facts()).as_mut(), progress(None));
        assert!(without.iter().all(|timings| timings.get("placement").is_none()), "{without:?}");
    }
    let anthropic = streamed(&mut AnthropicWire::new(facts()), progress(Some(traffic())));
    assert_eq!(anthropic, [Value::Null; 0], "Anthropic's API has no timings");
}

#[test]
fn a_whole_chat_completion_tells_it() {
    let whole = |traffic| Whole {
        message: Message::default(),
        probs: vec![],
        finish: Finish::Stop,
        progress: progress(traffic),
        verbose: None,
    };
    let wire = ChatWire::new(Facts::new("demo", 3));
    let timings = |traffic| wire.object(&[whole(traffic)])["timings"].clone();
    assert_eq!(timings(Some(traffic()))["placement"], told());
    assert_eq!(timings(None).get("placement"), None);
}

#[tokio::test]
async fn the_native_object_tells_it() {
    let app = shared();
    let generation = Generation::read(&app, &Map::new()).unwrap();
    let jobs = Jobs::submit(&app, vec![vec![258, 561]], &generation, vec![], json!({})).unwrap();
    let native = Native { app: &app, generation: &generation, settings: &json!({}) };
    let answer = |traffic| Answer { progress: progress(traffic), ..Answer::default() };
    assert_eq!(native.last(&jobs, 0, &answer(Some(traffic())))["timings"]["placement"], told());
    assert_eq!(native.last(&jobs, 0, &answer(None))["timings"].get("placement"), None);
}

#[test]
fn prompts_alone_have_no_hit_rate() {
    let mut streamed = traffic();
    (streamed.chosen, streamed.on_card) = (0, 0);
    let timings = super::super::timings::timings(&progress(Some(streamed)));
    assert_eq!(timings["placement"].get("hit_rate"), None);
    assert_eq!(timings["placement"]["choices_n"], 0);
}

#[tokio::test]
async fn metrics_have_a_family_for_each_number() {
    let text = metrics(&traffic());
    let mut values = Vec::new();
    let mut family = "";
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split_once(' ').unwrap().0;
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let total = family.ends_with("_total");
            assert_eq!(kind, format!("{family} {}", if total { "counter" } else { "gauge" }));
        } else {
            let (name, value) = line.split_once(' ').unwrap();
            assert_eq!(name.split_once('{').map_or(name, |(name, _)| name), family, "{line}");
            values.push((name.strip_prefix("bloomery_").unwrap(), value.parse::<f64>().unwrap()));
        }
    }
    let wanted = [
        ("experts", 6144.0),
        ("expert_slots", 618.0),
        ("expert_served_rows", 24.0),
        ("expert_choices_total", 3072.0),
        ("expert_hits_total", 768.0),
        ("expert_moves_total", 5.0),
        ("expert_bytes_total{tier=\"host\"}", 7e9),
        ("expert_bytes_total{tier=\"link\"}", 15e6),
        ("expert_steps_total{way=\"served\"}", 8.0),
        ("expert_steps_total{way=\"streamed\"}", 1.0),
        ("expert_host_seconds_total{what=\"computing\"}", 0.0625),
        ("expert_host_seconds_total{what=\"waiting\"}", 0.00125),
        ("link_bytes_per_second", 49e9),
        ("host_bytes_per_second", 107e9),
    ];
    assert_eq!(values, wanted);
    let app = shared();
    let mut status = app.scheduler.status();
    let whole = |status: &_| page(status, &Counters::default(), &PrefixStats::default());
    assert!(!whole(&status).contains("bloomery_"));
    status.traffic = Some(traffic());
    assert!(whole(&status).ends_with(&format!("\n{text}")), "it is part of the page");
    assert!(!get(&app, "/metrics").await.1.as_str().unwrap().contains("bloomery_"));
}

#[tokio::test]
async fn props_have_the_terms_of_the_plan() {
    let app = shared();
    let placement = get(&app, "/props").await.1["placement"].clone();
    assert_eq!(placement["place"], "cpu");
    let terms = placement["terms"].as_array().unwrap();
    let file = terms.iter().find(|term| term["what"] == "file").unwrap();
    assert_eq!(keys(file), ["what", "bytes", "detail"]);
    assert!(file["bytes"].as_u64().unwrap() > 8 << 20);
    assert_eq!(terms.len(), app.engine.terms().len());
    assert_eq!((&placement["host_terms"], placement.get("experts")), (&json!([]), None));
    let experts = &of_engine(&app.engine, Some(&traffic()))["experts"];
    let wanted = json!({"device": "CUDA1", "slots": 618, "experts": 6144, "served_rows": 24,
        "link_bytes_per_second": 49e9, "host_bytes_per_second": 107e9});
    assert_eq!(*experts, wanted);
}
