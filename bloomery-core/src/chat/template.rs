//! A model's chat template, compiled once and rendered for every conversation.

use std::fmt;
use std::io;
use std::thread;

use bloomery_gguf::Metadata;
use minijinja::{Environment, Value};

use super::request::{self, ChatRequest};
use super::{bounds, environment, error::TemplateError, source, value};

/// Work a rendering may do at least: about one unit for each step of the template and for each 64 bytes it handles, so
/// this also bounds what it allocates, to 512 MB. Longer conversations get more, see [`ChatTemplate::render`].
pub const FUEL: u64 = 8_000_000;

/// Work added for each pair of messages, for templates that walk the history from every message. With it, 73 of 74
/// known templates lay out 2001 messages of tool calls.
const FUEL_PER_PAIR: u64 = 64;

/// Work added for each byte of the request, for templates that search or copy every text several times.
const FUEL_PER_BYTE: u64 = 4;

/// The longest prompt in bytes.
pub const MAX_OUTPUT: usize = 64 << 20;

/// Stack for compiling and rendering; only what is used is ever real. A recursive loop can build a value of 35 000 levels
/// before it meets a limit, and writing that out with `~` fits.
const STACK: usize = 64 << 20;

/// Frames of nested loops and macros. A macro counts for several.
const RECURSION: usize = 500;

/// Where a file keeps its default template; variants append a dot and their name.
const DEFAULT_KEY: &str = "tokenizer.chat_template";

/// Where a file lists its variants.
const LIST_KEY: &str = "tokenizer.chat_templates";

/// The variant that serves when no other fits.
const DEFAULT: &str = "default";

/// The variant that is preferred where tools are given.
const TOOL_USE: &str = "tool_use";

/// The chat templates of one model: a default one, and named variants in some files.
#[derive(Clone)]
pub struct ChatTemplate {
    env: Environment<'static>,
    names: Vec<String>,
    /// As they were given, in the order of `names`.
    sources: Vec<String>,
    bos: String,
    eos: String,
}

impl ChatTemplate {
    /// Compiles `source`. `bos` and `eos` are the texts of the tokens that open and close a sequence; an empty one
    /// means that the model has none, and is undefined in the template.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`] with the line.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<ChatTemplate, TemplateError> {
        ChatTemplate::empty(bos, eos).with_variant(DEFAULT, source)
    }

    /// Compiles the templates of a model file: `tokenizer.chat_template`, and the variants
    /// `tokenizer.chat_template.NAME` that `tokenizer.chat_templates` lists. None: the file has no template.
    /// `bos` and `eos` are as for [`ChatTemplate::new`].
    ///
    /// # Errors
    /// [`TemplateError::Metadata`] for a key of the wrong type or a listed variant that is missing,
    /// [`TemplateError::Syntax`] with variant and line.
    pub fn from_metadata(
        meta: &Metadata,
        bos: &str,
        eos: &str,
    ) -> Result<Option<ChatTemplate>, TemplateError> {
        let mut template = ChatTemplate::empty(bos, eos);
        if let Some(source) = meta.opt_str(DEFAULT_KEY)? {
            template = template.with_variant(DEFAULT, source)?;
        }
        let listed = meta.opt_strings(LIST_KEY)?.unwrap_or_default().iter().map(String::as_str);
        let prefix = format!("{DEFAULT_KEY}.");
        let keyed = meta.iter().filter_map(|(key, _)| key.strip_prefix(&prefix));
        for name in listed.chain(keyed) {
            if !template.names.iter().any(|known| known == name) && name != DEFAULT {
                template = template.with_variant(name, meta.str(&format!("{prefix}{name}"))?)?;
            }
        }
        Ok(if template.names.is_empty() { None } else { Some(template) })
    }

    fn empty(bos: &str, eos: &str) -> ChatTemplate {
        let env = environment::environment(RECURSION);
        ChatTemplate { env, names: Vec::new(), sources: Vec::new(), bos: bos.to_owned(), eos: eos.to_owned() }
    }

    /// Adds a named variant. `tool_use` takes over where a request has tools; `default` replaces the default.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`] with the line.
    pub fn with_variant(mut self, name: &str, source: &str) -> Result<ChatTemplate, TemplateError> {
        let prepared = source::prepare(name, source)?;
        on_deep_stack(|| self.env.add_template_owned(name.to_owned(), prepared))?
            .map_err(|error| TemplateError::from_engine(name, &error, FUEL, RECURSION))?;
        match self.names.iter().position(|known| known == name) {
            Some(known) => self.sources[known] = source.to_owned(),
            None => {
                self.names.push(name.to_owned());
                self.sources.push(source.to_owned());
            }
        }
        Ok(self)
    }

    /// Names of the variants.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The text of a variant; the usual one is `default`.
    pub fn source(&self, name: &str) -> Option<&str> {
        let known = self.names.iter().position(|known| known == name)?;
        self.sources.get(known).map(String::as_str)
    }

    /// Lays out a conversation.
    ///
    /// The work is bounded by [`FUEL`] plus 64 units for every pair of messages and 4 for every byte of the request.
    ///
    /// # Errors
    /// [`TemplateError::Raised`] where the template refuses the conversation, [`TemplateError::Render`] where it
    /// fails on it, one of the limits, or a request that is no conversation.
    pub fn render(&self, request: &ChatRequest) -> Result<String, TemplateError> {
        on_deep_stack(|| self.render_here(request))?
    }

    fn render_here(&self, request: &ChatRequest) -> Result<String, TemplateError> {
        let name = self.pick(request)?;
        let context = self.context(request)?;
        let fuel = fuel(request.messages.len(), &context);
        let engine_error = |error| TemplateError::from_engine(name, &error, fuel, RECURSION);
        let mut env = self.env.clone();
        env.set_fuel(Some(fuel));
        let template = env.get_template(name).map_err(engine_error)?;
        let mut prompt = Prompt(Vec::new());
        template.render_captured_to(context, &mut prompt).map_err(engine_error)?;
        Ok(String::from_utf8(prompt.0).expect("the engine writes whole strings"))
    }

    fn pick(&self, request: &ChatRequest) -> Result<&str, TemplateError> {
        let find = |wanted: &str| self.names.iter().find(|name| *name == wanted);
        let tool_use = find(TOOL_USE).filter(|_| !request.tools.is_empty());
        let name = tool_use.or_else(|| find(DEFAULT));
        name.map(String::as_str).ok_or_else(|| TemplateError::NoDefault { names: self.names.clone() })
    }

    fn context(&self, request: &ChatRequest) -> Result<Value, TemplateError> {
        let mut variables = vec![
            ("messages", request::messages(request)?),
            ("tools", request::tools(request)?),
            ("documents", Value::from(())),
            ("add_generation_prompt", Value::from(request.add_generation_prompt)),
            ("strftime_now", environment::strftime_now(request.now)),
        ];
        for (name, token) in [("bos_token", &self.bos), ("eos_token", &self.eos)] {
            if !token.is_empty() {
                variables.push((name, Value::from(token.as_str())));
            }
        }
        for (name, json) in &request.kwargs {
            variables.push((name, value::from_json(json, "kwargs")?));
        }
        Ok(Value::from_pairs(variables))
    }
}

/// The budget of one rendering.
fn fuel(messages: usize, context: &Value) -> u64 {
    let (messages, bytes) = (messages as u64, bounds::size(context) as u64);
    FUEL + messages.saturating_mul(messages).saturating_mul(FUEL_PER_PAIR) + bytes * FUEL_PER_BYTE
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatTemplate")
            .field("names", &self.names)
            .field("bos", &self.bos)
            .field("eos", &self.eos)
            .finish()
    }
}

/// Runs `work` on a thread with [`STACK`] bytes of stack, and waits.
fn on_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, TemplateError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("chat-template".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, work);
        match thread.map(|thread| thread.join()) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => Err(TemplateError::Thread { message: error.to_string() }),
        }
    })
}

/// Takes what the template writes, up to [`MAX_OUTPUT`].
struct Prompt(Vec<u8>);

impl io::Write for Prompt {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
