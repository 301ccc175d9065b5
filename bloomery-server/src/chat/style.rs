//! The tags of each family, as data for the parser, the writer and the grammars.

use super::markup::{DsmlStyle, Markup};

/// How the calls of a family are laid out.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Layout {
    /// Name and arguments are keys of one JSON object.
    Json(&'static JsonStyle),
    /// The name stands before a JSON object of arguments.
    Named(&'static NamedStyle),
    /// Every argument has its own tags.
    Tagged(&'static TaggedStyle),
    /// Messages with channels.
    Harmony,
}

/// See [`Layout::Json`].
#[derive(Debug)]
pub(crate) struct JsonStyle {
    /// Tags before the object, the one that the model was trained on first.
    pub(crate) open: &'static [&'static str],
    /// Tags after it, the same way; none needs to be there.
    pub(crate) close: &'static [&'static str],
    /// The key of the arguments.
    pub(crate) arguments: &'static str,
    /// Calls are elements of one array.
    pub(crate) array: bool,
    /// A reply may begin with the object, without a tag.
    pub(crate) bare: bool,
    /// White space inside the tags.
    pub(crate) pad: &'static str,
}

/// See [`Layout::Named`].
#[derive(Debug)]
pub(crate) struct NamedStyle {
    /// Tags around all calls.
    pub(crate) block: Option<(&'static str, &'static str)>,
    /// Opens a call.
    pub(crate) call_open: &'static str,
    /// Between the opening and the name.
    pub(crate) before_name: &'static str,
    /// Between the name, and a call's number where there is one, and the JSON.
    pub(crate) after_name: &'static str,
    /// After the JSON.
    pub(crate) call_close: &'static str,
    /// A call's number follows its name after a colon.
    pub(crate) numbered: bool,
    /// Marks inside a call that may be special tokens.
    pub(crate) marks: &'static [&'static str],
}

/// See [`Layout::Tagged`].
#[derive(Debug)]
pub(crate) struct TaggedStyle {
    /// Tags around a call, or around all calls.
    pub(crate) block: Option<(&'static str, &'static str)>,
    /// The block holds several calls.
    pub(crate) many: bool,
    /// Before the name.
    pub(crate) call_open: &'static str,
    /// After the name. Empty: white space or the next tag ends it.
    pub(crate) name_end: &'static str,
    /// After the arguments.
    pub(crate) call_close: &'static str,
    /// Before the name of an argument.
    pub(crate) param_open: &'static str,
    /// After the name of an argument.
    pub(crate) key_end: &'static str,
    /// After `key_end`, before the value.
    pub(crate) value_open: &'static str,
    /// After the value.
    pub(crate) param_close: &'static str,
    /// The tag of an argument says whether its value is a string.
    pub(crate) string_attribute: bool,
    /// White space that is written between tags.
    pub(crate) line: &'static str,
    /// Values stand on lines of their own.
    pub(crate) value_lines: bool,
    /// Marks that may be special tokens.
    pub(crate) marks: &'static [&'static str],
}

/// The layout of a family.
pub(crate) fn layout(markup: Markup) -> Layout {
    match markup {
        Markup::Hermes | Markup::Generic => Layout::Json(&HERMES),
        Markup::Llama3 => Layout::Json(&LLAMA3),
        Markup::MistralArray => Layout::Json(&MISTRAL_ARRAY),
        Markup::Granite => Layout::Json(&GRANITE),
        Markup::MistralArgs => Layout::Named(&MISTRAL_ARGS),
        Markup::DeepSeekR1 => Layout::Named(&DEEPSEEK_R1),
        Markup::DeepSeekV31 => Layout::Named(&DEEPSEEK_V31),
        Markup::Kimi => Layout::Named(&KIMI),
        Markup::QwenXml => Layout::Tagged(&QWEN_XML),
        Markup::SeedXml => Layout::Tagged(&SEED_XML),
        Markup::MiniMax => Layout::Tagged(&MINIMAX),
        Markup::Glm => Layout::Tagged(&GLM),
        Markup::Dsml(DsmlStyle::V32) => Layout::Tagged(&DSML_V32),
        Markup::Dsml(DsmlStyle::V4) => Layout::Tagged(&DSML_V4),
        Markup::Dsml(DsmlStyle::V41) => Layout::Tagged(&DSML_V41),
        Markup::Harmony => Layout::Harmony,
    }
}

static HERMES: JsonStyle = JsonStyle {
    open: &["<tool_call>"],
    close: &["</tool_call>"],
    arguments: "arguments",
    array: false,
    bare: true,
    pad: "\n",
};

static LLAMA3: JsonStyle = JsonStyle {
    open: &["<|python_tag|>"],
    close: &[],
    arguments: "parameters",
    array: false,
    bare: true,
    pad: "",
};

static MISTRAL_ARRAY: JsonStyle = JsonStyle {
    open: &["[TOOL_CALLS]"],
    close: &[],
    arguments: "arguments",
    array: true,
    bare: false,
    pad: "",
};

static GRANITE: JsonStyle = JsonStyle {
    open: &["<|tool_call|>", "<tool_call>"],
    close: &["</tool_call>"],
    arguments: "arguments",
    array: true,
    bare: true,
    pad: "",
};

static MISTRAL_ARGS: NamedStyle = NamedStyle {
    block: None,
    call_open: "[TOOL_CALLS]",
    before_name: "",
    after_name: "[ARGS]",
    call_close: "",
    numbered: false,
    marks: &["[ARGS]", "[CALL_ID]"],
};

static DEEPSEEK_R1: NamedStyle = NamedStyle {
    block: Some(("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")),
    call_open: "<｜tool▁call▁begin｜>",
    before_name: "function<｜tool▁sep｜>",
    after_name: "\n```json\n",
    call_close: "\n```<｜tool▁call▁end｜>",
    numbered: false,
    marks: &["<｜tool▁sep｜>", "<｜tool▁call▁end｜>"],
};

static DEEPSEEK_V31: NamedStyle = NamedStyle {
    block: Some(("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")),
    call_open: "<｜tool▁call▁begin｜>",
    before_name: "",
    after_name: "<｜tool▁sep｜>",
    call_close: "<｜tool▁call▁end｜>",
    numbered: false,
    marks: &["<｜tool▁sep｜>", "<｜tool▁call▁end｜>"],
};

static KIMI: NamedStyle = NamedStyle {
    block: Some(("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>")),
    call_open: "<|tool_call_begin|>",
    before_name: "functions.",
    after_name: "<|tool_call_argument_begin|>",
    call_close: "<|tool_call_end|>",
    numbered: true,
    marks: &["<|tool_call_argument_begin|>", "<|tool_call_end|>"],
};

static QWEN_XML: TaggedStyle = TaggedStyle {
    block: Some(("<tool_call>", "</tool_call>")),
    many: false,
    call_open: "<function=",
    name_end: ">",
    call_close: "</function>",
    param_open: "<parameter=",
    key_end: ">",
    value_open: "",
    param_close: "</parameter>",
    string_attribute: false,
    line: "\n",
    value_lines: true,
    marks: &[],
};

static SEED_XML: TaggedStyle = TaggedStyle {
    block: Some(("<seed:tool_call>", "</seed:tool_call>")),
    many: false,
    call_open: "<function=",
    name_end: ">",
    call_close: "</function>",
    param_open: "<parameter=",
    key_end: ">",
    value_open: "",
    param_close: "</parameter>",
    string_attribute: false,
    line: "\n",
    value_lines: false,
    marks: &[],
};

static MINIMAX: TaggedStyle = TaggedStyle {
    block: Some(("<minimax:tool_call>", "</minimax:tool_call>")),
    many: true,
    call_open: "<invoke name=\"",
    name_end: "\">",
    call_close: "</invoke>",
    param_open: "<parameter name=\"",
    key_end: "\">",
    value_open: "",
    param_close: "</parameter>",
    string_attribute: false,
    line: "\n",
    value_lines: false,
    marks: &[],
};

static GLM: TaggedStyle = TaggedStyle {
    block: None,
    many: false,
    call_open: "<tool_call>",
    name_end: "",
    call_close: "</tool_call>",
    param_open: "<arg_key>",
    key_end: "</arg_key>",
    value_open: "<arg_value>",
    param_close: "</arg_value>",
    string_attribute: false,
    line: "\n",
    value_lines: false,
    marks: &["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
};

/// The tags of a dialect of DSML: the name of the block, and what follows the mark.
macro_rules! dsml {
    ($block:literal, $space:literal) => {
        TaggedStyle {
            block: Some((
                concat!("<｜DSML｜", $space, $block, ">"),
                concat!("</｜DSML｜", $space, $block, ">"),
            )),
            many: true,
            call_open: concat!("<｜DSML｜", $space, "invoke name=\""),
            name_end: "\">",
            call_close: concat!("</｜DSML｜", $space, "invoke>"),
            param_open: concat!("<｜DSML｜", $space, "parameter name=\""),
            key_end: "\"",
            value_open: "",
            param_close: concat!("</｜DSML｜", $space, "parameter>"),
            string_attribute: true,
            line: "\n",
            value_lines: false,
            marks: &["｜DSML｜"],
        }
    };
}

static DSML_V32: TaggedStyle = dsml!("function_calls", "");
static DSML_V4: TaggedStyle = dsml!("tool_calls", "");
static DSML_V41: TaggedStyle = dsml!("calls", " ");

/// The special tokens of Harmony.
pub(crate) const HARMONY_MARKS: [&str; 7] =
    ["<|channel|>", "<|message|>", "<|constrain|>", "<|start|>", "<|end|>", "<|call|>", "<|return|>"];
