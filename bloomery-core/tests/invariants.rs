//! What must not change a result: how a prompt is cut, who shares a step, forks, cuts and snapshots, threads and
//! instruction sets. Everything here is compared bit for bit.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[expect(dead_code, reason = "this binary uses a part of it")]
mod common;

use std::num::NonZeroUsize;

use bloomery_core::{Engine, Isa, KvType, Logits, Numerics, Snapshot, Turn};
use common::{Fixture, all, all_logits};

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

fn engine(fixture: &Fixture, sessions: usize) -> Engine {
    fixture.builder().sessions(sessions).plan().unwrap().load(|_| {}).unwrap()
}

#[test]
fn chunks_of_a_prompt_give_the_whole() {
    for fixture in all() {
        for numerics in [Numerics::Fast, Numerics::Exact] {
            let engine = fixture.engine(numerics);
            let whole = bits(&all_logits(&engine, &fixture.ids, usize::MAX));
            for chunk in [1, 7, 16] {
                let cut = bits(&all_logits(&engine, &fixture.ids, chunk));
                assert!(cut == whole, "{} in chunks of {chunk}, {numerics:?}", fixture.name);
            }
        }
    }
}

#[test]
fn threads_and_instruction_sets_do_not_show() {
    let names = [
        "llama-k-q8_0",
        "qwen3moe-k-q3_k_m",
        "qwen3moe-k-q4_k_m",
        "gemma3-small-bf16",
        "qwen35moe-k-q4_k_m",
        "deepseek2-k-q4_k_m",
        "qwen4exp-k-q4_k_m",
        "qwen4exp-small-bf16",
        "glm5next-k-q4_k_m",
        "glm5next-small-bf16",
        "deepseek4-small-bf16",
        "deepseek41-k-q4_k",
    ];
    for fixture in names.map(Fixture::read) {
        let whole = bits(&all_logits(&engine(&fixture, 1), &fixture.ids, usize::MAX));
        for isa in Isa::available() {
            for threads in [1, 2, 3] {
                let builder = fixture.builder().isa(isa).threads(NonZeroUsize::new(threads).unwrap());
                let engine = builder.plan().unwrap().load(|_| {}).unwrap();
                let other = bits(&all_logits(&engine, &fixture.ids, 40));
                assert!(other == whole, "{} with {isa:?} and {threads} threads", fixture.name);
            }
        }
    }
}

#[test]
fn sessions_that_share_steps_do_not_see_each_other() {
    let names = [
        "qwen3moe-k-q4_k_m",
        "gemma3-k-q4_k_m",
        "qwen35moe-small-bf16",
        "deepseek2-k-q4_k_m",
        "qwen4exp-small-bf16",
        "glm5next-k-q4_k_m",
        "deepseek4-k-q4_k_m",
        "deepseek41-small-bf16",
    ];
    for fixture in names.map(Fixture::read) {
        let engine = engine(&fixture, 3);
        let solo: Vec<Vec<u32>> =
            [1, 20, 90].map(|len| bits(&all_logits(&engine, &fixture.ids[..len], usize::MAX))).to_vec();
        let mut sessions: Vec<_> = (0..3).map(|_| engine.session().unwrap()).collect();
        let mut turns: Vec<_> = sessions
            .iter_mut()
            .zip([1, 20, 90])
            .map(|(session, len)| Turn::new(session, &fixture.ids[..len], Logits::All))
            .collect();
        engine.step(&mut turns).unwrap();
        for (turn, solo) in turns.iter().zip(&solo) {
            assert!(bits(turn.logits()) == *solo, "{}", fixture.name);
        }
    }
}

#[test]
fn forks_cuts_and_snapshots_continue_like_a_straight_run() {
    let cases = [
        ("qwen3moe-k-q4_k_m", KvType::F16),
        ("qwen3moe-k-q4_k_m", KvType::F32),
        ("qwen3moe-k-q4_k_m", KvType::Q8_0),
        ("gemma3-small-bf16", KvType::F16),
        ("qwen35moe-small-bf16", KvType::F16),
        ("qwen35moe-k-q4_k_m", KvType::Q8_0),
        ("deepseek2-small-bf16", KvType::F16),
        ("deepseek2-k-q4_k_m", KvType::Q8_0),
        ("qwen4exp-small-bf16", KvType::F16),
        ("qwen4exp-k-q4_k_m", KvType::Q8_0),
        ("glm5next-small-bf16", KvType::F16),
        ("glm5next-k-q4_k_m", KvType::Q8_0),
        ("deepseek4-small-bf16", KvType::F16),
        ("deepseek41-small-bf16", KvType::F16),
        ("deepseek41-k-q4_k", KvType::Q8_0),
    ];
    for (name, kv) in cases {
        let fixture = Fixture::read(name);
        let build = || fixture.builder().kv(kv).sessions(2).plan().unwrap().load(|_| {}).unwrap();
        let engine = build();
        let straight = all_logits(&engine, &fixture.ids, usize::MAX);
        let after = |n: usize| bits(&straight[(n - 1) * fixture.vocab..][..fixture.vocab]);
        // Inside a page, at its end, and just past it.
        for cut in [1, 63, 64, 65, 70] {
            let mut session = engine.session().unwrap();
            session.prefill(&fixture.ids).unwrap();
            session.truncate(cut).unwrap();
            let mut fork = session.fork().unwrap();
            // The fork goes another way and must leave the original alone.
            fork.prefill(&[fixture.ids[0]; 70]).unwrap();
            let again = bits(session.prefill(&fixture.ids[cut..]).unwrap());
            assert!(again == after(fixture.ids.len()), "{name} {kv:?} cut at {cut}");
            drop(fork);
            session.truncate(cut).unwrap();
            let bytes = session.snapshot().unwrap().to_bytes();
            let other = build();
            let mut restored = other.session().unwrap();
            restored.restore(&Snapshot::from_bytes(&bytes).unwrap()).unwrap();
            assert_eq!(restored.tokens(), &fixture.ids[..cut]);
            let next = bits(restored.prefill(&fixture.ids[cut..cut + 1]).unwrap());
            assert!(next == after(cut + 1), "{name} {kv:?} restored at {cut}");
        }
    }
}

#[test]
fn small_steps_cut_turns_without_changing_them() {
    let fixture = Fixture::read("llama-k-q8_0");
    let whole = bits(&all_logits(&engine(&fixture, 1), &fixture.ids, usize::MAX));
    let small = fixture.builder().step_rows(3).numerics(Numerics::Fast).plan().unwrap().load(|_| {}).unwrap();
    assert!(bits(&all_logits(&small, &fixture.ids, usize::MAX)) == whole);
}

#[test]
fn a_session_gives_back_what_it_held() {
    let fixture = Fixture::read("llama-k-q8_0");
    let engine = engine(&fixture, 1);
    for _ in 0..20 {
        let mut session = engine.session().unwrap();
        session.prefill(&fixture.ids).unwrap();
        assert!(engine.session().is_err());
    }
}
