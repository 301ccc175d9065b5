use bloomery_core::scheduler::Pooling;
use serde_json::Value;

use super::RERANKING;
use crate::args::flag::{Flag, bare, integer, switch, text, word};
use crate::args::setters::{kwargs, reasoning, template, template_file};

pub(super) static FLAGS: &[Flag] = &[
    switch("--jinja", |draft, on| draft.serve.jinja = on)
        .off("--no-jinja")
        .env("LLAMA_ARG_JINJA")
        .doc("tools and other features of the template; off: messages only (default: on)"),
    text("--chat-template", "TEMPLATE", template)
        .env("LLAMA_ARG_CHAT_TEMPLATE")
        .doc("Jinja text, a file, or the name of a built-in template (default: the model's)"),
    text("--chat-template-file", "FILE", template_file)
        .env("LLAMA_ARG_CHAT_TEMPLATE_FILE")
        .doc("Jinja file"),
    text("--chat-template-kwargs", "JSON", kwargs)
        .env("LLAMA_ARG_CHAT_TEMPLATE_KWARGS")
        .doc("object with further variables of the template (default: {})"),
    word("--reasoning-format", &["none", "auto", "deepseek", "deepseek-legacy"], |draft, value| {
        draft.serve.reasoning_format = value.to_owned();
    })
    .env("LLAMA_ARG_THINK")
    .doc("where thinking is shown: none leaves it in the content, the others put it into reasoning_content (default: auto)"),
    text("-rea --reasoning", "on|off|auto", reasoning)
        .env("LLAMA_ARG_REASONING")
        .doc("whether the model thinks; auto: as its template does (default: auto)"),
    integer("--reasoning-budget", "N", (-1, i32::MAX as i64), |draft, n| {
        draft.serve.reasoning_budget = usize::try_from(n).ok();
    })
    .env("LLAMA_ARG_THINK_BUDGET")
    .doc("most tokens of thinking; -1: no limit (default: -1)"),
    text("--reasoning-budget-message", "TEXT", |draft, value| {
        draft.serve.reasoning_budget_message = Some(value.to_owned());
        Ok(())
    })
    .env("LLAMA_ARG_THINK_BUDGET_MESSAGE")
    .doc("what is put before the end of thinking that is over its budget"),
    text("--reasoning-effort", "LEVEL", |draft, value| {
        draft.serve.reasoning_effort = Some(value.to_owned()).filter(|value| value != "default");
        Ok(())
    })
    .env("LLAMA_ARG_REASONING_EFFORT")
    .doc("level for the template, such as low or high (default: default)"),
    switch("--reasoning-preserve", |draft, on| {
        draft.serve.template_kwargs.insert("preserve_reasoning".to_owned(), Value::Bool(on));
    })
    .off("--no-reasoning-preserve")
    .env("LLAMA_ARG_REASONING_PRESERVE")
    .doc("the template's preserve_reasoning: keep the thinking of earlier turns (default: as the template does)"),
    switch("--prefill-assistant", |draft, on| draft.serve.prefill_assistant = on)
        .off("--no-prefill-assistant")
        .env("LLAMA_ARG_PREFILL_ASSISTANT")
        .doc("a last message of the assistant is continued (default: on)"),
    bare("--skip-chat-parsing")
        .off("--no-skip-chat-parsing")
        .env("LLAMA_ARG_SKIP_CHAT_PARSING")
        .refused("answers are always parsed; --reasoning-format none leaves thinking in the content"),
    switch("--spm-infill", |draft, on| draft.serve.spm_infill = on)
        .doc("suffix before prefix in /infill (default: off)"),
    switch("--embedding --embeddings", |draft, on| draft.serve.embeddings = on)
        .env("LLAMA_ARG_EMBEDDINGS")
        .doc("/v1/embeddings: pooled hidden states of the model (default: off)"),
    word("--pooling", &["none", "mean", "cls", "last"], |draft, value| {
        draft.serve.pooling = match value {
            "none" => Pooling::None,
            "cls" => Pooling::First,
            "last" => Pooling::Last,
            _ => Pooling::Mean,
        };
    })
    .env("LLAMA_ARG_POOLING")
    .doc("what becomes of the hidden states of a text (default: mean)"),
    integer("--embd-normalize", "N", (-1, i32::MAX as i64), |draft, n| draft.serve.embd_normalize = n)
        .doc("-1: none, 0: to 16-bit integers, 1: sum, 2: Euclid's length, p: p-norm (default: 2)"),
    bare("--rerank --reranking").env("LLAMA_ARG_RERANKING").refused(RERANKING),
];
