//! What all routes share once the model is loaded.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

use bloomery_core::chat::ChatTemplate;
use bloomery_core::decide::Decider;
use bloomery_core::scheduler::{Counters, Scheduler};
use bloomery_core::{Engine, EngineError};
use serde_json::Value;

use crate::api::ChatModel;
use crate::options::ServeOptions;

/// A loaded model and how it is served.
#[derive(Debug)]
pub struct App {
    /// The model.
    pub engine: Engine,
    /// Runs the jobs.
    pub scheduler: Scheduler,
    /// Defaults and switches.
    pub options: ServeOptions,
    /// The file's template, or the one that was named instead.
    pub template: Option<ChatTemplate>,
    /// Of a decision model, which does nothing else.
    pub decider: Option<Decider>,
    /// When the process started.
    pub started: SystemTime,
    /// How chats are laid out and replies are read.
    pub(crate) chat: Arc<ChatModel>,
    /// What the counters were when metrics were last read.
    pub(crate) scraped: Mutex<Counters>,
    /// What the template can do, once someone has asked.
    pub(crate) template_caps: OnceLock<Value>,
}

impl App {
    /// Puts the parts together. `template` takes the place of the file's own.
    ///
    /// # Errors
    /// Those of a template that cannot be compiled.
    pub fn new(
        scheduler: Scheduler,
        options: ServeOptions,
        template: Option<ChatTemplate>,
    ) -> Result<Self, EngineError> {
        let engine = scheduler.engine().clone();
        let template = template.or_else(|| engine.chat_template().cloned());
        let chat = ChatModel::new(template.clone(), &engine)?;
        let decider = engine.decider().ok().map(|decider| match options.longest_decision {
            Some(longest) => decider.with_longest(longest),
            None => decider,
        });
        Ok(Self {
            chat,
            engine,
            decider,
            scheduler,
            options,
            template,
            started: SystemTime::now(),
            scraped: Mutex::default(),
            template_caps: OnceLock::new(),
        })
    }

    /// The name in every answer.
    #[must_use]
    pub fn id(&self) -> &str {
        self.options.aliases.iter().min().map_or(self.options.model_path.as_str(), String::as_str)
    }

    /// Positions that one request may use.
    #[must_use]
    pub fn context(&self) -> usize {
        self.decider.as_ref().map_or(self.engine.context(), Decider::longest)
    }
}
