//! Reuse of prefixes: the same results to the bit, in less memory and time.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::thread;

use bloomery_core::{
    Bytes, Context, Conversation, Engine, EngineBuilder, EngineError, Logits, ModelSource, Params, Session,
    Turn,
};

const PAGE: usize = 64;

fn builder(context: usize, sessions: usize) -> EngineBuilder {
    Engine::builder(ModelSource::demo()).context(Context::Tokens(context)).sessions(sessions)
}

fn load(builder: EngineBuilder) -> Engine {
    builder.plan().unwrap().load(|_| {}).unwrap()
}

/// Ids that a model may meet, the same for the same seed.
fn ids(engine: &Engine, seed: u64, len: usize) -> Vec<u32> {
    let mut state = seed;
    let vocab = engine.model().vocab as u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % vocab) as u32
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

/// Logits after `tokens`, run from nothing.
fn fresh(plain: &Engine, tokens: &[u32]) -> Vec<u32> {
    bits(plain.session().unwrap().prefill(tokens).unwrap())
}

/// Adopts and runs the rest. Returns what was adopted and the logits.
fn run(session: &mut Session, tokens: &[u32]) -> (usize, Vec<u32>) {
    let known = session.adopt(tokens).unwrap();
    let logits = bits(session.prefill(&tokens[known..]).unwrap());
    assert_eq!(session.tokens(), tokens);
    (known, logits)
}

fn used(engine: &Engine) -> usize {
    let stats = engine.prefix_stats();
    stats.total_pages - stats.free_pages
}

#[test]
fn an_edit_anywhere_gives_what_a_fresh_run_gives() {
    let (plain, engine) = (load(builder(512, 1)), load(builder(512, 2)));
    let original = ids(&plain, 1, 200);
    let mut writer = engine.session().unwrap();
    writer.prefill(&original).unwrap();
    writer.publish();
    let mut reader = engine.session().unwrap();
    for position in [0, 1, 31, 63, 64, 65, 100, 127, 128, 129, 191, 192, 198, 199] {
        let mut edited = original.clone();
        edited[position] ^= 1;
        let expected = fresh(&plain, &edited);
        assert_eq!(run(&mut reader, &edited), (position, expected), "another session, edit at {position}");
    }
    // The writer was shared with all of them and is what it was.
    assert_eq!(writer.tokens(), original);
    let longer = [&original[..], &[7]].concat();
    assert_eq!(run(&mut writer, &longer), (200, fresh(&plain, &longer)));
    assert_eq!(run(&mut writer, &original), (199, fresh(&plain, &original)));
    // And once more, in the session that has the page, where nothing has to be left for others.
    engine.clear_prefixes();
    for position in [150, 100, 64, 20] {
        let mut edited = original.clone();
        edited[position] ^= 2;
        assert_eq!(run(&mut writer, &edited).1, fresh(&plain, &edited), "the same session, {position}");
    }
}

#[test]
fn sessions_with_one_system_prompt_share_its_pages() {
    let (plain, engine) = (load(builder(512, 1)), load(builder(512, 3)));
    let system = ids(&plain, 2, 2 * PAGE + 10);
    let mut sessions: Vec<_> = (0..3).map(|_| engine.session().unwrap()).collect();
    sessions[0].prefill(&system).unwrap();
    sessions[0].publish();
    for (index, session) in sessions.iter_mut().enumerate() {
        let prompt = [&system[..], &ids(&plain, 10 + index as u64, 20)].concat();
        assert_eq!(run(session, &prompt), (system.len(), fresh(&plain, &prompt)));
        session.publish();
    }
    // Two pages of the prompt for all, and the one it ends in for each.
    assert_eq!(used(&engine), 2 + 3);
    drop(sessions);
    let stats = engine.prefix_stats();
    assert_eq!((used(&engine), stats.idle_pages, stats.resident_pages), (5, 5, 5));
    assert_eq!(stats.served_tokens, 2 * system.len() as u64);
    engine.clear_prefixes();
    assert_eq!(used(&engine), 0);
}

#[test]
fn prompts_that_were_run_side_by_side_end_up_in_the_same_pages() {
    let engine = load(builder(512, 2));
    let prompt = ids(&engine, 3, 2 * PAGE);
    let (mut a, mut b) = (engine.session().unwrap(), engine.session().unwrap());
    let mut turns = [Turn::new(&mut a, &prompt, Logits::None), Turn::new(&mut b, &prompt, Logits::None)];
    engine.step(&mut turns).unwrap();
    assert_eq!(used(&engine), 4);
    a.publish();
    b.publish();
    assert_eq!(used(&engine), 2);
    assert_eq!(bits(a.step(5).unwrap()), bits(b.step(5).unwrap()));
}

#[test]
fn forks_and_their_original_go_their_ways() {
    let (plain, engine) = (load(builder(512, 1)), load(builder(512, 3)));
    let prompt = ids(&plain, 4, 100);
    let mut original = engine.session().unwrap();
    original.prefill(&prompt).unwrap();
    original.publish();
    let (mut a, mut b) = (original.fork().unwrap(), original.fork().unwrap());
    for (session, seed) in [(&mut original, 5), (&mut a, 6), (&mut b, 7)] {
        let whole = [&prompt[..], &ids(&plain, seed, 50)].concat();
        assert_eq!(run(session, &whole), (100, fresh(&plain, &whole)));
        session.publish();
    }
    // What each of them said is known to the others.
    let whole = [&prompt[..], &ids(&plain, 6, 50)].concat();
    assert_eq!(run(&mut b, &whole), (149, fresh(&plain, &whole)));
}

#[test]
fn parked_prefixes_come_back_to_the_bit() {
    let plain = load(builder(256, 1));
    let prompts: Vec<_> = (0..4).map(|seed| ids(&plain, 20 + seed, 250)).collect();
    let expected: Vec<_> = prompts.iter().map(|prompt| fresh(&plain, prompt)).collect();
    let engine = load(builder(256, 1).cache_ram(Bytes(1 << 30)));
    let mut session = engine.session().unwrap();
    for (prompt, expected) in prompts.iter().zip(&expected) {
        assert_eq!(run(&mut session, prompt), (0, expected.clone()));
    }
    for (prompt, expected) in prompts.iter().zip(&expected).rev().skip(1) {
        assert_eq!(run(&mut session, prompt), (249, expected.clone()));
    }
    let stats = engine.prefix_stats();
    assert!(stats.restored >= 12 && stats.parked_pages >= 8 && stats.dropped == 0, "{stats:?}");
    // Without a place to park, nothing of the first prompt is left.
    let engine = load(builder(256, 1));
    let mut session = engine.session().unwrap();
    prompts.iter().for_each(|prompt| drop(run(&mut session, prompt)));
    assert_eq!(session.adopt(&prompts[0]).unwrap(), 0);
    assert_eq!(engine.prefix_stats().parked_bytes, Bytes(0));
}

#[test]
fn a_step_that_finds_no_room_leaves_all_sessions_as_they_were() {
    let (plain, engine) = (load(builder(256, 1)), load(builder(256, 3).pool(256)));
    assert_eq!(engine.prefix_stats().total_pages, 4);
    let prompts: Vec<_> = (0..3).map(|seed| ids(&plain, 30 + seed, 256)).collect();
    let mut sessions: Vec<_> = (0..3).map(|_| engine.session().unwrap()).collect();
    for (session, prompt) in sessions.iter_mut().zip(&prompts) {
        session.prefill(&prompt[..60]).unwrap();
        session.publish();
    }
    let mut turns: Vec<_> = sessions
        .iter_mut()
        .zip(&prompts)
        .map(|(session, prompt)| Turn::new(session, &prompt[60..70], Logits::Last))
        .collect();
    let error = engine.step(&mut turns).unwrap_err();
    assert!(matches!(error, EngineError::PoolExhausted { needed: 3, free: 1, total: 4 }), "{error}");
    assert_eq!(error.to_string(), "cache is full: 3 pages needed, 1 of 4 free");
    assert!(turns.iter().all(|turn| turn.logits().is_empty()));
    drop(turns);
    assert!(sessions.iter().all(|session| session.len() == 60));
    assert_eq!(used(&engine), 3);
    // One at a time there is room, and what goes makes room for what stays.
    for (index, prompt) in prompts.iter().enumerate() {
        let mut session = sessions.remove(0);
        let logits = bits(session.prefill(&prompt[60..70 + 60 * index]).unwrap());
        assert_eq!(logits, fresh(&plain, &prompt[..70 + 60 * index]));
    }
    let mut whole = plain.session().unwrap();
    whole.prefill(&prompts[0]).unwrap();
    let mut session = engine.session().unwrap();
    session.restore(&whole.snapshot().unwrap()).unwrap();
    session.publish();
    let mut other = engine.session().unwrap();
    let error = other.prefill(&prompts[1][..1]).unwrap_err();
    assert!(matches!(error, EngineError::PoolExhausted { needed: 1, free: 0, total: 4 }), "{error}");
    assert!(other.is_empty());
    let error = other.restore(&whole.snapshot().unwrap()).unwrap_err();
    assert!(matches!(error, EngineError::PoolExhausted { needed: 4, free: 0, total: 4 }), "{error}");
    drop(session);
    assert_eq!(run(&mut other, &prompts[0]).0, 255, "the tree has it still");
}

#[test]
fn what_is_remembered_takes_no_room_from_sessions() {
    let engine = load(builder(2 * PAGE, 2));
    let mut sessions = [engine.session().unwrap(), engine.session().unwrap()];
    assert!(matches!(engine.session(), Err(EngineError::TooManySessions { limit: 2 })));
    for round in 0..40u64 {
        let session = &mut sessions[round as usize % 2];
        let prompt = ids(&engine, round / 3, 2 * PAGE);
        let known = session.adopt(&prompt).unwrap();
        for tokens in prompt[known..].chunks(1 + round as usize) {
            session.prefill(tokens).unwrap();
            session.publish();
        }
        session.truncate(round as usize).unwrap();
        session.step(1).unwrap();
    }
    drop(sessions);
    engine.clear_prefixes();
    assert_eq!(used(&engine), 0);
}

#[test]
fn forgetting_is_to_the_token() {
    let engine = load(builder(512, 2));
    let (a, b) = (ids(&engine, 40, 150), [ids(&engine, 40, 100), ids(&engine, 41, 50)].concat());
    let mut session = engine.session().unwrap();
    for prompt in [&a, &b] {
        run(&mut session, prompt);
        session.publish();
    }
    engine.forget_prefix(&a);
    let mut other = engine.session().unwrap();
    assert_eq!(other.adopt(&b).unwrap(), 149);
    assert_eq!(other.adopt(&a).unwrap(), 100);
    drop((session, other));
    engine.forget_prefix(&b);
    assert_eq!(used(&engine), 0);
}

#[test]
fn conversations_go_on_in_any_session() {
    let engine = load(builder(512, 2));
    let params = Params { max_tokens: Some(12), ..Params::greedy() };
    let mut chat = Conversation::new();
    chat.user("Tell me a story about a fox.");
    let mut first = engine.session().unwrap();
    let text: String = chat.answer(&mut first, &params).unwrap().map(|piece| piece.unwrap().text).collect();
    first.publish();
    let held = first.len();
    drop(first);
    chat.assistant(&text);
    chat.user("Go on.");
    let answer = |engine: &Engine| {
        let mut session = engine.session().unwrap();
        let mut answer = chat.answer(&mut session, &params).unwrap();
        let tokens: Vec<_> = answer.by_ref().filter_map(|piece| piece.unwrap().token).collect();
        (tokens, answer.timings().cached)
    };
    let (tokens, cached) = answer(&engine);
    assert!(cached + 8 > held, "{cached} of {held}");
    assert_eq!((tokens, 0), answer(&load(builder(512, 1))));
}

#[test]
fn threads_share_prefixes() {
    let (plain, engine) = (load(builder(256, 1)), load(builder(256, 4).pool(640).cache_ram(Bytes(1 << 20))));
    let prompts: Vec<_> = (0..3)
        .map(|seed| [ids(&plain, 50, 70), ids(&plain, 51 + seed, 40)].concat())
        .map(|prompt| (fresh(&plain, &prompt), prompt))
        .collect();
    thread::scope(|scope| {
        for worker in 0..4 {
            let (engine, prompts) = (&engine, &prompts);
            scope.spawn(move || {
                let mut session = engine.session().unwrap();
                for round in 0..12 {
                    let (expected, prompt) = &prompts[(worker + round) % 3];
                    assert_eq!(&run(&mut session, prompt).1, expected);
                    session.publish();
                    if round == 6 {
                        engine.clear_prefixes();
                        session = {
                            drop(session);
                            engine.session().unwrap()
                        };
                    }
                }
            });
        }
    });
    assert!(engine.prefix_stats().served_tokens > 0);
}

#[test]
fn a_plan_counts_the_pool_and_what_may_be_parked() {
    let plan = builder(1000, 4).pool(3000).cache_ram(Bytes(3 << 20)).plan().unwrap();
    let term = |what| plan.terms().iter().find(|term| term.what == what).unwrap();
    assert!(term("KV cache").detail.starts_with("3008 positions"), "{plan}");
    assert_eq!(term("parked prefixes").bytes, Bytes(3 << 20));
    assert_eq!(plan.load(|_| {}).unwrap().prefix_stats().budget, Bytes(3 << 20));
    let text = builder(1000, 4).pool(0).plan().unwrap_err().to_string();
    assert!(text.starts_with("pool = 0"), "{text}");
}
