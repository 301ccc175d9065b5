//! Laying out a conversation, beside plain minijinja with its stand-ins for Python's methods. This project's templates bound
//! work and memory, run on a thread with a stack of their own, and write what transformers writes; that has a price.

use bloomery_benches::{Criterion, OURS, criterion};
use bloomery_core::chat::{ChatRequest, ChatTemplate};
use criterion::{BenchmarkId, criterion_group, criterion_main};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Value as Part, context};
use serde_json::{Value, json};

const TEMPLATES: [(&str, &str); 2] = [
    ("ChatML", include_str!("../bloomery-core/tests/data/chat/templates/bloomery-demo.jinja")),
    ("Qwen3", include_str!("../bloomery-core/tests/data/chat/templates/Qwen-Qwen3-0.6B.jinja")),
];

const TEXT: &str = "The fire in the smithy had burned all night. From the edge of the wood the fox heard the hammer, and \
    wondered who would want a sword in a country where even the geese were polite. ";

fn conversation(messages: usize) -> Vec<Value> {
    let system = json!({"role": "system", "content": "You tell stories."});
    let turns = (1..messages).map(|index| {
        let role = if index % 2 == 1 { "user" } else { "assistant" };
        json!({"role": role, "content": TEXT.repeat(1 + index % 3)})
    });
    std::iter::once(system).chain(turns).collect()
}

fn plain(source: &'static str) -> Environment<'static> {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax.trim_blocks(true).lstrip_blocks(true);
    environment.set_syntax(syntax.build().expect("the default delimiters are valid"));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_template("chat", source).expect("the template is valid");
    environment
}

/// Messages as the engine's values; both make them for every rendering.
fn values(messages: &[Value]) -> Vec<Part> {
    let fields = |message: &Value| {
        let text = |name: &str| message[name].as_str().unwrap_or_default();
        context!(role => text("role"), content => text("content"))
    };
    messages.iter().map(fields).collect()
}

fn template(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("chat template");
    for (name, source) in TEMPLATES {
        let ours = ChatTemplate::new(source, "<s>", "</s>").expect("the template is valid");
        let theirs = plain(source);
        for messages in [2, 100] {
            let messages = conversation(messages);
            let case = format!("{name}, {} messages", messages.len());
            let render = || {
                let chat = theirs.get_template("chat").expect("it was added");
                chat.render(context!(messages => values(&messages), add_generation_prompt => true))
                    .expect("it renders")
            };
            let request = ChatRequest {
                messages: messages.clone(),
                add_generation_prompt: true,
                ..ChatRequest::default()
            };
            assert_eq!(ours.render(&request).expect("it renders"), render(), "{case}: the same work");
            group.bench_function(BenchmarkId::new(OURS, &case), |bencher| {
                bencher.iter(|| ours.render(&request).expect("it renders").len());
            });
            group.bench_function(BenchmarkId::new("minijinja", &case), |bencher| {
                bencher.iter(|| render().len());
            });
        }
    }
    group.finish();
}

criterion_group!(name = benches; config = criterion(); targets = template);
criterion_main!(benches);
