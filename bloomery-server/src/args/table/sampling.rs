use bloomery_core::sampling::{Mirostat, Seed};

use crate::args::flag::{Flag, integer, number, switch, text};
use crate::args::setters::{
    breaker, grammar, grammar_file, logit_bias, samplers, schema, schema_file, sequence, stop,
};

const MAX: i64 = i32::MAX as i64;

/// All but the grammars are the defaults of request fields with the same meaning.
pub(super) static FLAGS: &[Flag] = &[
    number("--temp --temperature", "X", |draft, x| draft.params.sampling.temperature = x)
        .env("LLAMA_ARG_TEMPERATURE")
        .params()
        .doc("divides the logits; 0 is greedy (default: 0.8)"),
    integer("--top-k", "N", (i32::MIN as i64, MAX), |draft, n| draft.params.sampling.top_k = n as i32)
        .env("LLAMA_ARG_TOP_K")
        .params()
        .doc("most likely tokens kept; 0: all (default: 40)"),
    number("--top-p", "X", |draft, x| draft.params.sampling.top_p = x)
        .env("LLAMA_ARG_TOP_P")
        .params()
        .doc("probability mass kept; 1: all (default: 0.95)"),
    number("--min-p", "X", |draft, x| draft.params.sampling.min_p = x)
        .env("LLAMA_ARG_MIN_P")
        .params()
        .doc("least probability relative to the best token; 0: off (default: 0.05)"),
    number("--typical --typical-p", "X", |draft, x| draft.params.sampling.typical_p = x)
        .params()
        .doc("mass of locally typical tokens kept; 1: off (default: 1)"),
    number("--top-nsigma --top-n-sigma", "X", |draft, x| draft.params.sampling.top_n_sigma = x)
        .params()
        .doc("standard deviations below the best logit; -1: off (default: -1)"),
    number("--xtc-probability", "X", |draft, x| draft.params.sampling.xtc_probability = x)
        .params()
        .doc("chance that XTC acts on a token (default: 0)"),
    number("--xtc-threshold", "X", |draft, x| draft.params.sampling.xtc_threshold = x)
        .params()
        .doc("probability from which a token is a top choice; above 0.5: off (default: 0.1)"),
    integer("--repeat-last-n", "N", (-1, MAX), |draft, n| draft.params.sampling.repeat_last_n = n as i32)
        .params()
        .doc("tokens that penalties look at; 0: off, -1: the context (default: 64)"),
    number("--repeat-penalty", "X", |draft, x| draft.params.sampling.repeat_penalty = x)
        .env("LLAMA_ARG_REPEAT_PENALTY")
        .params()
        .doc("penalty of tokens seen; 1: off (default: 1)"),
    number("--presence-penalty", "X", |draft, x| draft.params.sampling.presence_penalty = x)
        .env("LLAMA_ARG_PRESENCE_PENALTY")
        .params()
        .doc("subtracted once from tokens seen (default: 0)"),
    number("--frequency-penalty", "X", |draft, x| draft.params.sampling.frequency_penalty = x)
        .env("LLAMA_ARG_FREQUENCY_PENALTY")
        .params()
        .doc("subtracted from tokens for each time they were seen (default: 0)"),
    number("--dry-multiplier", "X", |draft, x| draft.params.sampling.dry_multiplier = x)
        .params()
        .doc("scale of the DRY penalty; 0: off (default: 0)"),
    number("--dry-base", "X", |draft, x| draft.params.sampling.dry_base = x)
        .params()
        .doc("growth of the DRY penalty (default: 1.75)"),
    integer("--dry-allowed-length", "N", (0, MAX), |draft, n| {
        draft.params.sampling.dry_allowed_length = n as u32;
    })
    .params()
    .doc("longest repetition that DRY leaves alone (default: 2)"),
    integer("--dry-penalty-last-n", "N", (-1, MAX), |draft, n| {
        draft.params.sampling.dry_penalty_last_n = n as i32;
    })
    .params()
    .doc("tokens that DRY scans; 0: off, -1: the context (default: 64)"),
    text("--dry-sequence-breaker", "TEXT", breaker)
        .params()
        .many()
        .doc("what a repetition does not reach across, in place of the default; none: nothing (default: newline : \" *)"),
    number("--dynatemp-range", "X", |draft, x| draft.params.sampling.dynatemp_range = x)
        .params()
        .doc("half width of the dynamic temperature; 0: off (default: 0)"),
    number("--dynatemp-exp", "X", |draft, x| draft.params.sampling.dynatemp_exponent = x)
        .params()
        .doc("exponent of the dynamic temperature (default: 1)"),
    integer("--mirostat", "N", (0, 2), |draft, n| {
        draft.params.sampling.mirostat = [Mirostat::Off, Mirostat::V1, Mirostat::V2][n as usize];
    })
    .params()
    .doc("Mirostat 1 or 2 in place of the chain; 0: off (default: 0)"),
    number("--mirostat-lr", "X", |draft, x| draft.params.sampling.mirostat_eta = x)
        .params()
        .doc("learning rate of Mirostat (default: 0.1)"),
    number("--mirostat-ent", "X", |draft, x| draft.params.sampling.mirostat_tau = x)
        .params()
        .doc("target surprise of Mirostat (default: 5)"),
    number("--adaptive-target", "X", |draft, x| draft.params.sampling.adaptive_target = x)
        .params()
        .doc("target probability of adaptive-p; below 0: off (default: -1)"),
    number("--adaptive-decay", "X", |draft, x| draft.params.sampling.adaptive_decay = x)
        .params()
        .doc("memory of adaptive-p, 0 to 0.99 (default: 0.9)"),
    text("--samplers", "NAME;NAME;…", samplers)
        .params()
        .doc("the chain, by names (default: penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature)"),
    text("--sampler-seq --sampling-seq", "LETTERS", sequence)
        .params()
        .doc("the chain, by letters (default: edskypmxt)"),
    integer("-s --seed", "N", (-1, u32::MAX as i64), |draft, n| {
        draft.params.sampling.seed = Seed::from(n as u32);
    })
    .params()
    .doc("start of the random numbers; -1: a new one each time (default: -1)"),
    switch("--ignore-eos", |draft, on| draft.params.ignore_end = on)
        .params()
        .doc("go on after the model's end-of-generation tokens"),
    text("-l --logit-bias", "ID(+|-)BIAS", logit_bias)
        .params()
        .many()
        .doc("added to the logit of a token; `-inf` forbids it"),
    text("-r --reverse-prompt", "TEXT", stop)
        .params()
        .many()
        .doc("stop string of requests that name none; \\n, \\t, \\x41 … are read"),
    switch("-sp --special", |draft, on| draft.params.special = on)
        .params()
        .doc("control tokens appear in the text"),
    text("--grammar", "GBNF", grammar).doc("grammar of requests without one"),
    text("--grammar-file", "FILE", grammar_file).doc("the same from a file"),
    text("-j --json-schema", "JSON", schema).doc("schema of requests without one"),
    text("-jf --json-schema-file", "FILE", schema_file).doc("the same from a file"),
];
