//! Grammars that hold a model to calls of the tools there are.

mod lark;
mod params;

use serde_json::Value;

use super::markup::Markup;
use super::style::{HARMONY_MARKS, JsonStyle, Layout, NamedStyle, TaggedStyle, layout};
use super::tool::{Tool, ToolChoice};
use lark::{Control, Lark, any, json};

/// The grammar of a reply's calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolGrammar {
    /// Rules in the Lark dialect of llguidance, beginning with `start`. `%json` schemas are the client's own: what of
    /// them cannot be compiled is for the reader to soften.
    pub lark: String,
    /// True: the whole answer, after any reasoning, follows the grammar. False: it is armed where a trigger appears,
    /// which is its first text.
    pub forced: bool,
    /// The texts that arm it. Empty where the markup has no mark that only calls begin with: then a model that may
    /// choose stays free.
    pub triggers: Vec<String>,
}

impl ToolGrammar {
    /// The grammar for the calls that `choice` allows. None: no calls are allowed, or none are known.
    ///
    /// `control` gives the id of a text that is one control token of the vocabulary, one that never is part of a text
    /// otherwise: the grammar names these by their ids and spells everything else.
    pub fn new(
        markup: Markup,
        tools: &[Tool],
        choice: &ToolChoice,
        parallel: bool,
        control: &dyn Fn(&str) -> Option<u32>,
    ) -> Option<ToolGrammar> {
        let tools: Vec<&Tool> = match choice {
            ToolChoice::None => Vec::new(),
            ToolChoice::Named(name) => tools.iter().filter(|tool| tool.name == *name).collect(),
            ToolChoice::Auto | ToolChoice::Required => tools.iter().collect(),
        };
        if tools.is_empty() {
            return None;
        }
        let forced = choice.forces();
        let (lark, triggers) = match layout(markup) {
            Layout::Json(style) => in_json(style, &tools, parallel, &markup.markers(), control),
            Layout::Named(style) => named(style, &tools, parallel, &markup.markers(), control),
            Layout::Tagged(style) => tagged(markup, style, &tools, parallel, control),
            Layout::Harmony => harmony(&tools, forced, control),
        };
        Some(ToolGrammar { lark, forced, triggers: if forced { Vec::new() } else { triggers } })
    }
}

type Parts = (String, Vec<String>);

/// `item`, or several of them with `between` between.
fn repeated(item: &str, between: &str, parallel: bool) -> String {
    if parallel { format!("{item} ({between} {item})*") } else { item.to_owned() }
}

fn in_json(
    style: &JsonStyle,
    tools: &[&Tool],
    parallel: bool,
    marks: &[&'static str],
    control: Control,
) -> Parts {
    let mut lark = Lark::new(marks, control);
    let open = style.open.first().copied().unwrap_or_default();
    let close = style.close.first().copied().unwrap_or_default();
    let pad = style.pad;
    let objects: Vec<String> = (0..tools.len()).map(|index| format!("f{index}")).collect();
    let objects = format!("({})", any(&objects));
    let start = match (style.array, pad) {
        (true, _) => {
            let list = repeated(&objects, "\", \"", parallel);
            format!(
                "{} {list} {}",
                lark.text(&format!("{open}[")),
                lark.text(&format!("]{}", if open == "<tool_call>" { close } else { "" }))
            )
        }
        // Llama 3: the tag is there only where it is the trigger.
        (false, "") => format!("({})? {}", lark.text(open), repeated(&objects, "\"; \"", parallel)),
        (false, _) => repeated("call", "(\"\\n\")?", parallel),
    };
    lark.rule("start", &start);
    if start.contains("call") {
        let (open, close) = (lark.text(&format!("{open}{pad}")), lark.text(&format!("{pad}{close}")));
        lark.rule("call", &format!("{open} {objects} {close}"));
    }
    // Mistral gives its calls ids, behind the arguments.
    let id = if open == "[TOOL_CALLS]" { r#"(", \"id\": \"" /[a-zA-Z0-9]{9}/ "\"")? "# } else { "" };
    for (index, tool) in tools.iter().enumerate() {
        let name = Value::from(tool.name.as_str());
        let head = lark.text(&format!("{{\"name\": {name}, \"{}\": ", style.arguments));
        lark.rule(&format!("f{index}"), &format!("{head} a{index} {id}\"}}\""));
        lark.rule(&format!("a{index}"), &json(&tool.schema()));
    }
    (lark.finish(), vec![open.to_owned()])
}

fn named(
    style: &NamedStyle,
    tools: &[&Tool],
    parallel: bool,
    marks: &[&'static str],
    control: Control,
) -> Parts {
    let mut lark = Lark::new(marks, control);
    let calls: Vec<String> = (0..tools.len()).map(|index| format!("f{index}")).collect();
    let between = if style.call_close.starts_with('\n') { "\"\\n\"" } else { "" };
    let calls = repeated(&format!("({})", any(&calls)), between, parallel);
    let mut triggers = vec![style.call_open.to_owned()];
    match style.block {
        Some((open, close)) => {
            // Some models leave the tags of the block out.
            lark.rule("start", &format!("{} {calls} {} | {calls}", lark.text(open), lark.text(close)));
            triggers.insert(0, open.to_owned());
        }
        None => lark.rule("start", &calls),
    }
    for (index, tool) in tools.iter().enumerate() {
        let NamedStyle { call_open, before_name, after_name, call_close, .. } = style;
        let head = format!("{call_open}{before_name}{}", tool.name);
        let body = if style.numbered {
            let (head, after) = (lark.text(&format!("{head}:")), lark.text(after_name));
            format!("{head} /[0-9]{{1,3}}/ {after} a{index} {}", lark.text(call_close))
        } else {
            format!("{} a{index} {}", lark.text(&format!("{head}{after_name}")), lark.text(call_close))
        };
        lark.rule(&format!("f{index}"), &body);
        lark.rule(&format!("a{index}"), &json(&tool.schema()));
    }
    (lark.finish(), triggers)
}

fn tagged(markup: Markup, style: &TaggedStyle, tools: &[&Tool], parallel: bool, control: Control) -> Parts {
    let mut lark = Lark::new(&markup.markers(), control);
    let calls: Vec<String> = (0..tools.len()).map(|index| format!("f{index}")).collect();
    let calls = format!("({})", any(&calls));
    let line = lark.text(style.line);
    let mut triggers = Vec::new();
    match style.block {
        None => {
            lark.rule("start", &repeated(&calls, &format!("({line})?"), parallel));
            triggers.push(style.call_open.to_owned());
        }
        Some((open, close)) => {
            let (opens, closes) =
                (lark.text(&format!("{open}{}", style.line)), lark.text(&format!("{}{close}", style.line)));
            if style.many {
                lark.rule("start", &format!("{opens} {} {closes}", repeated(&calls, &line, parallel)));
            } else {
                let block = format!("{opens} {calls} {closes}");
                let more = if parallel { format!("({line} {block})*") } else { String::new() };
                // A first call without the tag around it, as Qwen3-Coder writes now and then.
                let bare = if markup == Markup::QwenXml {
                    format!(" | {calls} ({closes})? {more}")
                } else {
                    String::new()
                };
                lark.rule("start", &format!("{block} {more}{bare}"));
            }
            triggers.push(open.to_owned());
        }
    }
    if markup == Markup::QwenXml {
        triggers
            .extend(tools.iter().map(|tool| format!("{}{}{}", style.call_open, tool.name, style.name_end)));
    }
    params::rules(&mut lark, style, tools);
    (lark.finish(), triggers)
}

fn harmony(tools: &[&Tool], forced: bool, control: Control) -> Parts {
    let mut lark = Lark::new(&HARMONY_MARKS, control);
    let calls: Vec<String> = (0..tools.len()).map(|index| format!("f{index}")).collect();
    let start = lark.text("<|start|>assistant");
    let calls = any(&calls);
    lark.rule("start", &if forced { format!("({start})? ({calls})") } else { calls });
    let (commentary, json_type) = (lark.text("<|channel|>commentary"), lark.text(" <|constrain|>json"));
    let (plain, message) = (lark.text(" json"), lark.text("<|message|>"));
    for (index, tool) in tools.iter().enumerate() {
        let to = lark.text(&format!(" to=functions.{}", tool.name));
        let kind = format!("({json_type} | {plain})?");
        let body = if forced {
            format!("({commentary} {to} {kind} | {to} {commentary} {kind}) {message} a{index}")
        } else {
            // The recipient arms the grammar; its channel stands before or after it.
            format!("{to} ({commentary})? {kind} {message} a{index}")
        };
        lark.rule(&format!("f{index}"), &body);
        lark.rule(&format!("a{index}"), &json(&tool.schema()));
    }
    (lark.finish(), vec![" to=functions.".to_owned()])
}
