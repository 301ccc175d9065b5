//! A conversation with a model: through its chat template, or as raw text where it has none.

use std::fs;
use std::io;
use std::path::Path;

use bloomery_core::chat::{ChatRequest, ChatTemplate};
use bloomery_core::tokenizer::{Specials, Tokenizer};
use bloomery_core::{Engine, Params, Session, StopReason, Timings};
use bloomery_examples::{Failure, Status};
use serde_json::{Map, Value, json};

use crate::args::Args;
use crate::interrupt::Interrupts;

/// What an answer ended with.
pub(crate) struct Report {
    pub(crate) stop: Option<StopReason>,
    pub(crate) timings: Timings,
}

/// How messages become tokens.
enum Form {
    /// Messages in a template.
    Template(Box<Template>),
    /// One text that grows.
    Raw { tokens: Vec<u32> },
}

/// A chat template, the messages so far, and the one they begin with.
struct Template {
    template: ChatTemplate,
    system: Option<String>,
    request: ChatRequest,
}

/// An engine, a session and what was said.
pub(crate) struct Talk {
    engine: Engine,
    session: Session,
    form: Form,
    params: Params,
    interrupts: Interrupts,
}

impl Talk {
    /// An empty conversation with the flags' parameters.
    pub(crate) fn new(engine: Engine, args: &Args, interrupts: Interrupts) -> Result<Self, Failure> {
        let mut params = engine.default_params();
        args.sampling.apply(&mut params.sampling)?;
        params.max_tokens = usize::try_from(args.predict).ok();
        params.ignore_end = args.sampling.ignore_eos;
        params.special = args.special;
        params.stop.extend(args.reverse_prompt.iter().cloned());
        let template = match &args.chat_template_file {
            Some(path) => Some(read_template(path, engine.tokenizer())?),
            None => engine.chat_template().cloned(),
        };
        let form = match template {
            Some(template) => {
                let request = ChatRequest {
                    add_generation_prompt: true,
                    kwargs: kwargs(args)?,
                    ..ChatRequest::default()
                };
                Form::Template(Box::new(Template { template, system: args.system.clone(), request }))
            }
            None => Form::Raw { tokens: Vec::new() },
        };
        let mut talk = Self { session: engine.session()?, engine, form, params, interrupts };
        talk.clear()?;
        Ok(talk)
    }

    /// Whether messages go through a template.
    pub(crate) fn has_template(&self) -> bool {
        matches!(self.form, Form::Template(_))
    }

    /// Positions of the session.
    pub(crate) fn context(&self) -> usize {
        self.engine.context()
    }

    /// Positions in use.
    pub(crate) fn len(&self) -> usize {
        self.session.len()
    }

    /// Forgets everything but the system message.
    pub(crate) fn clear(&mut self) -> Result<(), Failure> {
        match &mut self.form {
            Form::Raw { tokens } => tokens.clear(),
            Form::Template(form) => {
                form.request.messages = form.system.iter().map(|text| message("system", text)).collect();
            }
        }
        Ok(self.session.truncate(0)?)
    }

    /// Answers `text`, giving the answer out piece by piece. When the message is refused (a prompt longer than the
    /// context) the conversation is as it was before.
    pub(crate) fn answer(
        &mut self,
        text: &str,
        show: impl FnMut(&str) -> io::Result<()>,
    ) -> Result<Report, Failure> {
        let prompt = self.prompt(text)?;
        let answered = self.generate(&prompt, show);
        match (&mut self.form, &answered) {
            (Form::Template(form), Ok((answer, ..))) => {
                form.request.messages.push(message("assistant", answer))
            }
            (Form::Template(form), Err(_)) => {
                form.request.messages.pop();
            }
            (Form::Raw { tokens }, Ok((_, generated, _))) => {
                *tokens = prompt;
                tokens.extend(generated);
            }
            (Form::Raw { .. }, Err(_)) => {}
        }
        answered.map(|(.., report)| report)
    }

    /// All tokens up to where the answer begins.
    fn prompt(&mut self, text: &str) -> Result<Vec<u32>, Failure> {
        let tokenizer = self.engine.tokenizer();
        match &mut self.form {
            Form::Raw { tokens } if tokens.is_empty() => {
                Ok(encoded(tokenizer.encode_prompt(text, Specials::AsText))?)
            }
            Form::Raw { tokens } => {
                // The line that was typed stands on a line of its own.
                let more = encoded(tokenizer.encode(&format!("\n{text}"), Specials::AsText))?;
                Ok([tokens.as_slice(), &more].concat())
            }
            Form::Template(form) => {
                let Template { template, request, .. } = form.as_mut();
                request.messages.push(message("user", text));
                let tokens = template
                    .render(request)
                    .map_err(|error| Failure::new(Status::Data, error))
                    .and_then(|text| with_bos(tokenizer, encoded(tokenizer.encode(&text, Specials::Parse))?));
                if tokens.is_err() {
                    request.messages.pop();
                }
                tokens
            }
        }
    }

    fn generate(
        &mut self,
        prompt: &[u32],
        mut show: impl FnMut(&str) -> io::Result<()>,
    ) -> Result<(String, Vec<u32>, Report), Failure> {
        let (adding, context) = (prompt.len(), self.engine.context());
        if adding > context {
            let message = format!("the conversation has {adding} tokens and the context {context}");
            return Err(Failure::new(Status::Data, message));
        }
        let running = self.interrupts.begin();
        let generation = self.session.generate_tokens(prompt, &self.params)?;
        let mut generation = generation.cancelled_by(running.cancel());
        let (mut answer, mut tokens) = (String::new(), Vec::new());
        for piece in generation.by_ref() {
            let piece = piece?;
            tokens.extend(piece.token);
            answer.push_str(&piece.text);
            if !piece.text.is_empty() {
                show(&piece.text)?;
            }
        }
        Ok((answer, tokens, Report { stop: generation.stop_reason(), timings: generation.timings() }))
    }
}

fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

fn encoded<E: std::fmt::Display>(tokens: Result<Vec<u32>, E>) -> Result<Vec<u32>, Failure> {
    tokens.map_err(|error| Failure::new(Status::Data, format!("tokenizer: {error}")))
}

/// Templates write the BOS token themselves or leave it to the tokenizer; it may stand there only once.
fn with_bos(tokenizer: &Tokenizer, mut tokens: Vec<u32>) -> Result<Vec<u32>, Failure> {
    if let Some(bos) = tokenizer.bos().filter(|bos| tokenizer.adds_bos() && tokens.first() != Some(bos)) {
        tokens.insert(0, bos);
    }
    Ok(tokens)
}

fn read_template(path: &Path, tokenizer: &Tokenizer) -> Result<ChatTemplate, Failure> {
    let unusable =
        |error: &dyn std::fmt::Display| Failure::new(Status::NoInput, format!("{}: {error}", path.display()));
    let source = fs::read_to_string(path).map_err(|error| unusable(&error))?;
    let text = |id: Option<u32>| id.and_then(|id| tokenizer.piece(id)).unwrap_or_default();
    ChatTemplate::new(&source, text(tokenizer.bos()), text(tokenizer.eos())).map_err(|error| unusable(&error))
}

/// Variables of the template: `--chat-template-kwargs`, then the thinking switch.
fn kwargs(args: &Args) -> Result<Map<String, Value>, Failure> {
    let mut kwargs = match &args.chat_template_kwargs {
        None => Map::new(),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            Failure::new(Status::Usage, format!("--chat-template-kwargs: not a JSON object: {error}"))
        })?,
    };
    if let Some(thinking) = args.thinking() {
        kwargs.insert("enable_thinking".to_owned(), thinking.into());
    }
    Ok(kwargs)
}
