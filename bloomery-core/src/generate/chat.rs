//! Conversations: messages in, the model's chat template around them, answers out.

use serde_json::{Map, Value, json};

use super::{Generation, Params};
use crate::chat::ChatRequest;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::session::Session;
use crate::tokenizer::Specials;

/// The messages of a chat. The session that answers keeps what it already holds of them.
///
/// ```
/// use bloomery_core::{Conversation, Engine, ModelSource, Params};
///
/// let engine = Engine::builder(ModelSource::demo()).plan()?.load(|_| {})?;
/// let mut session = engine.session()?;
/// let mut chat = Conversation::new();
/// chat.user("Tell me a story about a fox.");
/// let params = Params { max_tokens: Some(8), ..engine.default_params() };
/// let mut answer = String::new();
/// for piece in chat.answer(&mut session, &params)? {
///     answer.push_str(&piece?.text);
/// }
/// chat.assistant(&answer);
/// assert_eq!(chat.messages().len(), 2);
/// # Ok::<(), bloomery_core::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    messages: Vec<Value>,
    kwargs: Map<String, Value>,
}

impl Conversation {
    /// An empty conversation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a system message.
    pub fn system(&mut self, content: &str) {
        self.push(json!({"role": "system", "content": content}));
    }

    /// Adds a user's message.
    pub fn user(&mut self, content: &str) {
        self.push(json!({"role": "user", "content": content}));
    }

    /// Adds the model's answer.
    pub fn assistant(&mut self, content: &str) {
        self.push(json!({"role": "assistant", "content": content}));
    }

    /// Adds a message of any shape that the template knows.
    pub fn push(&mut self, message: Value) {
        self.messages.push(message);
    }

    /// Takes the last message back.
    pub fn pop(&mut self) -> Option<Value> {
        self.messages.pop()
    }

    /// Sets a variable of the template, for example `enable_thinking`.
    pub fn set(&mut self, name: &str, value: Value) {
        self.kwargs.insert(name.to_owned(), value);
    }

    /// All messages.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// Renders the conversation with the model's template and generates the next answer. Tokens that `session` holds
    /// already are not run again.
    pub fn answer<'s>(
        &self,
        session: &'s mut Session,
        params: &Params,
    ) -> Result<Generation<'s>, EngineError> {
        let tokens = self.prompt(&session.engine)?;
        session.generate_tokens(&tokens, params)
    }

    /// The tokens that an answer follows: the prompt of a [`Job`](crate::scheduler::Job).
    ///
    /// # Errors
    /// [`EngineError::NoChatTemplate`], [`EngineError::Template`], [`EngineError::Tokenizer`].
    pub fn prompt(&self, engine: &Engine) -> Result<Vec<u32>, EngineError> {
        let template = engine.chat_template().ok_or(EngineError::NoChatTemplate)?;
        let request = ChatRequest {
            messages: self.messages.clone(),
            add_generation_prompt: true,
            kwargs: self.kwargs.clone(),
            ..ChatRequest::default()
        };
        let text = template.render(&request)?;
        let tokenizer = engine.tokenizer();
        let mut tokens = tokenizer.encode(&text, Specials::Parse)?;
        // Templates write the BOS token themselves or leave it to the tokenizer; it may stand there only once.
        if let Some(bos) = tokenizer.bos().filter(|bos| tokenizer.adds_bos() && tokens.first() != Some(bos)) {
            tokens.insert(0, bos);
        }
        Ok(tokens)
    }
}
