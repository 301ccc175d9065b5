//! The command line.

use std::path::PathBuf;

use bloomery_examples::{Alias, MODEL_ALIASES, ModelArgs};
use clap::Parser;

use crate::test::{Kind, Test};

/// Flags that clap cannot spell.
pub(crate) const ALIASES: [Alias; 13] = {
    let [k, v, layers, repo, repository, file, token, all, first, rules, draft] = MODEL_ALIASES;
    let (parallel, ubatch) = (("-npl", "--parallel"), ("-ub", "--ubatch-size"));
    [k, v, layers, repo, repository, file, token, all, first, rules, draft, parallel, ubatch]
};

const HELP: &str = "Tests are llama-bench's: pp512 runs a prompt of 512 random ids, tg128 steps through 128 random ids one at a \
time, @ d4096 does so after 4096 others. tg128 x8 steps through eight sequences together. GB/s are the weights that a step reads \
times the steps a second.

Exit codes (sysexits.h): 0 done; 1 a ratio is below --min-ratio; 64 wrong usage; 66 a model or llama-bench is missing or broken; \
69 a model does not fit this machine; 70 an engine failed.";

/// Tokens per second of GGUF models, alone or side by side with llama-bench.
#[derive(Debug, Parser)]
#[command(name = "bench", version, after_help = HELP)]
pub(crate) struct Args {
    /// Files are separated by commas
    #[command(flatten)]
    model: ModelArgs,
    /// Lengths of prompts; 0: none
    #[arg(short = 'p', long, value_name = "N", value_delimiter = ',', default_value = "512")]
    n_prompt: Vec<usize>,
    /// Tokens to step through; 0: none
    #[arg(short, long, value_name = "N", value_delimiter = ',', default_value = "128")]
    n_gen: Vec<usize>,
    /// Tokens in the context beforehand
    #[arg(short = 'd', long, value_name = "N", value_delimiter = ',', default_value = "0")]
    n_depth: Vec<usize>,
    /// Sequences that step together (also -npl)
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    parallel: Vec<u32>,
    /// Rounds of every test
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repetitions: u32,
    /// Most rows of one step (also -ub)
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ubatch_size: u32,
    /// A llama-bench to run on the same file, threads and tests, in turn with ours
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) against: Option<PathBuf>,
    /// Further arguments for it, separated by spaces
    #[arg(long, value_name = "ARGS", requires = "against", allow_hyphen_values = true)]
    pub(crate) against_args: Option<String>,
    /// Exit with 1 if we are not at least so many times as fast in every test
    #[arg(long, value_name = "X", requires = "against")]
    pub(crate) min_ratio: Option<f64>,
    /// Time the start instead: plan, load, first token
    #[arg(long, conflicts_with = "against")]
    pub(crate) load: bool,
    /// Also a table of where the time of a card goes: kernels one by one, which takes longer than a whole step
    #[arg(long, conflicts_with_all = ["against", "load"])]
    pub(crate) stages: bool,
    /// Also the plan, and how experts travelled between host and card
    #[arg(long, conflicts_with_all = ["against", "load"])]
    pub(crate) experts: bool,
}

impl Args {
    /// One set of flags per model.
    pub(crate) fn models(&self) -> Vec<ModelArgs> {
        let files =
            self.model.model.as_ref().and_then(|path| path.to_str()).filter(|files| files.contains(','));
        match files {
            None => vec![self.model.clone()],
            Some(files) => files
                .split(',')
                .filter(|file| !file.is_empty())
                .map(|file| ModelArgs { model: Some(file.into()), ..self.model.clone() })
                .collect(),
        }
    }

    /// All tests, depth by depth.
    pub(crate) fn tests(&self) -> Vec<Test> {
        let mut tests = Vec::new();
        for &depth in &self.n_depth {
            tests.extend(self.n_prompt.iter().map(|&tokens| Test {
                kind: Kind::Prompt,
                tokens,
                depth,
                parallel: 1,
            }));
            for &tokens in &self.n_gen {
                let parallel = self.parallel.iter().map(|&n| n as usize);
                tests.extend(parallel.map(|parallel| Test { kind: Kind::Generate, tokens, depth, parallel }));
            }
        }
        tests.retain(|test| test.tokens > 0);
        tests
    }

    /// Positions that the longest test needs.
    pub(crate) fn context(&self) -> usize {
        self.tests().iter().map(|test| test.depth.saturating_add(test.tokens)).max().unwrap_or(1)
    }

    /// Sequences of the widest test.
    pub(crate) fn sessions(&self) -> usize {
        self.tests().iter().map(|test| test.parallel).max().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use bloomery_examples::expand;
    use clap::CommandFactory;

    use super::*;

    fn parse(words: &str) -> Result<Args, clap::Error> {
        let words = std::iter::once("x").chain(words.split_whitespace()).map(OsString::from);
        Args::try_parse_from(expand(words, &Args::command(), &ALIASES))
    }

    #[test]
    fn lists_make_all_tests() {
        Args::command().debug_assert();
        let args = parse("-m a.gguf,b.gguf -p 512 -n 128 -d 0,4096 -npl 1,8 -r 3 -ub 256 -t 2").unwrap();
        let names: Vec<String> = args.tests().iter().map(Test::to_string).collect();
        let expected = ["pp512", "tg128", "tg128 x8", "pp512 @ d4096", "tg128 @ d4096", "tg128 x8 @ d4096"];
        assert_eq!(names, expected);
        assert_eq!((args.models().len(), args.context(), args.sessions()), (2, 4608, 8));
    }

    #[test]
    fn zero_leaves_a_kind_out() {
        let args = parse("-p 0 -n 16").unwrap();
        assert_eq!(args.tests().len(), 1);
        assert_eq!((args.context(), args.repetitions, args.ubatch_size), (16, 5, 512));
        assert!(parse("-ngl 99 --stages").is_ok() && parse("-ngl 99 --place cpu").is_err());
        assert!(parse("-npl 0").is_err() && parse("--min-ratio 1").is_err());
        assert!(parse("--against llama-bench --against-args -fa_on --min-ratio 1.2").is_ok());
    }
}
