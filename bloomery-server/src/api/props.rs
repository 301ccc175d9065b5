//! `GET /props` and `POST /props`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::caps::caps;
use super::file_type::file_type;
use super::generation::Generation;
use super::ids;
use super::placement;
use super::prompt::off_thread;
use super::settings::{ChatSettings, Form};
use crate::app::App;
use crate::error::ApiError;
use crate::http::Reply;

/// What the server is and what requests get that say nothing.
pub(super) async fn props(app: &Arc<App>) -> Result<Reply, ApiError> {
    let caps = match app.template_caps.get() {
        Some(caps) => caps.clone(),
        None => {
            let app = Arc::clone(app);
            let ask = move || Ok(app.template_caps.get_or_init(|| caps(app.template.as_ref())).clone());
            off_thread(true, ask).await?
        }
    };
    let options = &app.options;
    let tokenizer = app.engine.tokenizer();
    let token = |id: Option<u32>| {
        let bytes = id.map(|id| tokenizer.token_bytes(id, true)).unwrap_or_default();
        json!(String::from_utf8_lossy(bytes))
    };
    let template = |name| app.template.as_ref().and_then(|template| template.source(name));
    let defaults = Generation::read(app, &Map::new())?;
    let params = defaults.settings(&ChatSettings::plain("none"), Form::Short);
    let mut map = Map::new();
    let mut set = |name: &str, value: Value| {
        map.insert(name.to_owned(), value);
    };
    set("default_generation_settings", json!({"params": params, "n_ctx": app.context()}));
    set("total_slots", json!(app.scheduler.options().slots));
    set("model_alias", json!(app.id()));
    set("model_ftype", json!(file_type(app.engine.facts().file_type)));
    set("model_path", json!(options.model_path));
    set("device", json!(app.engine.device()));
    set("placement", placement::of_engine(&app.engine, app.scheduler.status().traffic.as_ref()));
    set("modalities", json!({"vision": false, "video": false, "audio": false}));
    set("media_marker", json!("<__media__>"));
    set("endpoint_slots", json!(options.slots));
    set("endpoint_props", json!(options.props));
    set("endpoint_metrics", json!(options.metrics));
    set("ui", json!(false));
    set("ui_settings", json!({}));
    set("chat_template", json!(template("default").unwrap_or_default()));
    if let Some(source) = template("tool_use") {
        set("chat_template_tool_use", json!(source));
    }
    set("chat_template_caps", caps);
    set("bos_token", token(tokenizer.bos()));
    set("eos_token", token(tokenizer.eos()));
    set("build_info", json!(ids::BUILD));
    set("is_sleeping", json!(false));
    set("cors_proxy_enabled", json!(false));
    Ok(Reply::json(&Value::Object(map)))
}

/// Accepted, where that is allowed, and without effect: there is nothing to set.
pub(super) fn set_props(app: &App) -> Result<Reply, ApiError> {
    if app.options.props {
        return Ok(Reply::json(&json!({"success": true})));
    }
    Err(ApiError::not_supported(
        "This server does not support changing global properties. Start it with `--props`",
    ))
}
