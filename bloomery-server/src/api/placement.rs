//! Where a model is, and what running on two sides comes to.

use std::fmt::{Display, Write};
use std::time::Duration;

use bloomery_core::{Engine, Term, Traffic};
use serde_json::{Value, json};

/// `placement` of the timings: what the steps of one job did. Every value is finite and at least 0; there is no hit rate
/// where no row decoded.
pub(super) fn of_steps(traffic: &Traffic) -> Value {
    let mut placement = json!({
        "device": device(traffic),
        "slots": traffic.slots,
        "experts": traffic.experts,
        "choices_n": traffic.chosen,
        "hits_n": traffic.on_card,
        "host_bytes": traffic.host_read.0,
        "host_ms": milliseconds(traffic.host_time),
        "wait_ms": milliseconds(traffic.wait_time),
        "copied_bytes": traffic.copied.0,
        "moves_n": traffic.moves,
        "served_n": traffic.served_steps,
        "streamed_n": traffic.streamed_steps,
    });
    if traffic.chosen > 0 {
        placement["hit_rate"] = json!(traffic.hit_rate());
    }
    placement
}

/// `placement` of the props: the plan's terms, and with `traffic` what was found out at the start.
pub(super) fn of_engine(engine: &Engine, traffic: Option<&Traffic>) -> Value {
    let mut placement = json!({
        "place": engine.placement().to_string(),
        "terms": terms(engine.terms()),
        "host_terms": terms(engine.host_terms()),
    });
    if let Some(traffic) = traffic {
        placement["experts"] = json!({
            "device": device(traffic),
            "slots": traffic.slots,
            "experts": traffic.experts,
            "served_rows": traffic.served_rows,
            "link_bytes_per_second": traffic.link_rate,
            "host_bytes_per_second": traffic.host_rate,
        });
    }
    placement
}

fn terms(terms: &[Term]) -> Value {
    terms
        .iter()
        .map(|term| json!({"what": term.what, "bytes": term.bytes.0, "detail": term.detail}))
        .collect()
}

/// The card's name in the words of `--list-devices`.
fn device(traffic: &Traffic) -> String {
    format!("CUDA{}", traffic.card)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The part of `/metrics` that only a split has, with this server's own names: llama-server knows nothing like it.
pub(super) fn metrics(traffic: &Traffic) -> String {
    let mut page = Page(String::with_capacity(2048));
    page.gauge("experts", "Experts of all layers", traffic.experts);
    page.gauge("expert_slots", "Places on the card where experts stay from step to step", traffic.slots);
    page.gauge(
        "expert_served_rows",
        "Most rows of a step whose missing experts the host computes",
        traffic.served_rows,
    );
    page.counter(
        "expert_choices_total",
        "Pairs of a decoded row and an expert that it chose",
        &[("", traffic.chosen)],
    );
    page.counter("expert_hits_total", "Those whose expert was on the card", &[("", traffic.on_card)]);
    page.counter("expert_moves_total", "Experts that moved to the card to stay", &[("", traffic.moves)]);
    let bytes = [("{tier=\"host\"}", traffic.host_read.0), ("{tier=\"link\"}", traffic.copied.0)];
    page.counter(
        "expert_bytes_total",
        "Bytes of experts that the host read to compute them, and that the link brought to the card",
        &bytes,
    );
    let steps = [("{way=\"served\"}", traffic.served_steps), ("{way=\"streamed\"}", traffic.streamed_steps)];
    page.counter(
        "expert_steps_total",
        "Steps whose missing experts the host computed, and to which they were brought",
        &steps,
    );
    let seconds = [
        ("{what=\"computing\"}", traffic.host_time.as_secs_f64()),
        ("{what=\"waiting\"}", traffic.wait_time.as_secs_f64()),
    ];
    page.counter(
        "expert_host_seconds_total",
        "Time the host computed experts, and waited for the card to ask",
        &seconds,
    );
    page.gauge(
        "link_bytes_per_second",
        "What the link from host to card was measured to reach",
        traffic.link_rate,
    );
    page.gauge(
        "host_bytes_per_second",
        "What the host was measured to compute experts with",
        traffic.host_rate,
    );
    page.0
}

/// The text under way.
struct Page(String);

impl Page {
    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family("gauge", name, help, &[("", value)]);
    }

    fn counter(&mut self, name: &str, help: &str, values: &[(&str, impl Display)]) {
        self.family("counter", name, help, values);
    }

    /// One metric, with a value for each of its labels.
    fn family(&mut self, kind: &str, name: &str, help: &str, values: &[(&str, impl Display)]) {
        let _ = writeln!(self.0, "# HELP bloomery_{name} {help}\n# TYPE bloomery_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(self.0, "bloomery_{name}{labels} {value}");
        }
    }
}
