//! `GET /metrics`, in the text format of Prometheus.

use std::fmt::{Display, Write};
use std::sync::PoisonError;
use std::time::{Duration, UNIX_EPOCH};

use bloomery_core::PrefixStats;
use bloomery_core::scheduler::{Counters, Status};
use hyper::StatusCode;

use super::placement;
use crate::app::App;
use crate::error::ApiError;
use crate::http::Reply;

/// Counters since the start, and gauges of now or since the last time someone asked.
pub(super) fn metrics(app: &App) -> Result<Reply, ApiError> {
    if !app.options.metrics {
        return Err(ApiError::not_supported(
            "This server does not support metrics endpoint. Start it with `--metrics`",
        ));
    }
    let status = app.scheduler.status();
    let mut scraped = app.scraped.lock().unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::replace(&mut *scraped, status.counters);
    drop(scraped);
    let page = page(&status, &before, &app.engine.prefix_stats());
    let started = app.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let reply = Reply::whole(StatusCode::OK, "text/plain; version=0.0.4", page);
    Ok(reply.with_header("Process-Start-Time-Unix", started.to_string()))
}

/// The text; `before` is what the counters were the last time.
pub(super) fn page(status: &Status, before: &Counters, prefixes: &PrefixStats) -> String {
    let now = &status.counters;
    let mut page = Page(String::with_capacity(4096));
    counters(&mut page, now);
    gauges(&mut page, now, before);
    page.gauge("requests_processing", "Requests that run in a slot", status.busy());
    page.gauge("requests_deferred", "Requests that wait for a slot", status.waiting);
    let per_step = ratio(now.busy_slots as f64, now.steps as f64);
    page.gauge("n_busy_slots_per_decode", "Slots that take part in a step, on average", per_step);
    cache(&mut page, prefixes);
    if let Some(traffic) = &status.traffic {
        page.0.push_str(&placement::metrics(traffic));
    }
    page.0
}

fn counters(page: &mut Page, now: &Counters) {
    page.counter("prompt_tokens_total", "Prompt tokens that were computed", now.prompt_tokens);
    page.counter("prompt_tokens_cached_total", "Prompt tokens that were known already", now.cached_tokens);
    page.counter("prompt_seconds_total", "Time of prompts, summed over requests", seconds(now.prompt_time));
    page.counter("tokens_predicted_total", "Tokens that were generated", now.generated_tokens);
    page.counter(
        "tokens_predicted_seconds_total",
        "Time of generations, summed over requests",
        seconds(now.generate_time),
    );
    page.counter("n_decode_total", "Steps of the engine", now.steps);
    page.counter("n_tokens_max", "Most tokens that a slot has held", now.most_tokens);
    page.counter("spec_decode_num_draft_tokens_total", "Tokens that a draft proposed", now.drafted_tokens);
    page.counter(
        "spec_decode_num_accepted_tokens_total",
        "Proposed tokens that were right",
        now.accepted_tokens,
    );
    page.counter("spec_decode_num_drafts_total", "Drafts that were checked", now.drafts);
    page.positions(
        "spec_decode_num_accepted_tokens_per_pos_total",
        "Proposed tokens that were right, by their place in the draft",
        &now.accepted_at,
    );
    page.counter("jobs_total", "Requests that ended, however they did", now.jobs);
    page.counter("jobs_cancelled_total", "Requests whose client went away", now.cancelled);
    page.counter(
        "jobs_preempted_total",
        "Requests that made room for others and went on later",
        now.preempted,
    );
    page.counter("engine_seconds_total", "Time inside the engine", seconds(now.engine_time));
    page.counter("scheduler_seconds_total", "Time of sampling and scheduling", seconds(now.own_time));
}

fn gauges(page: &mut Page, now: &Counters, before: &Counters) {
    let rate = |tokens: (u64, u64), time: (Duration, Duration)| {
        ratio(tokens.0.saturating_sub(tokens.1) as f64, seconds(time.0.saturating_sub(time.1)))
    };
    let prompt = rate((now.prompt_tokens, before.prompt_tokens), (now.prompt_time, before.prompt_time));
    page.gauge("prompt_tokens_seconds", "Prompt tokens per second since the last look", prompt);
    let predicted =
        rate((now.generated_tokens, before.generated_tokens), (now.generate_time, before.generate_time));
    page.gauge("predicted_tokens_seconds", "Generated tokens per second since the last look", predicted);
}

fn cache(page: &mut Page, stats: &PrefixStats) {
    let used = stats.total_pages.saturating_sub(stats.free_pages);
    let share = ratio(used as f64, stats.total_pages as f64);
    page.gauge("kv_cache_usage_ratio", "Share of the key/value pages that hold something", share);
    page.gauge("kv_cache_pages", "Key/value pages that hold something", used);
    page.gauge("prefix_pages", "Pages that hold beginnings known to all requests", stats.resident_pages);
    page.gauge("prefix_parked_bytes", "Bytes of pages in host memory", stats.parked_bytes.0);
    page.counter("prefix_tokens_total", "Tokens that requests found known", stats.served_tokens);
    page.counter("prefix_evicted_pages_total", "Pages that had to make room", stats.evicted);
    page.counter("prefix_restored_pages_total", "Parked pages that were brought back", stats.restored);
    page.counter("prefix_dropped_pages_total", "Pages that were forgotten for lack of room", stats.dropped);
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The text under way.
struct Page(String);

impl Page {
    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.metric("counter", name, help, value);
    }

    /// One line for each place from 0 that has something; nothing where none has.
    fn positions(&mut self, name: &str, help: &str, values: &[u64]) {
        let mut values = values.iter().enumerate().filter(|(_, value)| **value > 0).peekable();
        if values.peek().is_some() {
            let _ = writeln!(self.0, "# HELP llamacpp:{name} {help}\n# TYPE llamacpp:{name} counter");
        }
        for (position, value) in values {
            let _ = writeln!(self.0, "llamacpp:{name}{{position=\"{position}\"}} {value}");
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.metric("gauge", name, help, value);
    }

    fn metric(&mut self, kind: &str, name: &str, help: &str, value: impl Display) {
        let _ = writeln!(
            self.0,
            "# HELP llamacpp:{name} {help}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}"
        );
    }
}
