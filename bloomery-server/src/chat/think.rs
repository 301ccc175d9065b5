//! Where reasoning stands in a reply.

/// The tags around reasoning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThinkTags {
    /// Opens the reasoning.
    pub start: String,
    /// Closes it.
    pub end: String,
}

/// How a reply begins, told by the end of the rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ReplyStart {
    /// The prompt leaves it to the model whether it thinks.
    #[default]
    Fresh,
    /// The prompt ends inside the reasoning.
    Thinking {
        /// The opening tag and the white space after it, as the prompt has them.
        opened: String,
    },
    /// The prompt has a closed reasoning: none will follow.
    Answering,
}

/// Where the client wants the reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReasoningFormat {
    /// Left in the content, tags and all.
    None,
    /// Apart from the content, without tags.
    Deepseek,
    /// Both: left in the content and given apart. Streams take [`ReasoningFormat::None`] instead.
    DeepseekLegacy,
    /// As [`ReasoningFormat::Deepseek`].
    #[default]
    Auto,
}

/// Known tags, told by a text that only templates of models with these tags contain.
const KNOWN: [(&str, &str, &str); 6] = [
    ("<|channel|>", "<|channel|>analysis<|message|>", "<|end|>"),
    ("[THINK]", "[THINK]", "[/THINK]"),
    ("<seed:think>", "<seed:think>", "</seed:think>"),
    ("<mm:think>", "<mm:think>", "</mm:think>"),
    ("<|START_THINKING|>", "<|START_THINKING|>", "<|END_THINKING|>"),
    ("</think>", "<think>", "</think>"),
];

impl ThinkTags {
    /// The tags that a template's text mentions. None: the model does not reason in tags.
    pub fn detect(template_source: &str) -> Option<ThinkTags> {
        let known = KNOWN.iter().find(|(mark, ..)| template_source.contains(mark));
        known.map(|(_, start, end)| ThinkTags { start: (*start).to_owned(), end: (*end).to_owned() })
    }
}

impl ReplyStart {
    /// How a reply begins after `prompt`.
    pub fn of(prompt: &str, think: Option<&ThinkTags>) -> ReplyStart {
        let Some(think) = think else { return ReplyStart::Fresh };
        let text = prompt.trim_end();
        if text.ends_with(&think.start) {
            let opened = prompt[text.len() - think.start.len()..].to_owned();
            return ReplyStart::Thinking { opened };
        }
        // A prompt of Harmony always ends a message before the reply: that says nothing about the reply.
        if text.ends_with(&think.end) && think.end != "<|end|>" {
            return ReplyStart::Answering;
        }
        ReplyStart::Fresh
    }
}

impl ReasoningFormat {
    /// Reads the names of the wire: `none`, `deepseek`, `deepseek-legacy`, `auto`.
    pub fn from_name(name: &str) -> Option<ReasoningFormat> {
        match name {
            "none" => Some(ReasoningFormat::None),
            "deepseek" => Some(ReasoningFormat::Deepseek),
            "deepseek-legacy" => Some(ReasoningFormat::DeepseekLegacy),
            "auto" => Some(ReasoningFormat::Auto),
            _ => None,
        }
    }

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            ReasoningFormat::None => "none",
            ReasoningFormat::Deepseek => "deepseek",
            ReasoningFormat::DeepseekLegacy => "deepseek-legacy",
            ReasoningFormat::Auto => "auto",
        }
    }

    /// The format to parse with: a stream leaves the reasoning of `deepseek-legacy` in the content.
    #[must_use]
    pub fn for_stream(self, stream: bool) -> ReasoningFormat {
        match self {
            ReasoningFormat::DeepseekLegacy if stream => ReasoningFormat::None,
            other => other,
        }
    }
}
