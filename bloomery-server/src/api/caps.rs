//! What a chat template can show, found out by showing it small conversations.

use bloomery_core::chat::{ChatRequest, ChatTemplate};
use serde_json::{Value, json};

/// A word that no template writes by itself.
const MARK: &str = "qzxmark";

/// `chat_template_caps`. Without a template every answer is no, but for plain text.
pub(super) fn caps(template: Option<&ChatTemplate>) -> Value {
    let probe = |request: ChatRequest| {
        template
            .and_then(|template| template.render(&request).ok())
            .map_or(0, |text| text.matches(MARK).count())
    };
    let shows = |request| probe(request) > 0;
    let user = |content: Value| json!({"role": "user", "content": content});
    let chat = |messages: Vec<Value>| ChatRequest { messages, ..ChatRequest::default() };
    let objects = shows(calls(&[json!({"arg": MARK})]));
    let strings = shows(calls(&[json!(format!("{{\"arg\":\"{MARK}\"}}"))]));
    let call = if objects { json!({"arg": MARK}) } else { json!(format!("{{\"arg\":\"{MARK}\"}}")) };
    let parallel = probe(calls(&[call.clone(), call])) > 1;
    let mut with_tools = chat(vec![user(json!("x"))]);
    with_tools.tools = vec![tool(MARK)];
    let thought = json!({"role": "assistant", "content": "a", "reasoning_content": MARK});
    let mut effort = chat(vec![user(json!("x"))]);
    effort.add_generation_prompt = true;
    effort.kwargs.insert("reasoning_effort".to_owned(), json!(MARK));
    json!({
        "supports_object_arguments": objects,
        "supports_parallel_tool_calls": parallel,
        "supports_preserve_reasoning": shows(chat(vec![user(json!("x")), thought, user(json!("y"))])),
        "supports_reasoning_effort": shows(effort),
        "supports_string_content": template.is_none() || shows(chat(vec![user(json!(MARK))])),
        "supports_system_role":
            shows(chat(vec![json!({"role": "system", "content": MARK}), user(json!("x"))])),
        "supports_tool_calls": objects || strings,
        "supports_tools": shows(with_tools),
        "supports_typed_content": shows_parts(&probe),
    })
}

/// Parts are supported where their text is shown and their JSON is not.
fn shows_parts(probe: &impl Fn(ChatRequest) -> usize) -> bool {
    let part = |kind: &str| json!({"role": "user", "content": [{"type": kind, "text": "x"}]});
    let chat = |message: Value| ChatRequest { messages: vec![message], ..ChatRequest::default() };
    let text = json!({"role": "user", "content": [{"type": "text", "text": MARK}]});
    probe(chat(text)) > 0 && probe(chat(part(MARK))) == 0
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {
        "name": name,
        "description": "x",
        "parameters": {"type": "object", "properties": {"arg": {"type": "string"}}, "required": ["arg"]},
    }})
}

/// A conversation with tool calls that have these arguments.
fn calls(arguments: &[Value]) -> ChatRequest {
    let call = |(index, arguments): (usize, &Value)| {
        json!({"id": format!("call0000{index}"), "type": "function",
            "function": {"name": "tool1", "arguments": arguments}})
    };
    let list: Vec<Value> = arguments.iter().enumerate().map(call).collect();
    let results = (0..list.len())
        .map(|index| json!({"role": "tool", "content": "x", "tool_call_id": format!("call0000{index}")}));
    let mut messages = vec![
        json!({"role": "user", "content": "x"}),
        json!({"role": "assistant", "content": "", "tool_calls": list}),
    ];
    messages.extend(results);
    messages.push(json!({"role": "assistant", "content": "x"}));
    messages.push(json!({"role": "user", "content": "x"}));
    ChatRequest { messages, tools: vec![tool("tool1")], ..ChatRequest::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(source: &str) -> Value {
        caps(Some(&ChatTemplate::new(source, "", "").unwrap()))
    }

    #[test]
    fn a_template_of_text_and_one_of_everything() {
        let plain = of("{% for m in messages %}{{ m.role + m.content }}{% endfor %}");
        assert_eq!(plain["supports_string_content"], true);
        assert_eq!(plain["supports_system_role"], true);
        for name in
            ["supports_tools", "supports_tool_calls", "supports_typed_content", "supports_preserve_reasoning"]
        {
            assert_eq!(plain[name], false, "{name}");
        }
        let all = of(
            "{{ tools | tojson if tools }}{{ reasoning_effort }}{% for m in messages %}{{ m.role }}\
            {% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}\
            {% endif %}{{ m.reasoning_content }}{% for c in m.tool_calls or [] %}\
            {% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}{% endfor %}{% endfor %}",
        );
        let map = all.as_object().unwrap();
        assert!(map.values().all(|value| value == true), "{all}");
    }
}
