//! Generating text with the embedded demo model.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use bloomery_core::sampling::Seed;
use bloomery_core::tokenizer::Specials;
use bloomery_core::{Cancel, Context, Conversation, Engine, ModelSource, Params, StopReason};

fn engine(context: usize) -> Engine {
    let builder = Engine::builder(ModelSource::demo()).context(Context::Tokens(context));
    builder.plan().unwrap().load(|_| {}).unwrap()
}

fn story(engine: &Engine, params: &Params) -> (String, StopReason) {
    let mut chat = Conversation::new();
    chat.user("Tell me a story about a fox.");
    let mut session = engine.session().unwrap();
    let mut answer = chat.answer(&mut session, params).unwrap();
    let mut text = String::new();
    for piece in answer.by_ref() {
        text.push_str(&piece.unwrap().text);
    }
    (text, answer.stop_reason().unwrap())
}

#[test]
fn the_file_recommends_its_sampling() {
    let sampling = engine(64).default_params().sampling;
    assert_eq!((sampling.temperature, sampling.min_p), (0.7, 0.1));
    assert_eq!((sampling.repeat_penalty, sampling.repeat_last_n), (1.15, 128));
}

#[test]
fn a_seed_repeats_a_story_and_words_are_separated() {
    let engine = engine(512);
    let mut params = Params { max_tokens: Some(80), ..engine.default_params() };
    params.sampling.seed = Seed::Fixed(7);
    let (text, _) = story(&engine, &params);
    assert_eq!(text, story(&engine, &params).0);
    let words = text.split_whitespace().count();
    assert!(words > 30 && words < 120 && text.is_ascii(), "{text}");
}

#[test]
fn generations_say_why_they_ended() {
    let engine = engine(96);
    let limited = Params { max_tokens: Some(5), ..Params::greedy() };
    assert_eq!(story(&engine, &limited).1, StopReason::MaxTokens);
    let (whole, reason) = story(&engine, &Params { ignore_end: true, ..Params::greedy() });
    assert_eq!(reason, StopReason::ContextFull);
    let stop = whole.split_whitespace().nth(6).unwrap().to_owned();
    let (cut, reason) = story(&engine, &Params { stop: vec![stop.clone()], ..Params::greedy() });
    assert_eq!(reason, StopReason::StopText);
    assert!(whole.starts_with(&cut) && !cut.contains(&stop), "{cut:?} before {stop:?} of {whole:?}");
}

#[test]
fn a_cancelled_generation_stops_before_its_next_step() {
    let engine = engine(256);
    let mut session = engine.session().unwrap();
    let cancel = Cancel::default();
    let mut pieces = session.generate("Once upon a time", &Params::greedy()).unwrap().cancelled_by(&cancel);
    pieces.next().unwrap().unwrap();
    cancel.cancel();
    assert!(pieces.all(|piece| piece.unwrap().token.is_none()));
    assert_eq!(pieces.stop_reason(), Some(StopReason::Cancelled));
    assert_eq!(pieces.timings().generated, 1);
    session
        .generate(" there was", &Params { max_tokens: Some(2), ..Params::greedy() })
        .unwrap()
        .for_each(drop);
}

#[test]
fn later_turns_reuse_what_the_session_holds() {
    let engine = engine(512);
    let params = Params { max_tokens: Some(12), ..Params::greedy() };
    let mut session = engine.session().unwrap();
    let mut chat = Conversation::new();
    chat.user("Tell me a story about a fox.");
    let mut first = chat.answer(&mut session, &params).unwrap();
    let text: String = first.by_ref().map(|piece| piece.unwrap().text).collect();
    assert_eq!(first.timings().cached, 0);
    let prompt = first.prompt_len();
    chat.assistant(&text);
    chat.user("Go on.");
    let mut second = chat.answer(&mut session, &params).unwrap();
    second.by_ref().for_each(drop);
    assert!(second.timings().cached >= prompt, "{:?}", second.timings());
    // The same conversation from nothing gives the same answer.
    let again = |session: &mut bloomery_core::Session| -> Vec<u32> {
        chat.answer(session, &params).unwrap().filter_map(|piece| piece.unwrap().token).collect()
    };
    let warm = again(&mut session);
    drop(session);
    assert_eq!(warm, again(&mut engine.session().unwrap()));
}

#[test]
fn a_generation_goes_on_where_the_last_one_stopped() {
    let engine = engine(256);
    let params = Params { max_tokens: Some(6), ..Params::greedy() };
    let mut session = engine.session().unwrap();
    let pieces = |session: &mut bloomery_core::Session, text: &str| -> Vec<u32> {
        session.generate(text, &params).unwrap().filter_map(|piece| piece.unwrap().token).collect()
    };
    let mut tokens = engine.tokenizer().encode("Once upon a time", Specials::AsText).unwrap();
    tokens.extend(pieces(&mut session, "Once upon a time"));
    tokens.extend(engine.tokenizer().encode(" and", Specials::AsText).unwrap());
    let next = pieces(&mut session, " and");
    assert_eq!(session.tokens()[..tokens.len()], tokens);
    drop(session);
    let mut straight = engine.session().unwrap();
    let again = straight.generate_tokens(&tokens, &params).unwrap();
    assert_eq!(again.filter_map(|piece| piece.unwrap().token).collect::<Vec<_>>(), next);
}
