//! What a chat template can lay out, found out by rendering.

use bloomery_core::chat::{ChatRequest, ChatTemplate};
use serde_json::{Map, Value, json};

use super::super::markup::Markup;
use super::super::think::ThinkTags;

/// What a chat template can lay out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateCaps {
    /// How the model writes calls.
    pub markup: Markup,
    /// The tags around its reasoning.
    pub think: Option<ThinkTags>,
    /// A system message at the start.
    pub system: bool,
    /// Further system messages later on.
    pub late_system: bool,
    /// The role `developer`.
    pub developer: bool,
    /// Two messages of the user in a row.
    pub consecutive_users: bool,
    /// Content as a text.
    pub string_content: bool,
    /// Content as a list of parts.
    pub typed_content: bool,
    /// The tools of a request.
    pub tools: bool,
    /// A tool needs a description.
    pub tool_description: bool,
    /// Calls in the history.
    pub tool_calls: bool,
    /// Several calls in one message.
    pub parallel_calls: bool,
    /// Arguments of calls as objects; else as JSON text.
    pub object_arguments: bool,
    /// Messages with calls may lack a content.
    pub absent_content: bool,
    /// Messages with calls may have both content and reasoning.
    pub content_and_reasoning: bool,
    /// The role `tool`.
    pub tool_results: bool,
    /// Ids of calls must have 9 letters or digits.
    pub short_ids: bool,
    /// Variables that turn thinking on and off.
    pub thinking_switches: Vec<&'static str>,
    /// `reasoning_effort` has a meaning.
    pub reasoning_effort: bool,
    /// Reasoning of earlier messages can be kept.
    pub reasoning_history: bool,
}

/// Texts that no template contains.
const MARK: &str = "zqmarkzq";
const OTHER: &str = "zqotherzq";

/// Renders probes.
struct Probe<'a>(&'a ChatTemplate);

impl Probe<'_> {
    fn render(&self, messages: Value, tools: Value, kwargs: Value) -> Option<String> {
        let list = |value: Value| match value {
            Value::Array(items) => items,
            _ => Vec::new(),
        };
        let kwargs = match kwargs {
            Value::Object(kwargs) => kwargs,
            _ => Map::new(),
        };
        let (messages, tools) = (list(messages), list(tools));
        let request =
            ChatRequest { messages, tools, add_generation_prompt: true, kwargs, ..ChatRequest::default() };
        self.0.render(&request).ok()
    }

    /// The text of these messages alone.
    fn messages(&self, messages: Value) -> Option<String> {
        self.render(messages, Value::Null, Value::Null)
    }

    /// Whether both marks come out.
    fn shows(&self, messages: Value, marks: &[&str]) -> bool {
        self.messages(messages).is_some_and(|text| marks.iter().all(|mark| text.contains(mark)))
    }

    /// A history with calls. `arguments` and `extra` go into the assistant's message.
    fn calls(&self, id: &str, arguments: &Value, count: usize, extra: Value) -> Option<String> {
        let names = ["zqonezq", "zqtwozq"];
        let calls: Vec<Value> = names[..count]
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let id = if at == 0 { id.to_owned() } else { format!("{}2", &id[..id.len() - 1]) };
                json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
            })
            .collect();
        let results = calls.iter().zip(names).map(
            |(call, name)| json!({"role": "tool", "tool_call_id": call["id"], "name": name, "content": OTHER}),
        );
        let mut assistant = json!({"role": "assistant", "tool_calls": calls});
        if let (Some(fields), Value::Object(extra)) = (assistant.as_object_mut(), extra) {
            fields.extend(extra);
        }
        let mut messages = vec![json!({"role": "user", "content": "hi"}), assistant];
        messages.extend(results);
        messages.push(json!({"role": "assistant", "content": "done"}));
        messages.push(json!({"role": "user", "content": "go on"}));
        self.render(Value::Array(messages), json!([tool(names[0], true)]), Value::Null)
    }
}

fn tool(name: &str, described: bool) -> Value {
    let mut function = json!({"name": name, "parameters": {"type": "object",
        "properties": {"city": {"type": "string", "description": "A city"}}, "required": ["city"]}});
    if described {
        function["description"] = json!("A tool");
    }
    json!({"type": "function", "function": function})
}

fn user() -> Value {
    json!({"role": "user", "content": "hi"})
}

fn said(role: &str, content: Value) -> Value {
    json!({"role": role, "content": content})
}

impl TemplateCaps {
    /// Finds out what `template` can lay out: some twenty renderings of short texts.
    pub fn detect(template: &ChatTemplate) -> TemplateCaps {
        let source = ["tool_use", "default"].iter().find_map(|name| template.source(name));
        let source = source.or_else(|| template.source(template.names().first()?)).unwrap_or_default();
        let probe = Probe(template);
        let part = json!([{"type": "text", "text": MARK}]);
        let typed = probe.messages(json!([said("user", part)]));
        let late = json!([
            said("system", json!(MARK)),
            user(),
            said("assistant", json!("hello")),
            said("system", json!(OTHER)),
            user(),
        ]);
        let mut caps = TemplateCaps {
            markup: Markup::detect(source),
            think: ThinkTags::detect(source),
            system: probe.shows(json!([said("system", json!(MARK)), user()]), &[MARK]),
            late_system: probe.shows(late, &[MARK, OTHER]),
            developer: source.contains("developer"),
            consecutive_users: probe
                .shows(json!([said("user", json!(MARK)), said("user", json!(OTHER))]), &[MARK, OTHER]),
            string_content: probe.shows(json!([said("user", json!(MARK))]), &[MARK]),
            typed_content: typed.is_some_and(|text| {
                text.contains(MARK) && !text.contains("'text'") && !text.contains("\"text\"")
            }),
            tools: false,
            tool_description: false,
            tool_calls: false,
            parallel_calls: false,
            object_arguments: false,
            absent_content: false,
            content_and_reasoning: true,
            tool_results: false,
            short_ids: false,
            thinking_switches: Vec::new(),
            reasoning_effort: false,
            reasoning_history: false,
        };
        caps.probe_tools(&probe);
        caps.probe_calls(&probe);
        caps.probe_reasoning(&probe);
        caps
    }

    fn probe_tools(&mut self, probe: &Probe) {
        let named = |described| {
            let text = probe.render(json!([user()]), json!([tool(MARK, described)]), Value::Null);
            text.is_some_and(|text| text.contains(MARK))
        };
        let bare = named(false);
        self.tools = bare || named(true);
        self.tool_description = self.tools && !bare;
    }

    fn probe_calls(&mut self, probe: &Probe) {
        const ID: &str = "call00001";
        let empty = json!({"content": ""});
        let shown = |text: &Option<String>| {
            let text = text.as_deref().unwrap_or_default();
            // Python's notation of a dictionary is nothing that a model was trained on.
            text.contains("zqonezq") && text.contains("zqvaluezq") && !text.contains("'zqkeyzq'")
        };
        let object = json!({"zqkeyzq": "zqvaluezq"});
        let string = json!(object.to_string());
        self.object_arguments = shown(&probe.calls(ID, &object, 1, empty.clone()));
        let arguments = if self.object_arguments { object } else { string };
        let single = probe.calls(ID, &arguments, 1, empty.clone());
        self.tool_calls = shown(&single);
        self.tool_results = single.as_deref().is_some_and(|text| text.contains(OTHER))
            || probe.shows(json!([user(), said("tool", json!(OTHER)), user()]), &[OTHER]);
        if !self.tool_calls {
            return;
        }
        let several = probe.calls(ID, &arguments, 2, empty.clone());
        self.parallel_calls =
            several.is_some_and(|text| text.contains("zqonezq") && text.contains("zqtwozq"));
        let absent = probe.calls(ID, &arguments, 1, Value::Null);
        self.absent_content = absent.is_some_and(|text| text.contains("zqonezq") && !text.contains("None"));
        self.short_ids = probe.calls(&"a".repeat(32), &arguments, 1, empty).is_none();
        let both = json!({"content": "text", "reasoning_content": "thought"});
        self.content_and_reasoning = probe.calls(ID, &arguments, 1, both).is_some();
    }

    fn probe_reasoning(&mut self, probe: &Probe) {
        let with = |kwargs: Value| probe.render(json!([user()]), Value::Null, kwargs);
        let switches = ["enable_thinking", "thinking"].into_iter();
        self.thinking_switches = switches
            .filter(|name| {
                let [on, off] = [true, false].map(|value| with(json!({ *name: value })));
                on.is_some() && off.is_some() && on != off
            })
            .collect();
        let efforts = ["low", "high"].map(|effort| with(json!({ "reasoning_effort": effort })));
        self.reasoning_effort = efforts[0].is_some() && efforts[0] != efforts[1];
        let thought = json!({"role": "assistant", "content": "hello", "reasoning_content": MARK});
        let kept = json!({"enable_thinking": true, "preserve_thinking": true, "clear_thinking": false,
            "truncate_history_thinking": false, "drop_thinking": false});
        let history = probe.render(json!([user(), thought, user()]), Value::Null, kept);
        let history = history.is_some_and(|text| text.contains(MARK));
        let arguments = if self.object_arguments { json!({}) } else { json!("{}") };
        let call = json!([{"id": "call00001", "type": "function", "function": {"name": "f", "arguments": arguments}}]);
        let calling =
            json!({"role": "assistant", "content": "", "reasoning_content": MARK, "tool_calls": call});
        let result = json!({"role": "tool", "tool_call_id": "call00001", "name": "f", "content": "1"});
        let turn = probe.shows(json!([user(), calling, result]), &[MARK]);
        self.reasoning_history = history || turn;
    }

    /// The capabilities under the names of llama-server's `/props`.
    pub fn to_json(&self) -> Value {
        json!({
            "supports_object_arguments": self.tool_calls && self.object_arguments,
            "supports_parallel_tool_calls": self.parallel_calls,
            "supports_preserve_reasoning": self.reasoning_history,
            "supports_reasoning_effort": self.reasoning_effort,
            "supports_string_content": self.string_content,
            "supports_system_role": self.system,
            "supports_tool_calls": self.tool_calls,
            "supports_tools": self.tools,
            "supports_typed_content": self.typed_content,
        })
    }
}
