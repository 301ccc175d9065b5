//! Where models go that are bigger than their card, on machines that do not exist.

#![cfg(feature = "cuda")]
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be written fails its test")]

mod sparse;

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use bloomery_core::{
    Bytes, CardFacts, CardPick, Cards, Context, Engine, EngineBuilder, HostExperts, HostFacts, Placement,
    Plan, PlanError, Rate, TensorRules, Term,
};
use bloomery_gguf::Format;
use sparse::{LARGE, SMALL, Shape, Sparse, medium};

const GB: u64 = 1_000_000_000;

fn host(gigabytes: u64) -> HostFacts {
    HostFacts {
        read_rate: Some(Rate(75 * GB)),
        ..HostFacts::new(Bytes(gigabytes * GB), NonZeroUsize::new(8).unwrap())
    }
}

/// A card of 850 GB/s.
fn card(gigabytes: u64) -> CardFacts {
    CardFacts { read_rate: Some(Rate(850 * GB)), ..CardFacts::new("a card", Bytes(gigabytes * GB)) }
}

fn builder(model: &Sparse, cards: impl IntoIterator<Item = u64>, memory: u64) -> EngineBuilder {
    Engine::builder(model.path()).host(host(memory)).cards(Cards::given(cards.into_iter().map(card)))
}

fn term<'a>(plan: &'a Plan, what: &str) -> &'a Term {
    plan.terms().iter().find(|term| term.what == what).unwrap_or_else(|| panic!("{what}: {plan}"))
}

/// Experts in slots.
fn slots(plan: &Plan) -> usize {
    term(plan, "expert slots").detail.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn cards_of_all_sizes_get_the_experts_that_they_have_room_for() {
    let model = Sparse::new("sizes", SMALL);
    let mut before = 0;
    for (gigabytes, experts, context) in
        [(8, 1200..1400, 13_000..15_000), (12, 2150..2300, 22_000..26_000), (16, 3100..3500, 32_000..36_000)]
    {
        let plan = builder(&model, [gigabytes], 64).plan().unwrap();
        println!("{plan}\n");
        assert_eq!(plan.placement(), Placement::Split(0), "{plan}");
        let names: Vec<_> = plan.terms().iter().map(|term| term.what).collect();
        let wanted = ["dense weights", "KV cache", "scratch", "expert slots", "ring", "kernels", "margin"];
        assert_eq!(names, wanted);
        let need: Bytes = plan.terms().iter().map(|term| term.bytes).sum();
        assert!(need <= plan.available() && need.0 > plan.available().0 - 4_000_000, "{plan}");
        assert!(experts.contains(&slots(&plan)) && slots(&plan) > before, "{plan}");
        assert!(context.contains(&plan.context()), "{plan}");
        assert!(plan.why().unwrap().starts_with("does not fit card 0 (a card): "), "{plan}");
        assert_eq!(plan.host_terms()[0].what, "file");
        assert!(plan.host_need() > Bytes(18 * GB), "{plan}");
        before = slots(&plan);
    }
    for (gigabytes, context) in [(24, 35_000..45_000), (48, 262_144..262_145), (80, 262_144..262_145)] {
        let plan = builder(&model, [gigabytes], 32).plan().unwrap();
        assert_eq!((plan.placement(), plan.why()), (Placement::Card(0), None), "{plan}");
        assert!(context.contains(&plan.context()), "{plan}");
    }
    assert_eq!(builder(&model, [141], 32).plan().unwrap().placement(), Placement::Card(0));
    // A card without room for the dense weights.
    let plan = builder(&model, [2], 64).plan().unwrap();
    assert_eq!(plan.placement(), Placement::Cpu);
    let why = plan.why().unwrap();
    assert!(why.contains("; does not fit card 0 (a card) even without its experts: "), "{why}");
}

#[test]
fn a_large_model_is_split_or_refused_at_once() {
    let model = Sparse::new("large", LARGE);
    let began = Instant::now();
    for (gigabytes, experts) in [(24, 270..300), (48, 750..800), (80, 1_450..1_500), (141, 2_700..3_000)] {
        let plan = builder(&model, [gigabytes], 512).plan().unwrap();
        println!("{plan}\n");
        assert_eq!(plan.placement(), Placement::Split(0), "{plan}");
        assert!(experts.contains(&slots(&plan)), "{plan}");
        let ring = term(&plan, "ring");
        assert!(ring.bytes.0 < 8 * GB / 5, "{plan}");
    }
    for memory in [32, 64, 128, 256] {
        let error = builder(&model, [24], memory).plan().unwrap_err();
        let text = error.to_string();
        for word in [
            "does not fit host memory: ",
            "file 3",
            "KV cache",
            "; before that: does not fit card 0 (a card): ",
            "weights 3",
            "kernels",
            "margin",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
    let error = builder(&model, [24], 256).placement(Placement::split(0)).plan().unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("does not fit host memory: ") && text.contains("desk"), "{text}");
    let error = builder(&model, [8], 512).placement(Placement::split(0)).plan().unwrap_err();
    let text = error.to_string();
    for word in
        ["even without its experts", "dense weights", "KV cache", "scratch", "ring", "kernels", "margin"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    // Ten plans and more.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn words_pick_cards() {
    let model = Sparse::new("words", SMALL);
    let on = |word: &str, cards: &[u64]| {
        builder(&model, cards.iter().copied(), 64).placement(word.parse().unwrap()).plan()
    };
    let place = |word: &str, cards: &[u64]| on(word, cards).unwrap().placement();
    assert_eq!(place("a", &[8, 16, 12]), Placement::Split(1));
    assert_eq!(place("a", &[8, 48, 80, 80]), Placement::Card(2), "whole where it fits");
    assert_eq!(place("gate", &[16, 8, 80]), Placement::Split(1));
    assert_eq!(place("2", &[80, 80, 12]), Placement::Split(2));
    assert_eq!(place("cuda0+cpu", &[80]), Placement::Split(0), "although it would fit");
    assert_eq!(place("auto", &[8, 16, 12]), Placement::Split(1), "most free memory");
    assert_eq!(place("auto", &[8, 48]), Placement::Card(1), "whole before split");
    assert!(matches!(on("cuda0", &[8]), Err(PlanError::DoesNotFit { .. })));
    assert!(matches!(on("3", &[8]), Err(PlanError::NoCard { card: 3, .. })));
    let none = on("a", &[]).unwrap_err().to_string();
    assert_eq!(none, "card 0: there is none");
    for word in ["b", "bp", "0+1"] {
        let error = on(word, &[24, 48]).unwrap_err();
        let PlanError::SeveralCards { wanted: 2, cards } = &error else { panic!("{error}") };
        assert_eq!(cards[1], "CUDA1 (a card, 44.70 GiB)");
        assert!(
            error.to_string().contains("not in this release; there are CUDA0 (a card, 22.35 GiB), CUDA1")
        );
    }
    let plan = on("a", &[80]).unwrap();
    assert_eq!(plan.placement(), Placement::Card(0));
    assert_eq!("1".parse::<Placement>().unwrap(), Placement::Fill(CardPick::Number(1)));
}

#[test]
fn experts_stay_in_host_memory_when_asked() {
    let model = Sparse::new("host", SMALL);
    let with = |experts| builder(&model, [80], 64).host_experts(experts);
    let all = with(HostExperts::All).plan().unwrap();
    assert_eq!((all.placement(), slots(&all)), (Placement::Split(0), 0), "{all}");
    assert!(all.why().unwrap().contains("the experts of 48 layers are kept in host memory"), "{all}");
    assert_eq!(all.context(), 262_144, "what experts do not take is the context's");
    let most = with(HostExperts::FirstLayers(40)).plan().unwrap();
    assert_eq!(slots(&most), 8 * 128, "{most}");
    let rules = |text| with(HostExperts::Rules(TensorRules::parse(text).unwrap()));
    assert_eq!(slots(&rules(r"blk\.[0-9]\.ffn_.*_exps=CPU").plan().unwrap()), 38 * 128);
    assert_eq!(slots(&rules(r"blk\.[0-3]\.ffn=CUDA0,exps=CPU").plan().unwrap()), 4 * 128);
    assert_eq!(rules("nothing=CPU").plan().unwrap().placement(), Placement::Card(0));
    let error = rules("attn=CPU").plan().unwrap_err().to_string();
    assert!(error.contains("is no stack of experts") && error.contains("exps=CPU"), "{error}");
    let error = with(HostExperts::All).placement(Placement::card(0)).plan().unwrap_err().to_string();
    assert!(
        error.contains("everything on one card, with the experts of 48 layers in host memory"),
        "{error}"
    );
    assert_eq!(with(HostExperts::All).placement(Placement::Cpu).plan().unwrap().placement(), Placement::Cpu);
}

#[test]
fn a_budget_a_margin_and_a_floor_are_kept() {
    let model = Sparse::new("budget", SMALL);
    let full = builder(&model, [12], 64).plan().unwrap();
    let capped = builder(&model, [80], 64).card_budget(Bytes(12 * GB)).plan().unwrap();
    assert_eq!(capped.available(), Bytes(12 * GB));
    assert_eq!(capped.terms(), full.terms(), "a budget is a smaller card");
    let capped = builder(&model, [80], 64).card_budget(Bytes(12 * GB)).placement(Placement::card(0)).plan();
    assert!(matches!(capped, Err(PlanError::DoesNotFit { free: Bytes(12_000_000_000), .. })));
    let wide = builder(&model, [12], 64).card_margin(Bytes(4 * GB)).plan().unwrap();
    assert_eq!(term(&wide, "margin").bytes, Bytes(4 * GB));
    assert!(slots(&wide) < slots(&full));
    let long = builder(&model, [12], 64).context_floor(65_536).plan().unwrap();
    assert_eq!(long.context(), 65_536);
    let given = builder(&model, [12], 64).context(Context::Tokens(8192)).plan().unwrap();
    assert!(given.context() == 8192 && slots(&given) > slots(&full), "{given}");
    let rows = |plan: &Plan| term(plan, "scratch").detail.clone();
    let roomy = builder(&model, [80], 64).placement(Placement::split(0)).plan().unwrap();
    assert_eq!(rows(&roomy), "steps of up to 4096 rows");
    let given = builder(&model, [80], 64).placement(Placement::split(0)).step_rows(100).plan().unwrap();
    assert_eq!(rows(&given), "steps of up to 100 rows");
}

#[test]
fn layers_without_kernels_on_the_card_are_the_hosts() {
    let mixed = |layer| if layer < 10 { Format::IQ2_XS } else { medium(layer) };
    let model = Sparse::new("mixed", Shape { down: mixed, ..SMALL });
    let plan = builder(&model, [80], 64).plan().unwrap();
    assert_eq!(plan.placement(), Placement::Split(0), "{plan}");
    assert!(plan.why().unwrap().contains("`blk.0.ffn_down_exps.weight` is stored as IQ2_XS"), "{plan}");
    assert_eq!(slots(&plan), 38 * 128, "{plan}");
    assert!(term(&plan, "expert slots").detail.ends_with(" of 6144 experts, 128.0 a layer"), "{plan}");
    assert_eq!(plan.predicted().unwrap().prompt_bound, None, "the CPU computes those layers' prompts");
}

#[test]
fn predictions_are_those_of_the_formulas() {
    let model = Sparse::new("rates", SMALL);
    let plan = builder(&model, [12], 64).placement(Placement::split(0)).plan().unwrap();
    let slow = plan.predicted().unwrap();
    // 16 experts of 128 chosen evenly would be 64 tokens/s at 75 GB/s and h = 0, 86 at h = 0.3, 132 at h = 0.6.
    println!("{slow}");
    assert!(slow.decode > 64.0 && slow.decode < 140.0 && slow.decode_bound > 2.0 * slow.decode, "{slow:?}");
    let text = plan.to_string();
    assert!(text.contains("; decode at least ") && text.contains("a link of 22.0 GB/s, assumed"), "{text}");
    let unknown = Engine::builder(model.path())
        .host(HostFacts::new(Bytes(64 * GB), NonZeroUsize::MIN))
        .cards(Cards::given([CardFacts::new("a card", Bytes(12 * GB))]));
    assert_eq!(unknown.plan().unwrap().predicted(), None);
    let whole = builder(&model, [80], 64).plan().unwrap().predicted().unwrap();
    assert!(whole.decode_bound > 440.0 && whole.decode_bound < 520.0, "{whole:?}");
    assert!(whole.decode < whole.decode_bound && whole.prompt_bound.is_none());
    let cpu = builder(&model, [80], 64).placement(Placement::Cpu).plan().unwrap().predicted().unwrap();
    assert!(cpu.decode > 35.0 && cpu.decode < 50.0, "{cpu:?}");
}
