//! What a server was started with, as its parts need it. The command line is one way to fill this in.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use bloomery_core::Params;
use bloomery_core::scheduler::Pooling;
use serde_json::{Map, Value};

/// Sockets, keys and limits.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Where to listen.
    pub hosts: Vec<Host>,
    /// The port of all addresses; 0 is any free one.
    pub port: u16,
    /// Keys that open the server; none is open to all.
    pub api_keys: Vec<String>,
    /// What all paths begin with: empty, or `/x` without a slash at the end.
    pub prefix: String,
    /// Cross-origin rules.
    pub cors: Cors,
    /// Certificate chain and key, PEM files.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// How long a socket may neither take nor give a byte.
    pub timeout: Duration,
    /// Connections that may be open.
    pub max_connections: usize,
    /// Bytes of the largest body.
    pub max_body: usize,
    /// Whether `/` is the chat page.
    pub ui: bool,
}

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// TCP.
    Address(IpAddr),
    /// TCP, by name.
    Name(String),
    /// A Unix socket.
    Socket(PathBuf),
}

/// What other origins may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// `*`, `localhost`, or what is answered to all.
    pub origins: String,
    /// Methods.
    pub methods: String,
    /// Headers.
    pub headers: String,
    /// Whether credentials may be sent.
    pub credentials: bool,
}

impl Default for Cors {
    fn default() -> Self {
        let text = str::to_owned;
        Self {
            origins: text("*"),
            methods: text("GET, POST, DELETE, OPTIONS"),
            headers: text("*"),
            credentials: true,
        }
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            hosts: vec![Host::Address(IpAddr::from([127, 0, 0, 1]))],
            port: 8080,
            api_keys: Vec::new(),
            prefix: String::new(),
            cors: Cors::default(),
            tls: None,
            timeout: Duration::from_secs(3600),
            max_connections: 1024,
            max_body: 100 << 20,
            ui: true,
        }
    }
}

/// What routes do where a request does not say.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Names of the model; the first in alphabetical order is its id.
    pub aliases: Vec<String>,
    /// For information.
    pub tags: Vec<String>,
    /// The file, as it was named.
    pub model_path: String,
    /// Tokens of the longest prompt of a decision; `None` is for the engine to choose.
    pub longest_decision: Option<usize>,
    /// Generation parameters.
    pub params: Params,
    /// Use what is known of a prompt.
    pub cache_prompt: bool,
    /// `GET /slots`.
    pub slots: bool,
    /// `GET /metrics`.
    pub metrics: bool,
    /// `POST /props`.
    pub props: bool,
    /// Embedding routes.
    pub embeddings: bool,
    /// What becomes of the hidden states of a text.
    pub pooling: Pooling,
    /// The norm that embeddings are divided by; see the field `embd_normalize`.
    pub embd_normalize: i64,
    /// Answers show how they came about, as with the field `verbose`.
    pub verbose: bool,
    /// Where slots are saved.
    pub slot_save_path: Option<PathBuf>,
    /// Silence after which a stream gets a comment.
    pub sse_ping: Option<Duration>,
    /// How thinking is shown: `none`, `deepseek`, `deepseek-legacy` or `auto`.
    pub reasoning_format: String,
    /// Whether the model should think: `None` is what the template does.
    pub reasoning: Option<bool>,
    /// Most tokens of thinking.
    pub reasoning_budget: Option<usize>,
    /// What closes thinking that is over its budget.
    pub reasoning_budget_message: Option<String>,
    /// `reasoning_effort` for templates.
    pub reasoning_effort: Option<String>,
    /// Variables of the template.
    pub template_kwargs: Map<String, Value>,
    /// The template is used; without it only plain prompts and bare chats are.
    pub jinja: bool,
    /// A last message of the assistant is continued.
    pub prefill_assistant: bool,
    /// Suffix first in `/infill`.
    pub spm_infill: bool,
    /// A grammar for requests without one.
    pub grammar: Option<String>,
    /// A schema for requests without one.
    pub json_schema: Option<Value>,
    /// Prompts are shown in `/slots`.
    pub slots_debug: bool,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            aliases: Vec::new(),
            tags: Vec::new(),
            model_path: String::new(),
            longest_decision: None,
            params: Params::default(),
            cache_prompt: true,
            slots: true,
            metrics: false,
            props: false,
            embeddings: false,
            pooling: Pooling::Mean,
            embd_normalize: 2,
            verbose: false,
            slot_save_path: None,
            sse_ping: Some(Duration::from_secs(30)),
            reasoning_format: "auto".to_owned(),
            reasoning: None,
            reasoning_budget: None,
            reasoning_budget_message: None,
            reasoning_effort: None,
            template_kwargs: Map::new(),
            jinja: true,
            prefill_assistant: true,
            spm_infill: false,
            grammar: None,
            json_schema: None,
            slots_debug: false,
        }
    }
}
