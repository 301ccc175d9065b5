//! Where plans put a model, on machines that do not exist.

#![cfg(feature = "cuda")]

#[expect(dead_code, reason = "this binary uses a part of it")]
mod common;

use std::num::NonZeroUsize;

use bloomery_core::{
    Bytes, CardFacts, Cards, Context, Engine, EngineBuilder, HostFacts, ModelSource, Numerics, Placement,
    PlanError,
};
use common::model_path;

const GIB: u64 = 1 << 30;

fn card(name: &str, gib: u64) -> CardFacts {
    CardFacts::new(name, Bytes(gib * GIB))
}

fn builder(cards: impl IntoIterator<Item = CardFacts>) -> EngineBuilder {
    let host = HostFacts::new(Bytes(4 * GIB), NonZeroUsize::MIN);
    let path = model_path("qwen3moe-k-q4_k_m");
    Engine::builder(path.as_path()).context(Context::Tokens(256)).host(host).cards(Cards::given(cards))
}

#[test]
fn auto_is_the_first_card_with_room() {
    let plan = builder([card("large", 80)]).plan().unwrap();
    assert_eq!((plan.placement(), plan.why()), (Placement::Card(0), None));
    assert_eq!(plan.host_need(), Bytes(0));
    let need: Bytes = plan.terms().iter().map(|term| term.bytes).sum();
    let text = plan.to_string();
    for word in ["on CUDA0 (large): weights ", " + KV cache ", " + scratch ", " + kernels ", " + margin "] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(text.ends_with(&format!("= {need} of 80.00 GiB available")), "{text}");

    let mut full = card("full", 80);
    full.free = Bytes(GIB / 2);
    let plan = builder([full.clone(), card("other", 8)]).plan().unwrap();
    assert_eq!(plan.placement(), Placement::Card(1));

    full.holders = vec!["process 7 (python3) 79.00 GiB".to_owned()];
    let plan = builder([full.clone()]).cache_ram(Bytes(GIB)).plan().unwrap();
    assert_eq!(plan.placement(), Placement::Cpu);
    assert!(plan.host_need() > Bytes(GIB));
    let text = plan.to_string();
    for word in ["on the CPU", "; no card: does not fit card 0 (full)", "process 7 (python3) 79.00 GiB"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let error = builder([full]).placement(Placement::card(0)).plan().unwrap_err();
    let PlanError::DoesNotFit { device, free, terms, holders, .. } = &error else { panic!("{error}") };
    assert_eq!((device.as_str(), *free, holders.len()), ("card 0 (full)", Bytes(GIB / 2), 1));
    let names: Vec<_> = terms.iter().map(|term| term.what).collect();
    assert_eq!(names, ["weights", "KV cache", "scratch", "kernels", "margin"]);
}

#[test]
fn what_a_card_cannot_do_is_said() {
    let plan = builder([]).plan().unwrap();
    assert_eq!((plan.placement(), plan.why()), (Placement::Cpu, Some("there is none")));
    assert_eq!(builder([card("a", 80)]).placement(Placement::Cpu).plan().unwrap().why(), None);
    let error = builder([card("a", 80)]).placement(Placement::card(2)).plan().unwrap_err();
    assert_eq!(error.to_string(), "card 2: there are 1, numbered from 0");
    let exact = || builder([card("a", 80)]).numerics(Numerics::Exact);
    assert_eq!(exact().plan().unwrap().why(), Some("not on a card: exact numerics are the CPU's"));
    assert!(matches!(exact().placement(Placement::card(0)).plan(), Err(PlanError::NotOnCard { .. })));
}

#[test]
fn the_demo_model_runs_on_cards() {
    let plan = Engine::builder(ModelSource::demo()).cards(Cards::given([card("a", 8)])).plan().unwrap();
    assert_eq!(plan.placement(), Placement::Card(0), "{plan}");
}

#[test]
fn every_fixture_has_kernels() {
    for name in common::ON_CARD {
        let path = model_path(name);
        let builder = Engine::builder(path.as_path()).cards(Cards::given([card("a", 8)]));
        assert_eq!(builder.plan().unwrap().placement(), Placement::Card(0), "{name}");
    }
}

#[test]
fn parked_prefixes_are_the_hosts() {
    let parking = |gib| builder([card("a", 80)]).placement(Placement::card(0)).cache_ram(Bytes(gib * GIB));
    let plan = parking(3).plan().unwrap();
    assert_eq!(plan.host_need(), Bytes(3 * GIB));
    assert!(plan.terms().iter().all(|term| term.what != "parked prefixes"));
    let error = parking(5).plan().unwrap_err().to_string();
    assert!(error.contains("host memory") && error.contains("parked prefixes 5.00 GiB"), "{error}");
}
