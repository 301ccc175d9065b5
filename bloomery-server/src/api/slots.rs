//! `GET /slots`.

use bloomery_core::Drafts;
use bloomery_core::scheduler::SlotStatus;
use serde_json::{Map, Value, json};

use super::jobs::SlotTag;
use crate::app::App;
use crate::error::{ApiError, ErrorKind};
use crate::http::{Reply, Request};

/// All slots. With `?fail_on_no_slot=1` it is an error that none is idle.
pub(super) fn slots(app: &App, request: &Request) -> Result<Reply, ApiError> {
    if !app.options.slots {
        return Err(ApiError::not_supported(
            "This server does not support slots endpoint. Start it with `--slots`",
        ));
    }
    let status = app.scheduler.status();
    let wants_idle = request.query.get("fail_on_no_slot").is_some_and(|value| !value.is_empty());
    if wants_idle && status.busy() == status.slots.len() {
        return Err(ApiError::new(ErrorKind::Unavailable, "no slot available"));
    }
    let slots = status.slots.iter().enumerate().map(|(id, slot)| show(app, id, slot)).collect();
    Ok(Reply::json(&Value::Array(slots)))
}

fn show(app: &App, id: usize, slot: &SlotStatus) -> Value {
    let mut map = Map::new();
    let mut set = |name: &str, value: Value| {
        map.insert(name.to_owned(), value);
    };
    set("id", json!(id));
    set("n_ctx", json!(app.context()));
    set("speculative", json!(app.options.params.drafts != Drafts::Off));
    set("is_processing", json!(slot.busy));
    let Some(task) = slot.task else { return Value::Object(map) };
    let tag = slot.tag.as_deref().and_then(|tag| tag.downcast_ref::<SlotTag>());
    let progress = &slot.progress;
    set("id_task", json!(task));
    set("n_prompt_tokens", json!(slot.prompt));
    set("n_prompt_tokens_processed", json!(progress.prompt));
    set("n_prompt_tokens_cache", json!(progress.cached));
    set("params", tag.map_or_else(|| json!({}), |tag| tag.settings.clone()));
    // A job that waits for nothing more has no tokens left to say.
    let next = match slot.busy {
        true => json!({
            "has_next_token": true,
            "has_new_line": slot.new_line,
            "n_remain": slot.remaining.map_or(-1, |left| i64::try_from(left).unwrap_or(i64::MAX)),
            "n_decoded": progress.generated,
        }),
        false => json!({
            "has_next_token": false,
            "has_new_line": slot.new_line,
            "n_remain": -1,
            "n_decoded": 0,
        }),
    };
    set("next_token", json!([next]));
    if let Some(prompt) = tag.and_then(|tag| tag.prompt.as_ref()) {
        set("prompt", json!(prompt));
    }
    Value::Object(map)
}
