//! The command line.

use std::path::PathBuf;

use bloomery_examples::{Alias, ModelArgs};
use clap::Parser;

use crate::sampling::SamplingArgs;

/// Flags that clap cannot spell.
pub(crate) const ALIASES: [Alias; 14] = {
    let [k, v, layers, repo, repository, file, token, all, first, rules, draft] =
        bloomery_examples::MODEL_ALIASES;
    let (system, reasoning, special) = (("-sys", "--system"), ("-rea", "--reasoning"), ("-sp", "--special"));
    [k, v, layers, repo, repository, file, token, all, first, rules, draft, system, reasoning, special]
};

const CODES: &str = "Exit codes (sysexits.h): 0 done; 64 wrong usage; 65 the prompt is too long or the template refuses it; \
66 the model is missing, broken or not supported; 69 it does not fit this machine, or the hub does not answer; 70 the engine failed; \
74 stdout cannot be written; 130 interrupted.";

/// Talk to a GGUF model in the terminal.
///
/// With a prompt the answer goes to stdout; without one it is a conversation, a message a line. Flags have
/// llama.cpp's names and defaults; a sampling flag that is not given leaves the file's own recommendation in force.
#[derive(Debug, Parser)]
#[command(name = "bloomery-chat", version, after_help = CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// The first message; words are joined by spaces. Without any: a conversation
    #[arg(value_name = "PROMPT")]
    words: Vec<String>,
    /// The same as one argument
    #[arg(short = 'p', long = "prompt", value_name = "TEXT", conflicts_with = "words")]
    text: Option<String>,
    /// Positions of the conversation; 0: as many as the model was trained for and memory allows
    #[arg(short, long, alias = "ctx", value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) ctx_size: usize,
    /// Most tokens of an answer; -1: until the model ends it
    #[arg(short = 'n', long, aliases = ["n-predict"], value_name = "N", default_value_t = -1, allow_negative_numbers = true)]
    pub(crate) predict: i64,
    /// System message (also -sys)
    #[arg(long, alias = "system-prompt", value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Jinja chat template to use instead of the file's
    #[arg(long, value_name = "FILE")]
    pub(crate) chat_template_file: Option<PathBuf>,
    /// Further variables of the chat template, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) chat_template_kwargs: Option<String>,
    /// Answer without thinking first: enable_thinking = false in the chat template
    #[arg(long, alias = "no-thinking")]
    pub(crate) no_think: bool,
    /// on, off (as --no-think) or auto (as the template wants); also -rea
    #[arg(long, value_name = "WORD", value_parser = ["on", "off", "auto"], default_value = "auto", conflicts_with = "no_think")]
    pub(crate) reasoning: String,
    /// Text that ends an answer; may be repeated
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) reverse_prompt: Vec<String>,
    /// Show control tokens (also -sp)
    #[arg(long)]
    pub(crate) special: bool,
    /// The memory plan and timings, on stderr
    #[arg(short, long)]
    pub(crate) verbose: bool,
    #[command(flatten, next_help_heading = "Sampling")]
    pub(crate) sampling: SamplingArgs,
}

impl Args {
    /// The one message to answer, if it is on the command line.
    pub(crate) fn prompt(&self) -> Option<String> {
        self.text.clone().or_else(|| (!self.words.is_empty()).then(|| self.words.join(" ")))
    }

    /// Whether thinking is switched, and which way.
    pub(crate) fn thinking(&self) -> Option<bool> {
        match (self.no_think, self.reasoning.as_str()) {
            (true, _) | (_, "off") => Some(false),
            (_, "on") => Some(true),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use bloomery_examples::expand;
    use clap::CommandFactory;

    use super::*;

    pub(crate) fn parse(words: &str) -> Result<Args, clap::Error> {
        let words = std::iter::once("bloomery-chat").chain(words.split_whitespace()).map(OsString::from);
        Args::try_parse_from(expand(words, &Args::command(), &ALIASES))
    }

    #[test]
    fn the_definition_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn prompts_come_as_words_or_as_a_flag() {
        assert_eq!(parse("Tell me a story").unwrap().prompt().unwrap(), "Tell me a story");
        assert_eq!(parse("-p Hello").unwrap().prompt().unwrap(), "Hello");
        assert_eq!(parse("-m x.gguf -- -n 5").unwrap().prompt().unwrap(), "-n 5");
        assert_eq!(parse("--temp 0").unwrap().prompt(), None);
        assert!(parse("-p Hello world").is_err());
    }

    #[test]
    fn llama_cpp_spellings_are_understood() {
        let args = parse("-m f -c 64 -n -1 -t 2 -s -1 -ctk q8_0 -sys Be. --n_predict 3 --ctx 9 hi");
        assert!(args.is_err(), "a flag given twice is refused");
        let args = parse("-m f -c 64 -n -1 -t 2 -s -1 -ctk q8_0 -sys Be. hi").unwrap();
        assert_eq!((args.ctx_size, args.predict, args.system.as_deref()), (64, -1, Some("Be.")));
        assert_eq!(parse("--n_predict 3 --ctx_size 9").unwrap().predict, 3);
    }

    #[test]
    fn models_of_the_hub_are_named() {
        let args = parse("-hf user/repo:q8_0 --offline -hft x hi").unwrap().model;
        assert_eq!(
            (args.name().as_str(), args.offline, args.hf_token.as_deref()),
            ("user/repo", true, Some("x"))
        );
        assert_eq!(parse("--hf user/repo -hff a.gguf").unwrap().model.hf_file.as_deref(), Some("a.gguf"));
        for words in ["-hf user", "-hf user/repo -m x.gguf", "-hff a.gguf"] {
            assert!(parse(words).is_err(), "{words}");
        }
    }

    #[test]
    fn thinking_is_switched_two_ways() {
        assert_eq!(parse("--no-think").unwrap().thinking(), Some(false));
        assert_eq!(parse("-rea off").unwrap().thinking(), Some(false));
        assert_eq!(parse("--reasoning on").unwrap().thinking(), Some(true));
        assert_eq!(parse("").unwrap().thinking(), None);
        assert!(parse("--reasoning maybe").is_err());
    }
}
