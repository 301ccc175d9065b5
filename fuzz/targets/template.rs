//! A chat template from a stranger, and a conversation: source, a zero byte, messages as JSON.
#![no_main]

use bloomery_core::chat::{ChatRequest, ChatTemplate, DateTime, MAX_OUTPUT};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fuzz_target!(|bytes: &[u8]| {
    let (source, rest) = match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    let Ok(source) = std::str::from_utf8(source) else { return };
    let Ok(template) = ChatTemplate::new(source, "<s>", "</s>") else { return };
    let request = ChatRequest {
        messages: messages(rest),
        tools: vec![json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}})],
        add_generation_prompt: rest.len() % 2 == 0,
        now: Some(DateTime::constant(2026, 2, 28, 13, 5, 9, 0)),
        ..ChatRequest::default()
    };
    if let Ok(prompt) = template.render(&request) {
        assert!(prompt.len() <= MAX_OUTPUT);
        let again = template.render(&request).expect("it rendered before");
        assert_eq!(again, prompt, "renderings differ");
    }
});

/// The messages as given, or a conversation with the rest as its text.
fn messages(rest: &[u8]) -> Vec<Value> {
    serde_json::from_slice(rest).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(rest);
        vec![
            json!({"role": "system", "content": "Be brief."}),
            json!({"role": "user", "content": text}),
            json!({"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": text}}
            ]}),
            json!({"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": text}]}),
        ]
    })
}
