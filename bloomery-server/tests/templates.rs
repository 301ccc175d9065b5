//! Built-in chat templates against renderings of llama.cpp's own.

use bloomery_core::chat::{ChatRequest, ChatTemplate};
use bloomery_server::args::templates;
use serde_json::Value;

#[test]
fn built_in_templates_render_as_llama_cpp_does() {
    let data: Value = serde_json::from_str(include_str!("data/templates.json")).unwrap();
    let mut seen = Vec::new();
    for case in data["renderings"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let chat = &data["chats"][case["chat"].as_u64().unwrap() as usize];
        let template = ChatTemplate::new(templates::built_in(name).unwrap(), "", "").unwrap();
        let request = ChatRequest {
            messages: chat.as_array().unwrap().clone(),
            add_generation_prompt: case["prompt"].as_bool().unwrap(),
            ..ChatRequest::default()
        };
        assert_eq!(template.render(&request).unwrap(), case["text"].as_str().unwrap(), "{name}");
        seen.push(name);
    }
    for name in templates::names() {
        assert!(seen.contains(&name), "{name} has no rendering to compare with");
    }
}
