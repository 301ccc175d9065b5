//! The command line: every flag in every spelling, the environment, suggestions, help and documents.

use std::fmt::Write as _;
use std::path::PathBuf;

use bloomery_core::{
    Block, Bytes, CardPick, Context, Drafts, HostExperts, Ngram, Params, Placement, ResidencyMode,
    TensorRules,
};
use bloomery_server::args::{self, ArgError, Command, Settings, help, parse};

/// Flags and variables of llama-server and bloomery, listed independently of the table under test.
const LIST: &str = include_str!("data/flags.tsv");

struct Row {
    names: Vec<&'static str>,
    off: Vec<&'static str>,
    env: &'static str,
    value: String,
    fate: &'static str,
    shows: &'static str,
    shows_off: &'static str,
}

fn rows() -> Vec<Row> {
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let [names, off, env, value, fate, shows] = cells[..] else { panic!("{line}") };
        let (shows, shows_off) = shows.split_once('¦').unwrap_or((shows, ""));
        let words = |text: &'static str| text.split_whitespace().collect();
        let value = fill(value);
        Row { names: words(names), off: words(off), env, value, fate, shows, shows_off }
    };
    LIST.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

/// Puts real files in the place of words that start with `@`.
fn fill(value: &str) -> String {
    let data = |name: &str| format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    match value {
        "@model" => data("flags.tsv"),
        "@dir" => env!("CARGO_TARGET_TMPDIR").to_owned(),
        "@text" => data("text.txt"),
        "@json" => data("schema.json"),
        other => other.to_owned(),
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn with_env(words: &[&str], variables: &[(&str, &str)]) -> Result<Command, ArgError> {
    let variables: Vec<_> = variables.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    parse(&owned(words), &variables)
}

#[track_caller]
fn settings(words: &[&str]) -> Settings {
    settings_env(words, &[])
}

#[track_caller]
fn settings_env(words: &[&str], variables: &[(&str, &str)]) -> Settings {
    match with_env(words, variables) {
        Ok(Command::Serve(settings)) => *settings,
        other => panic!("{words:?} {variables:?}: {other:?}"),
    }
}

#[track_caller]
fn error(words: &[&str]) -> String {
    match with_env(words, &[]) {
        Err(error) => error.to_string(),
        Ok(command) => panic!("{words:?}: {command:?}"),
    }
}

/// Everything that flags can change.
fn shown(settings: &Settings) -> String {
    let Settings { http, serve, engine, logs, hub, template, plan_only, .. } = settings;
    let params = settings.params(Params::default()).expect("it was parsed before");
    format!(
        "{http:?} {serve:?} {engine:?} {logs:?} {hub:?} {params:?} template: {template:?} plan_only: {plan_only:?}"
    )
}

/// The words of one spelling; the other half of a pair of files is added.
fn spelled<'a>(name: &'a str, row: &'a Row) -> Vec<&'a str> {
    let mut words = vec![name];
    if !row.value.is_empty() {
        words.push(&row.value);
    }
    match name {
        "--ssl-key-file" => words.extend(["--ssl-cert-file", &row.value]),
        "--ssl-cert-file" => words.extend(["--ssl-key-file", &row.value]),
        "-hff" | "--hf-file" => words.extend(["-hf", "u/r"]),
        "--head-config" => words.extend(["--head", "x"]),
        _ => {}
    }
    words
}

#[test]
fn every_flag_is_known_in_every_spelling_and_lands_where_it_should() {
    let rows = rows();
    assert!(rows.len() > 270, "{}", rows.len());
    let untouched = shown(&settings(&[]));
    for row in &rows {
        for name in &row.names {
            let words = spelled(name, row);
            match (row.fate, with_env(&words, &[])) {
                ("prints", Ok(Command::Print(_))) => {}
                ("refused", Err(ArgError::Refused { flag, .. })) => assert_eq!(flag, **name),
                ("ignored", Ok(Command::Serve(settings))) => {
                    assert!(
                        settings.warnings.iter().any(|line| line.starts_with(*name)),
                        "{:?}",
                        settings.warnings
                    );
                    assert_eq!(shown(&settings), untouched, "{words:?}");
                }
                ("honoured", Ok(Command::Serve(settings))) => {
                    assert_eq!(settings.warnings, [""; 0], "{words:?}");
                    let shown = shown(&settings);
                    assert!(shown.contains(row.shows), "{words:?}: no {} in {shown}", row.shows);
                    let default = row.shows == "kv: F16" || !row.off.is_empty() || row.shows.is_empty();
                    assert!(
                        default || !untouched.contains(row.shows),
                        "{words:?}: {} is the default",
                        row.shows
                    );
                }
                (fate, result) => panic!("{words:?} should be {fate}: {result:?}"),
            }
            if name.starts_with("--")
                && !row.value.is_empty()
                && row.fate == "honoured"
                && !name.starts_with("--ssl")
                && !["--hf-file", "--head-config"].contains(name)
            {
                let attached = format!(
                    "{}={}",
                    name.replace("--", "__").replace('-', "_").replace("__", "--"),
                    row.value
                );
                assert!(shown(&settings(&[&attached])).contains(row.shows), "{attached}");
            }
        }
        for name in &row.off {
            let settings = settings(&[name]);
            let shown = shown(&settings);
            if row.fate == "honoured" {
                assert!(shown.contains(row.shows_off) && !shown.contains(row.shows), "{name}: {shown}");
            }
            assert_eq!(settings.warnings.is_empty(), row.fate != "ignored", "{name}");
        }
    }
}

#[test]
fn every_flag_of_the_table_is_in_the_list() {
    let rows = rows();
    for flag in args::table::flags() {
        for name in flag.names().chain(flag.off_names()) {
            let listed = rows.iter().any(|row| row.names.contains(&name) || row.off.contains(&name));
            assert!(listed, "{name}");
        }
    }
}

#[test]
fn spellings_are_unique() {
    let mut seen: Vec<&str> = Vec::new();
    for flag in args::table::flags() {
        for name in
            flag.names().chain(flag.off_names()).chain([flag.env].into_iter().filter(|env| !env.is_empty()))
        {
            assert!(!seen.contains(&name), "{name} twice");
            seen.push(name);
        }
    }
}

#[test]
fn variables_do_what_their_flags_do() {
    let alone = |row: &&Row| !row.names[0].starts_with("--ssl") && row.names[0] != "-hff";
    for row in rows().iter().filter(|row| !row.env.is_empty()).filter(alone) {
        let value = if row.value.is_empty() { "on" } else { &row.value };
        match (row.fate, with_env(&[], &[(row.env, value)])) {
            ("refused", Err(ArgError::Refused { flag, .. })) => assert_eq!(flag, row.env),
            ("ignored", Ok(Command::Serve(settings))) => {
                assert!(
                    settings.warnings.iter().any(|line| line.starts_with(row.env)),
                    "{:?}",
                    settings.warnings
                );
            }
            ("honoured", Ok(Command::Serve(settings))) => {
                assert!(shown(&settings).contains(row.shows), "{}", row.env);
            }
            (fate, result) => panic!("{} should be {fate}: {result:?}", row.env),
        }
        if !row.shows_off.is_empty() {
            let no = row.env.replace("LLAMA_ARG_", "LLAMA_ARG_NO_");
            for variable in [(no.as_str(), "anything"), (row.env, "0"), (row.env, "Disabled")] {
                assert!(shown(&settings_env(&[], &[variable])).contains(row.shows_off), "{variable:?}");
            }
        }
    }
}

#[test]
fn the_command_line_beats_the_environment() {
    let both = |words: &[&str], env: (&str, &str)| shown(&settings_env(words, &[env]));
    assert!(both(&["--port", "1"], ("LLAMA_ARG_PORT", "2")).contains("port: 1,"));
    assert!(both(&["--jinja"], ("LLAMA_ARG_NO_JINJA", "1")).contains("jinja: true"));
    assert!(both(&["-a", "x"], ("LLAMA_ARG_ALIAS", "y")).contains("aliases: [\"x\"]"));
    assert!(both(&["--temp", "1"], ("LLAMA_ARG_TEMPERATURE", "nonsense")).contains("temperature: 1.0"));
    assert!(both(&[], ("LLAMA_ARG_PORT", "")).contains("port: 8080"), "empty is unset");
    let error = with_env(&[], &[("LLAMA_ARG_PORT", "no")]).unwrap_err().to_string();
    assert_eq!(error, "LLAMA_ARG_PORT no: expected a whole number from 0 to 65535");
    let error = with_env(&[], &[("LLAMA_ARG_JINJA", "perhaps")]).unwrap_err().to_string();
    assert!(error.starts_with("LLAMA_ARG_JINJA perhaps: expected on/true/1"), "{error}");
    let warned =
        settings_env(&[], &[("BLOOMERY_DRAFT", "mtp"), ("LLAMA_ARG_PROT", "1"), ("HOME", "x")]).warnings;
    assert_eq!(warned.len(), 2, "{warned:?}");
    assert!(settings_env(&[], &[("LLAMA_SERVER_SLOTS_DEBUG", "1")]).serve.slots_debug);
    assert!(settings_env(&[], &[("NO_COLOR", "1")]).logs.no_colour);
}

#[test]
fn mistakes_are_named() {
    for (words, wanted) in [
        (&["--frobnicate"] as &[&str], "invalid argument: --frobnicate"),
        (&["--ctx-sze", "1"], "invalid argument: --ctx-sze\ndid you mean --ctx-size?"),
        (&["--prot=1"], "invalid argument: --prot\ndid you mean --port?"),
        (&["model.gguf"], "invalid argument: model.gguf"),
        (&["-c", "4k"], "-c 4k: expected a whole number from 0"),
        (&["--port", "65536"], "--port 65536: expected a whole number from 0 to 65535"),
        (&["--temp", "warm"], "--temp warm: expected a number"),
        (&["--temp", "nan"], "--temp nan: expected a number"),
        (&["--repeat-penalty", "0"], "sampling: repeat_penalty"),
        (&["--port"], "--port: expected a value (PORT)"),
        (&["-np", "0"], "-np 0: expected 1 to 1024, -1 or auto"),
        (&["-fa", "banana"], "-fa banana: expected on, off, auto"),
        (&["--jinja=perhaps"], "--jinja perhaps: expected on/true/1/enabled"),
        (&["-ctk", "q4_0"], "-ctk: caches of type q4_0 are not in this release"),
        (&["-ctv", "q8_0"], "--cache-type-k f16 with --cache-type-v q8_0: both must be the same"),
        (&["--place", "moon"], "--place moon: expected auto, cpu, cuda or cuda with a number"),
        (&["-ot", "exps=DISK"], "-ot exps=DISK: `DISK` is neither CPU nor CUDA with a number"),
        (&["-ot", "(=CPU"], "-ot (=CPU: the pattern is not a regular expression"),
        (&["-cmoe", "-ncmoe", "3"], "--cpu-moe with --n-cpu-moe: one of them is enough"),
        (&["-cmoe", "-ot", "exps=CPU"], "--cpu-moe with --override-tensor: one of them is enough"),
        (
            &["--card-budget", "much"],
            "--card-budget much: expected a size with its unit, such as 12G or 512M",
        ),
        (&["-fitt", "1,x"], "-fitt 1,x: expected MiB, such as 1024"),
        (&["--residency", "on"], "--residency on: expected adaptive, off"),
        (&["-dev", "a"], "-dev a: expected none, or a name of --list-devices"),
        (&["-ngl", "many"], "-ngl many: expected a number, auto or all"),
        (&["-dev", "Vulkan0"], "-dev Vulkan0: expected none, or a name of --list-devices"),
        (&["-dev", "CUDA0,CUDA1"], "-dev: a model on several devices is not in this release"),
        (
            &["--chat-template", "nosuch"],
            "--chat-template nosuch: is neither Jinja text, a file nor one of: bailing, chatglm3",
        ),
        (&["--chat-template", "{% if %}"], "--chat-template {% if %}: "),
        (&["--chat-template-kwargs", "[1]"], "--chat-template-kwargs [1]: expected a JSON object"),
        (&["--chat-template-kwargs", "{"], "--chat-template-kwargs {: is not JSON"),
        (&["-j", "{"], "-j {: is not JSON"),
        (&["-l", "x+1"], "-l x+1: expected a token id"),
        (&["--samplers", "top_k;magic"], "--samplers top_k;magic: there is no sampler `magic`"),
        (&["-m", "nosuch.gguf"], "-m nosuch.gguf: no such file"),
        (&["--model", "ds41"], "--model ds41: name the file with -m FILE"),
        (&["--model", "glm"], "--model glm: name the file with -m FILE"),
        (&["--model", "qwen3"], "--model qwen3: name the file with -m FILE"),
        (&["--api-key-file", "nosuch"], "--api-key-file nosuch: No such file"),
        (&["--slot-save-path", "nosuch"], "--slot-save-path nosuch: is not a directory"),
        (&["--ssl-key-file", "x"], "--ssl-key-file: --ssl-cert-file is missing"),
        (&["--ssl-key-file", "nosuch", "--ssl-cert-file", "nosuch"], "--ssl-cert-file nosuch: No such file"),
        (
            &["--queue-depth", "2000"],
            "--queue-depth 2000: with 4 slots that is 2004 requests, but --max-connections is 1024",
        ),
        (&["--api-prefix", "x"], "--api-prefix x: expected a path that starts with a slash"),
        (&["-hf", "a"], "-hf a: the slash between user and repository is missing; expected user/repo or"),
        (&["-m", "hf:a/b:c d"], "-m hf:a/b:c d: the quantisation after the colon is none; expected"),
        (&["-hff", "x.gguf"], "--hf-file x.gguf: name the repository with --hf-repo"),
        (&["-hf", "a/b", "-hff", "../x"], "--hf-file: ../x: it is no name of a file"),
        (&["-hf", "a/b", "-m", &fill("@model")], "--model "),
        (
            &["-mu", "http://x"],
            "-mu: downloads are from the Hugging Face hub only: use -hf, or pass a local file",
        ),
        (&["--context-shift"], "--context-shift: a full context ends the generation"),
    ] {
        let error = error(words);
        assert!(error.starts_with(wanted), "{words:?}: {error}");
    }
}

#[test]
fn words_are_read_as_llama_server_reads_them() {
    let ok = |words: &[&str]| shown(&settings(words));
    assert!(ok(&["-n", "-1", "--temp", "-1"]).contains("temperature: -1.0"), "values may start with a dash");
    assert!(ok(&["-r", "--help"]).contains("stop: [\"--help\"]"), "a value is a value");
    assert!(ok(&["-fa", "--port", "5"]).contains("port: 5,"), "bare -fa before a flag");
    assert!(ok(&["--port", "5", "-fa"]).contains("port: 5,"), "bare -fa at the end");
    assert!(ok(&["-fa", "1", "--port", "5"]).contains("port: 5,"));
    assert!(ok(&["--ctx_size", "512"]).contains("context: 512"));
    assert!(ok(&["--no_jinja"]).contains("jinja: false"));
    assert!(ok(&["--no-jinja=false"]).contains("jinja: true"));
    assert!(ok(&["-np", "auto", "-c", "0"]).contains("slots: None"));
    assert!(ok(&["-ctv", "q8_0", "-ctk", "q8_0"]).contains("kv: Q8_0"));
    assert!(ok(&["--host", "127.0.0.1,::1,[::1],x.sock,localhost"]).contains(
        "hosts: [Address(127.0.0.1), Address(::1), Address(::1), Socket(\"x.sock\"), Name(\"localhost\")]"
    ));
    assert!(ok(&["-r", "a", "-r", "b"]).contains("stop: [\"a\", \"b\"]"));
    assert!(ok(&["-r", r"\n###"]).contains("stop: [\"\\n###\"]"));
    assert!(
        ok(&["--dry-sequence-breaker", "x", "--dry-sequence-breaker", "y"])
            .contains("breakers: [\"x\", \"y\"]")
    );
    assert!(ok(&["--dry-sequence-breaker", "none"]).contains("breakers: []"));
    assert!(ok(&["--api-key", "a,b", "--api-key", "c"]).contains("api_keys: [\"a\", \"b\", \"c\"]"));
    assert!(ok(&["-l", "5-inf"]).contains("logit_bias: [(5, -inf)]"));
    assert!(ok(&["--grammar", "a", "-j", "{}"]).contains("grammar: None"), "the last one counts");
    assert!(ok(&["--reasoning-budget", "-1", "--sse-ping-interval", "-1"]).contains("sse_ping: None"));
    assert!(ok(&["--reasoning", "auto"]).contains("reasoning: None"));
    assert!(matches!(with_env(&["--port", "x", "--help"], &[]), Ok(Command::Print(_))));
}

#[test]
fn what_has_no_effect_says_so_once_a_reason() {
    let warnings =
        settings(&["-ngl", "99", "-sm", "row", "-ts", "1,1", "-ngl", "9", "--port", "1", "--port", "2"])
            .warnings;
    assert_eq!(
        warnings,
        [
            "--gpu-layers is given more than once: the last one counts",
            "--port is given more than once: the last one counts",
            "-sm, -ts: no effect: a model is on one card at most, and all but experts is on it as a whole",
        ]
    );
}

#[test]
fn flags_that_name_devices_agree_on_one() {
    let place = |words: &[&str]| settings(words).engine.placement;
    assert_eq!(place(&[]), Placement::Auto);
    for words in [&["-ngl", "99"] as &[&str], &["-ngl", "all"], &["-ngl", "auto"], &["-ngl", "-1"]] {
        assert_eq!(place(words), Placement::Auto, "{words:?}");
    }
    for words in [&["-ngl", "0"] as &[&str], &["-dev", "none"], &["-ngl", "0", "-mg", "1"], &["-dev", "CPU"]]
    {
        assert_eq!(place(words), Placement::Cpu, "{words:?}");
    }
    for words in [
        &["-dev", "CUDA1"] as &[&str],
        &["-mg", "1"],
        &["-ngl", "99", "-mg", "1"],
        &["--place", "1", "-ngl", "0"],
    ] {
        assert_eq!(place(words), Placement::Fill(CardPick::Number(1)), "{words:?}");
    }
    assert_eq!(place(&["--place", "cuda1", "-ngl", "0"]), Placement::Card(1));
    assert_eq!(place(&["--place", "cuda1+cpu"]), Placement::Split(1));
    assert_eq!(place(&["--place", "a", "-dev", "none"]), Placement::Fill(CardPick::Largest));
    assert_eq!(place(&["--place", "gate"]), Placement::Fill(CardPick::Smallest));
    for words in [&["--place", "b"], &["--place", "bp"], &["--place", "1+0"]] {
        assert_eq!(place(words), Placement::Several(2), "{words:?}");
    }
    assert!(
        settings(&["-ngl", "99"]).engine.asked_for_card && !settings(&["-ngl", "auto"]).engine.asked_for_card
    );
}

#[test]
fn flags_that_keep_experts_in_host_memory_agree() {
    let experts = |words: &[&str]| settings(words).engine.host_experts;
    assert_eq!(experts(&[]), HostExperts::AsNeeded);
    assert_eq!(experts(&["-cmoe"]), HostExperts::All);
    assert_eq!(experts(&["-ncmoe", "7"]), HostExperts::FirstLayers(7));
    let rules = TensorRules::parse(r"blk\.1\.=CUDA0,exps=CPU").expect("rules");
    assert_eq!(experts(&["-ot", r"blk\.1\.=CUDA0", "-ot", "exps=CPU"]), HostExperts::Rules(rules));
}

#[test]
fn flags_about_memory_are_sizes() {
    let engine = |words: &[&str]| settings(words).engine;
    let none = engine(&[]);
    assert_eq!((none.card_budget, none.card_margin, none.fit, none.fit_floor), (None, None, true, 4096));
    assert_eq!(none.slot_context(), Context::Auto);
    let given = engine(&["--card-budget", "12G", "-fitt", "512,1024", "-fit", "off", "-fitc", "8192"]);
    assert_eq!((given.card_budget, given.card_margin), (Some(Bytes(12 << 30)), Some(Bytes(1 << 30))));
    assert_eq!((given.slot_context(), given.fit_floor), (Context::Trained, 8192));
    assert!(engine(&["-fit"]).fit && engine(&["-fit", "on"]).fit);
    let moves = engine(&["--residency", "off", "--heat", "counts"]);
    assert_eq!((moves.residency, moves.heat), (ResidencyMode::Off, Some("counts".into())));
    assert!(settings(&["--dry-run"]).plan_only);
}

#[test]
fn the_models_own_defaults_hold_unless_a_flag_is_given() {
    let mut model = Params::default();
    (model.sampling.temperature, model.sampling.top_k) = (0.125, 3);
    let params = settings(&["--top-k", "40", "-r", "x"]).params(model).unwrap();
    assert_eq!((params.sampling.temperature, params.sampling.top_k), (0.125, 40));
    assert_eq!(params.stop, ["x"]);
}

#[test]
fn without_a_file_it_is_the_demo_model() {
    let demo = settings(&[]);
    assert_eq!(
        (demo.serve.model_path.as_str(), demo.serve.aliases),
        ("demo.gguf", vec!["bloomery-demo".to_owned()])
    );
    assert_eq!(settings(&["-a", "other"]).serve.aliases, ["other"]);
    let hub = settings(&["-hf", "user/repo:q8_0"]).serve;
    assert_eq!(hub.aliases, ["user/repo:q8_0"], "as llama-server calls it");
    assert_eq!(settings(&["-hf", "user/repo", "-a", "other"]).serve.aliases, ["other"]);
    let file = fill("@model");
    let named = settings(&["-m", &file]);
    assert_eq!((named.serve.model_path, named.serve.aliases), (file, Vec::new()));
}

/// Compares with a file of the repository; what it should be is left where the message says.
#[track_caller]
fn same(path: &str, found: &str, wanted: &str) {
    if found != wanted {
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(path.replace('/', "-"));
        std::fs::write(&file, wanted).expect("the folder of temporary files");
        panic!("{path} is out of date; {} has what should be there", file.display());
    }
}

#[test]
fn the_help_is_as_it_was() {
    same("tests/data/help.txt", include_str!("data/help.txt"), &help());
}

#[test]
fn the_documents_have_the_tables() {
    const PAGE: &str = include_str!("../../docs/serving.md");
    const BEGIN: &str = "<!-- flags: made from the table of bloomery-server/src/args -->\n\n";
    const END: &str = "<!-- flags: end -->\n";
    let (head, rest) = PAGE.split_once(BEGIN).expect("the mark before the tables");
    let (_, tail) = rest.split_once(END).expect("the mark after the tables");
    let mut page = head.to_owned();
    let _ = write!(page, "{BEGIN}{}{END}{tail}", args::markdown());
    same("docs/serving.md", PAGE, &page);
}

#[test]
fn the_completion_offers_every_spelling() {
    let script = args::completion();
    for name in ["--ctx-size", "-np", "--no-jinja", "complete -o filenames -F _bloomery_serve bloomery-serve"]
    {
        assert!(script.contains(name), "{name}");
    }
}

#[test]
fn drafts_come_from_the_text_or_from_nowhere() {
    let drafts = |words: &[&str]| settings(words).params(Params::default()).expect("it was parsed").drafts;
    let ngram = Ngram::default();
    assert_eq!(drafts(&[]), Drafts::Best(ngram, Block::default()));
    assert_eq!(drafts(&["--spec-type", "none"]), Drafts::Off);
    assert_eq!(drafts(&["--spec-type", "none", "--draft-max", "4"]), Drafts::Off);
    assert_eq!(drafts(&["--spec-type", "none", "--spec-default"]), Drafts::default());
    assert_eq!(drafts(&["--spec-type", "ngram-simple"]), Drafts::Ngram(ngram));
    assert_eq!(
        drafts(&["--draft-max", "4", "--draft-min", "2"]),
        Drafts::Best(Ngram { most: 4, least: 2, ..ngram }, Block { most: 4, ..Block::default() })
    );
    assert_eq!(
        drafts(&["--spec-ngram-simple-size-n", "12", "--spec-type", "ngram-map-k"]),
        Drafts::Ngram(Ngram { longest: 12, shortest: 12, ..ngram })
    );
    let block = Block::default();
    assert_eq!(drafts(&["--spec-type", "draft-mtp"]), Drafts::Block(block));
    assert_eq!(drafts(&["--spec-type", "draft-dspark"]), Drafts::Block(block));
    assert_eq!(drafts(&["--spec-type", "ngram-simple,draft-mtp"]), Drafts::Best(ngram, block));
    assert_eq!(
        drafts(&["--spec-type", "draft-mtp", "--draft-max", "2"]),
        Drafts::Block(Block { most: 2, ..block })
    );
    assert_eq!(drafts(&["--spec-ngram-simple-size-m", "5"]), Drafts::Best(Ngram { most: 5, ..ngram }, block));
    let other = settings(&["--spec-type", "draft-eagle3"]);
    let warning = "draft-eagle3: other models that draft are not in this release";
    assert!(other.warnings[0].contains(warning), "{:?}", other.warnings);
    assert!(
        error(&["--spec-type", "guess"])
            .contains("expected none, or of draft-mtp, draft-dspark, ngram-simple")
    );
}
