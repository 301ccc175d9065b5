//! Routes without sockets.

mod completions;
mod introspection;
mod native;
mod placement;
mod rest;
mod slots;

use std::sync::{Arc, OnceLock};

use bloomery_core::scheduler::{Scheduler, SchedulerOptions};
use bloomery_core::{Engine, ModelSource};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{HeaderMap, Method};
use serde_json::Value;

use crate::api::answer;
use crate::app::App;
use crate::http::{Query, Reply, ReplyBody, Request};
use crate::options::ServeOptions;

/// A server on the demo model.
fn serve(slots: usize, change: impl FnOnce(&mut ServeOptions)) -> Arc<App> {
    let engine = Engine::builder(ModelSource::demo()).sessions(slots).plan().unwrap().load(|_| {}).unwrap();
    let scheduler =
        Scheduler::new(engine, SchedulerOptions { slots, ..SchedulerOptions::default() }).unwrap();
    let mut options = ServeOptions {
        model_path: "demo.gguf".to_owned(),
        aliases: vec!["demo".to_owned()],
        metrics: true,
        ..ServeOptions::default()
    };
    change(&mut options);
    Arc::new(App::new(scheduler, options, None).unwrap())
}

/// A server with two slots that many tests use.
fn shared() -> Arc<App> {
    static APP: OnceLock<Arc<App>> = OnceLock::new();
    Arc::clone(APP.get_or_init(|| serve(2, |_| {})))
}

fn request(method: Method, target: &str, body: impl Into<Bytes>) -> Request {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    Request {
        method,
        path: path.to_owned(),
        query: Query(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()),
        headers: HeaderMap::new(),
        body: body.into(),
    }
}

async fn whole(reply: Reply) -> (u16, Value) {
    let ReplyBody::Whole(bytes) = reply.body else { panic!("the answer is a stream") };
    let value = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8(bytes.to_vec()).unwrap()));
    (reply.status.as_u16(), value)
}

async fn get(app: &Arc<App>, target: &str) -> (u16, Value) {
    whole(answer(app, request(Method::GET, target, "")).await).await
}

async fn post(app: &Arc<App>, target: &str, body: &Value) -> (u16, Value) {
    whole(answer(app, request(Method::POST, target, body.to_string())).await).await
}

/// A successful answer.
async fn ok(app: &Arc<App>, target: &str, body: Value) -> Value {
    let (status, value) = post(app, target, &body).await;
    assert_eq!(status, 200, "{target} {body}: {value}");
    value
}

/// The data of all events.
async fn stream(app: &Arc<App>, target: &str, body: Value) -> Vec<Value> {
    let reply = answer(app, request(Method::POST, target, body.to_string())).await;
    let ReplyBody::Events(mut events) = reply.body else { panic!("{}", whole(reply).await.1) };
    let mut text = String::new();
    while let Some(frame) = events.frame().await {
        text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
    }
    let events = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    events.map(|data| serde_json::from_str(data).unwrap_or_else(|_| Value::String(data.to_owned()))).collect()
}

/// What an event or an answer says.
fn text(value: &Value) -> &str {
    value["content"].as_str().unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Waits until so many slots are busy: the scheduler says so a moment after it is so.
async fn busy(app: &App, slots: usize) {
    let start = std::time::Instant::now();
    while app.scheduler.status().busy() != slots {
        assert!(start.elapsed().as_secs() < 2, "{:?}", app.scheduler.status());
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}
