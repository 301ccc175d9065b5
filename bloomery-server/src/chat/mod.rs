//! What a chat model writes, and how it wants to be asked: markup without HTTP.
//!
//! | from | to |
//! |---|---|
//! | [`ChatTemplate`](bloomery_core::chat::ChatTemplate) | [`TemplateCaps`]: what the template takes, and the model's [`Markup`] and [`ThinkTags`] |
//! | messages of a request | [`normalise`]d messages for the template; [`Prefill`] writes a begun reply behind its prompt |
//! | [`Tool`]s and a [`ToolChoice`] | [`ToolGrammar`], which holds the model to calls of them |
//! | text as it is generated | [`OutputParser`]: [`Delta`]s, which a [`Reply`] puts together |
//!
//! # Families of markup
//!
//! | [`Markup`] | models | a call |
//! |---|---|---|
//! | `Hermes` | Qwen 2.5 and 3, QwQ, Hermes 2 and 3, Granite 4, MiMo | `<tool_call>{"name": "f", "arguments": {…}}</tool_call>` |
//! | `QwenXml` | Qwen3-Coder, Qwen 3.5 and later, Nemotron 3, Step 3.5 | `<tool_call><function=f><parameter=p>v</parameter></function></tool_call>` |
//! | `SeedXml` | Seed-OSS | the same inside `<seed:tool_call>` |
//! | `MiniMax` | MiniMax M2 | `<minimax:tool_call><invoke name="f"><parameter name="p">v</parameter></invoke></minimax:tool_call>` |
//! | `Glm` | GLM 4.5 and later, Laguna, Ling 3 | `<tool_call>f<arg_key>p</arg_key><arg_value>v</arg_value></tool_call>` |
//! | `Dsml` | DeepSeek V3.2, V4, V4.1 | `<｜DSML｜tool_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="p" string="true">v</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>` |
//! | `DeepSeekR1` | DeepSeek V3, R1 and its distillations | `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f`, fenced JSON, `<｜tool▁call▁end｜><｜tool▁calls▁end｜>` |
//! | `DeepSeekV31` | DeepSeek V3.1 | `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜><｜tool▁calls▁end｜>` |
//! | `Llama3` | Llama 3.1 to 3.3 | `{"name": "f", "parameters": {…}}`, also after `<\|python_tag\|>` |
//! | `MistralArray` | Mistral Nemo and before | `[TOOL_CALLS][{"name": "f", "arguments": {…}}]` |
//! | `MistralArgs` | Mistral Small 3.2, Devstral, Ministral 3 | `[TOOL_CALLS]f[ARGS]{…}` |
//! | `Kimi` | Kimi K2 | `<\|tool_call_begin\|>functions.f:0<\|tool_call_argument_begin\|>{…}<\|tool_call_end\|>` |
//! | `Granite` | Granite 3 | `<\|tool_call\|>[{"name": "f", "arguments": {…}}]` |
//! | `Harmony` | gpt-oss | `<\|channel\|>commentary to=functions.f <\|constrain\|>json<\|message\|>{…}` |
//! | `Generic` | all others | as `Hermes`; where the template does not show tools, the system message asks for it |
//!
//! # What is read as what
//!
//! * Arguments are sent on as they come. The JSON of a complete call parses: careless strings are mended, see
//!   [`OutputParser`]. In the families whose arguments stand in tags a value becomes what the tool's schema says; a text
//!   stays a text however it looks.
//! * A call of an unknown tool is a call: its client can tell the model so. (llama-server fails the whole reply.) Only
//!   where no tag marks a call, the name has to be known.
//! * Markup that is no call is content. A call that turns wrong half-way ends there, [`Delta::ToolBroken`].
//! * A call that the end of the generation cuts stays as far as it came, without [`Delta::ToolEnd`].
//! * Reasoning ends once; later tags are content. Harmony alone thinks several times.
//!
//! # Why this is not a crate
//!
//! `tool-parser` 1.10 brings 175 crates (a Python parser among them), knows one plain `type` per parameter and trims
//! values; `dynamo-parsers` 11 brings 343. None writes grammars. Both are Apache-2.0; `reasoning-parser` alone is light.

mod delta;
mod grammar;
mod markup;
mod messages;
mod parse;
mod prefill;
mod prompt;
mod reply;
mod schema;
mod style;
mod think;
mod tool;
mod write;

pub use delta::Delta;
pub use grammar::ToolGrammar;
pub use markup::{DsmlStyle, Markup};
pub use messages::{MessageError, TemplateCaps, normalise, template_tools};
pub use parse::{OutputParser, ParserOptions};
pub use prefill::Prefill;
pub use reply::{Reply, ReplyCall};
pub use think::{ReasoningFormat, ReplyStart, ThinkTags};
pub use tool::{Tool, ToolChoice};
pub use write::Call;
