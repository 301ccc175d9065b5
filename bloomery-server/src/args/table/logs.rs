use std::path::PathBuf;

use crate::args::flag::{Flag, integer, switch, text, unused, word};
use crate::args::setters::colours;

pub(super) static FLAGS: &[Flag] = &[
    switch("-v --verbose --log-verbose", |draft, on| {
        if on {
            draft.logs.verbosity = i64::MAX;
            draft.serve.verbose = true;
        }
    })
    .doc("log everything, and show in answers how they came about"),
    integer("-lv --verbosity --log-verbosity", "N", (0, i64::MAX), |draft, n| draft.logs.verbosity = n)
        .env("LLAMA_ARG_LOG_VERBOSITY")
        .doc("0 and 1: errors, 2: warnings, 3: requests and generations, 4: details, 5: everything (default: 3)"),
    switch("--log-disable", |draft, on| draft.logs.disabled = on).doc("log nothing"),
    text("--log-file", "FILE", |draft, value| {
        draft.logs.file = Some(PathBuf::from(value));
        Ok(())
    })
    .env("LLAMA_ARG_LOG_FILE")
    .doc("append the log to a file too"),
    word("--log-format", &["text", "json"], |draft, value| draft.logs.json = value == "json")
        .doc("lines for people, or a JSON object a line (default: text)"),
    switch("--log-jsonl", |draft, on| draft.logs.json = on)
        .off("--no-log-jsonl")
        .env("LLAMA_ARG_LOG_JSONL")
        .doc("as --log-format json"),
    text("--log-colors", "on|off|auto", colours)
        .env("LLAMA_ARG_LOG_COLORS")
        .doc("colours; auto: on a terminal, unless NO_COLOR is set (default: auto)"),
    switch("--log-prefix", |draft, on| draft.logs.prefix = on)
        .off("--no-log-prefix")
        .env("LLAMA_ARG_LOG_PREFIX")
        .doc("lines begin with their level (default: on)"),
    switch("--log-timestamps", |draft, on| draft.logs.timestamps = on)
        .off("--no-log-timestamps")
        .env("LLAMA_ARG_LOG_TIMESTAMPS")
        .doc("lines begin with the time (default: on)"),
    unused("--log-prompts-dir", "DIR").ignored("prompts are never logged"),
];
