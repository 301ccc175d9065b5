//! What a command line comes to.

use bloomery_core::Params;

use super::draft::Draft;
use super::engine::EngineOptions;
use super::environment::without_effect;
use super::error::ArgError;
use super::flag::Print;
use super::hub::HubOptions;
use super::parse::Given;
use crate::logs::LogOptions;
use crate::options::{HttpOptions, ServeOptions};

/// What to do.
#[derive(Debug)]
pub enum Command {
    /// Print something and exit.
    Print(Print),
    /// Serve, or print the plan.
    Serve(Box<Settings>),
}

/// Everything a server is started with.
#[derive(Debug)]
pub struct Settings {
    /// Sockets, keys and limits.
    pub http: HttpOptions,
    /// What routes do. `params` are filled in from [`Settings::params`] once the model is loaded.
    pub serve: ServeOptions,
    /// What the engine is planned with.
    pub engine: EngineOptions,
    /// What is logged, and where.
    pub logs: LogOptions,
    /// A model to download first.
    pub hub: HubOptions,
    /// Jinja text in place of the model's template.
    pub template: Option<String>,
    /// Print the plan and exit.
    pub plan_only: bool,
    /// What was accepted but is not what it seems.
    pub warnings: Vec<String>,
    given: Vec<Given>,
}

/// Names of the demo model, which has no file.
const DEMO: (&str, &str) = ("bloomery-demo", "demo.gguf");

impl Settings {
    /// Generation parameters: what the model recommends, changed by what the command line says.
    ///
    /// # Errors
    /// None that [`parse`](super::parse) has not reported.
    pub fn params(&self, model: Params) -> Result<Params, ArgError> {
        let mut draft = Draft { params: model, ..Draft::default() };
        for given in self.given.iter().filter(|given| given.flag.params) {
            given.apply(&mut draft)?;
        }
        Ok(draft.params)
    }

    /// Checks what only makes sense together.
    pub(super) fn finish(
        draft: Draft,
        given: Vec<Given>,
        variables: &[(String, String)],
    ) -> Result<Self, ArgError> {
        let Draft { mut http, mut serve, mut engine, mut logs, mut hub, params, template, plan_only, .. } =
            draft;
        let mut warnings = draft.warnings;
        warnings.extend(without_effect(&given));
        let conflict = |text: String| Err(ArgError::Conflict(text));

        http.tls = match (draft.cert, draft.key) {
            (Some(cert), Some(key)) => {
                for (flag, path) in [("--ssl-cert-file", &cert), ("--ssl-key-file", &key)] {
                    if let Err(error) = std::fs::File::open(path) {
                        let (flag, path, why) = (flag.to_owned(), path.clone(), error.to_string());
                        return Err(ArgError::File { flag, path, why });
                    }
                }
                Some((cert, key))
            }
            (None, None) => None,
            (Some(_), None) => return conflict("--ssl-cert-file: --ssl-key-file is missing".to_owned()),
            (None, Some(_)) => return conflict("--ssl-key-file: --ssl-cert-file is missing".to_owned()),
        };

        let keys = draft.kv_k.unwrap_or(engine.kv);
        let values = draft.kv_v.unwrap_or(keys);
        if keys != values {
            return conflict(format!(
                "--cache-type-k {} with --cache-type-v {}: both must be the same",
                format!("{keys:?}").to_lowercase(),
                format!("{values:?}").to_lowercase()
            ));
        }
        engine.kv = keys;

        engine.placement = draft.placement.placement();
        engine.host_experts = draft.placement.experts()?;
        // To the token: the engine's context is rounded up.
        serve.longest_decision = Some(engine.context).filter(|&context| context > 0);
        if engine.head.is_none() && hub.head.is_none() && engine.head_config.is_some() {
            return conflict("--head-config: --head is missing".to_owned());
        }

        let jobs = engine.slots() + engine.queue_depth();
        if engine.queue_depth.is_some() && jobs > http.max_connections {
            return conflict(format!(
                "--queue-depth {}: with {} slots that is {jobs} requests, but --max-connections is {}",
                engine.queue_depth(),
                engine.slots(),
                http.max_connections
            ));
        }
        if let Err(error) = params.sampling.validate() {
            return conflict(format!("sampling: {error}"));
        }

        hub.reference = match (hub.reference, draft.hub_file) {
            (Some(reference), Some(file)) => {
                let named = reference.with_file(&file);
                Some(named.map_err(|error| ArgError::Conflict(format!("--hf-file: {error}")))?)
            }
            (None, Some(file)) => {
                return conflict(format!("--hf-file {file}: name the repository with --hf-repo"));
            }
            (reference, None) => reference,
        };
        hub.variables = variables.to_vec();
        if let (Some(reference), Some(path)) = (&hub.reference, &engine.model) {
            let path = path.display();
            return conflict(format!("--model {path} with --hf-repo {reference}: there is one model"));
        }
        if let (Some(seat), None, None) = (&draft.seat, &engine.model, &hub.reference) {
            return conflict(format!("--model {seat}: name the file with -m FILE"));
        }
        match (&engine.model, &hub.reference) {
            (Some(path), _) => serve.model_path = path.display().to_string(),
            (None, Some(reference)) => {
                // The path is not known yet, and the name is what llama-server shows.
                serve.model_path = reference.to_string();
                if serve.aliases.is_empty() {
                    serve.aliases.push(reference.to_string());
                }
            }
            (None, None) => {
                DEMO.1.clone_into(&mut serve.model_path);
                if serve.aliases.is_empty() {
                    serve.aliases.push(DEMO.0.to_owned());
                }
            }
        }
        let set = |name: &str| variables.iter().any(|(known, value)| known == name && !value.is_empty());
        serve.slots_debug = set("LLAMA_SERVER_SLOTS_DEBUG");
        logs.no_colour = set("NO_COLOR");
        Ok(Self { http, serve, engine, logs, hub, template, plan_only, warnings, given })
    }
}
