//! The families of markup in which models write tool calls.

use super::style::{self, Layout};

/// How a model writes tool calls. The table in the [module](super) shows each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Markup {
    /// `<tool_call>{"name", "arguments"}</tool_call>`: Hermes, Qwen 2.5 and 3, Granite 4.
    Hermes,
    /// `<tool_call><function=f><parameter=p>`: Qwen3-Coder, Qwen 3.5 and later, Nemotron 3.
    QwenXml,
    /// The same inside `<seed:tool_call>`: Seed-OSS.
    SeedXml,
    /// `<minimax:tool_call><invoke name="f"><parameter name="p">`: MiniMax M2.
    MiniMax,
    /// `<tool_call>f<arg_key>p</arg_key><arg_value>v</arg_value></tool_call>`: GLM 4.5 and later.
    Glm,
    /// `<｜DSML｜invoke name="f">`: DeepSeek V3.2 and later.
    Dsml(DsmlStyle),
    /// `<｜tool▁call▁begin｜>function<｜tool▁sep｜>f` and fenced JSON: DeepSeek V3 and R1.
    DeepSeekR1,
    /// `<｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}`: DeepSeek V3.1.
    DeepSeekV31,
    /// `{"name", "parameters"}`, bare or after `<|python_tag|>`: Llama 3.
    Llama3,
    /// `[TOOL_CALLS][{"name", "arguments", "id"}]`: Mistral Nemo and before.
    MistralArray,
    /// `[TOOL_CALLS]f[ARGS]{…}`: Mistral Small 3.2, Devstral, Ministral 3.
    MistralArgs,
    /// `<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{…}`: Kimi K2.
    Kimi,
    /// `<|tool_call|>[{"name", "arguments"}]`: Granite 3.
    Granite,
    /// Messages with channels and recipients: gpt-oss.
    Harmony,
    /// No family is known: the prompt asks for the calls of [`Markup::Hermes`].
    Generic,
}

/// The three dialects of DSML.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DsmlStyle {
    /// DeepSeek V3.2: the block is called `function_calls`.
    V32,
    /// DeepSeek V4: the block is called `tool_calls`.
    V4,
    /// DeepSeek V4.1: the block is called `calls`, and a space follows the mark.
    V41,
}

/// Families by texts that all stand in the template; the first that fits wins.
const KNOWN: [(&[&str], Markup); 20] = [
    // MiniMax M3 has a markup of its own and mentions the tags of others.
    (&["<mm:think>"], Markup::Generic),
    (&["DSML", "function_calls"], Markup::Dsml(DsmlStyle::V32)),
    (&["DSML", "tool_calls>"], Markup::Dsml(DsmlStyle::V4)),
    (&["DSML"], Markup::Dsml(DsmlStyle::V41)),
    (&["<|channel|>", "<|message|>"], Markup::Harmony),
    (&["<｜tool▁call▁begin｜>", "```json"], Markup::DeepSeekR1),
    (&["<｜tool▁call▁begin｜>"], Markup::DeepSeekV31),
    (&["<|tool_call_begin|>", "<|tool_call_argument_begin|>"], Markup::Kimi),
    (&["[TOOL_CALLS]", "[ARGS]"], Markup::MistralArgs),
    (&["[TOOL_CALLS]"], Markup::MistralArray),
    (&["<arg_key>", "<arg_value>"], Markup::Glm),
    (&["<minimax:tool_call>", "<invoke name="], Markup::MiniMax),
    (&["<seed:tool_call>", "<function="], Markup::SeedXml),
    (&["<tool_call>", "<function=", "<parameter="], Markup::QwenXml),
    (&["<function=", "<parameter="], Markup::QwenXml),
    (&["<tool_call>", "arguments"], Markup::Hermes),
    (&["<|tool_call|>"], Markup::Granite),
    (&["<|python_tag|>", "\"parameters\""], Markup::Llama3),
    (&["<|start_header_id|>", "\"parameters\""], Markup::Llama3),
    (&["<tool_call>"], Markup::Hermes),
];

impl Markup {
    /// The family of a chat template, told by its text.
    pub fn detect(template_source: &str) -> Markup {
        let fits = |texts: &[&str]| texts.iter().all(|text| template_source.contains(text));
        KNOWN.iter().find(|(texts, _)| fits(texts)).map_or(Markup::Generic, |(_, markup)| *markup)
    }

    /// A short name for logs.
    pub fn name(self) -> &'static str {
        match self {
            Markup::Hermes => "hermes",
            Markup::QwenXml => "qwen-xml",
            Markup::SeedXml => "seed-xml",
            Markup::MiniMax => "minimax",
            Markup::Glm => "glm",
            Markup::Dsml(DsmlStyle::V32) => "dsml-v3.2",
            Markup::Dsml(DsmlStyle::V4) => "dsml-v4",
            Markup::Dsml(DsmlStyle::V41) => "dsml-v4.1",
            Markup::DeepSeekR1 => "deepseek-r1",
            Markup::DeepSeekV31 => "deepseek-v3.1",
            Markup::Llama3 => "llama3",
            Markup::MistralArray => "mistral-array",
            Markup::MistralArgs => "mistral-args",
            Markup::Kimi => "kimi",
            Markup::Granite => "granite",
            Markup::Harmony => "harmony",
            Markup::Generic => "generic",
        }
    }

    /// Texts that may be special tokens of the vocabulary. A parser needs to see them: generation must write these
    /// tokens out where it drops other special ones.
    pub fn markers(self) -> Vec<&'static str> {
        match style::layout(self) {
            Layout::Json(style) => style.open.iter().chain(style.close).copied().collect(),
            Layout::Named(style) => {
                let block = style.block.iter().flat_map(|(open, close)| [*open, *close]);
                block.chain([style.call_open]).chain(style.marks.iter().copied()).collect()
            }
            Layout::Tagged(style) => {
                let block = style.block.iter().flat_map(|(open, close)| [*open, *close]);
                block.chain(style.marks.iter().copied()).collect()
            }
            Layout::Harmony => style::HARMONY_MARKS.to_vec(),
        }
    }

    /// Length of the ids of calls. Templates of Mistral refuse any other than 9.
    pub(crate) fn id_len(self) -> usize {
        match self {
            Markup::MistralArray | Markup::MistralArgs => 9,
            _ => 32,
        }
    }

    /// Every family.
    pub const ALL: [Markup; 17] = [
        Markup::Hermes,
        Markup::QwenXml,
        Markup::SeedXml,
        Markup::MiniMax,
        Markup::Glm,
        Markup::Dsml(DsmlStyle::V32),
        Markup::Dsml(DsmlStyle::V4),
        Markup::Dsml(DsmlStyle::V41),
        Markup::DeepSeekR1,
        Markup::DeepSeekV31,
        Markup::Llama3,
        Markup::MistralArray,
        Markup::MistralArgs,
        Markup::Kimi,
        Markup::Granite,
        Markup::Harmony,
        Markup::Generic,
    ];
}
