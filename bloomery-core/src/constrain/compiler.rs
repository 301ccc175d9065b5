//! From descriptions to parsers, once for each engine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::InferenceCapabilities;
use llguidance::{ParserFactory, TokenParser};

use super::cache::Cache;
use super::grammar::Source;
use super::matching::Matching;
use super::vocabulary::Vocabulary;
use super::watch::Watch;
use super::{Grammar, GrammarError, gbnf, lark, schema};
use crate::tokenizer::Tokenizer;

/// Compiled grammars that are kept.
const GRAMMARS: usize = 32;
/// Sets of texts looked for that are kept.
const WATCHES: usize = 32;
/// Longest description in bytes. Tools of a coding agent have schemas of 100 KB.
const LONGEST: usize = 2 << 20;
/// Descriptions are compiled on a stack of their own, because compiling follows their nesting. Only what is touched
/// takes memory.
const STACK: usize = 64 << 20;
/// A shared automaton beyond this size is dropped for a fresh one.
const WARM_BYTES: usize = 32 << 20;

/// What all constraints of an engine share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Tokens of the model.
    pub(super) vocab: usize,
    /// Tokens that end a generation, a bit each.
    pub(super) ends: Vec<u32>,
    /// Tokens by the first byte of what they render as.
    pub(super) by_first: Vec<Vec<u32>>,
}

impl Shared {
    /// Words of a mask.
    pub(super) fn words(&self) -> usize {
        self.vocab.div_ceil(32)
    }
}

/// Compiles descriptions and keeps what it compiled.
pub(crate) struct Compiler {
    tokenizer: Tokenizer,
    shared: Arc<Shared>,
    factory: ParserFactory,
    grammars: Cache<Grammar, Result<Arc<Compiled>, GrammarError>>,
    watches: Cache<(Vec<String>, bool), Result<Arc<Watch>, GrammarError>>,
}

/// A compiled grammar at the beginning of a text.
struct Compiled {
    pristine: TokenParser,
    /// Its automaton has seen other texts of this grammar.
    warm: Mutex<TokenParser>,
}

impl Compiler {
    /// For a model of `vocab` tokens.
    pub(crate) fn new(tokenizer: &Tokenizer, vocab: usize) -> Result<Compiler, GrammarError> {
        let unusable = |message| GrammarError::Unusable { kind: "vocabulary", message };
        let made = catch_unwind(AssertUnwindSafe(|| {
            let vocabulary = Vocabulary::new(tokenizer, vocab);
            let shared = vocabulary.shared();
            let none = InferenceCapabilities::default();
            let slices = SlicedBiasComputer::general_slices();
            let mut factory =
                ParserFactory::new(&vocabulary.env(), none, &slices).map_err(|error| error.to_string())?;
            factory.quiet();
            *factory.limits_mut() = limits();
            Ok((shared, factory))
        }));
        let (shared, factory) =
            made.unwrap_or_else(|_| Err("no trie can be built".to_owned())).map_err(unusable)?;
        Ok(Compiler {
            tokenizer: tokenizer.clone(),
            shared: Arc::new(shared),
            factory,
            grammars: Cache::new(GRAMMARS),
            watches: Cache::new(WATCHES),
        })
    }

    pub(super) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// A text under `grammar`, at its beginning.
    pub(super) fn matching(&self, grammar: &Grammar) -> Result<Matching, GrammarError> {
        let compiled = self.grammars.get(grammar, || on_deep_stack(|| self.compile(grammar.source())))?;
        Ok(Matching::new(compiled.parser(), Arc::clone(&self.shared)))
    }

    /// Finds any of `texts`. With `held`, no token ends the generation before.
    pub(super) fn watch(&self, texts: &[String], held: bool) -> Result<Arc<Watch>, GrammarError> {
        let key = (texts.to_vec(), held);
        self.watches.get(&key, || Watch::new(&self.tokenizer, &self.shared, texts, held).map(Arc::new))
    }

    fn compile(&self, source: &Source) -> Result<Arc<Compiled>, GrammarError> {
        let (kind, grammar) = match source {
            Source::Schema { text, lenient } => ("schema", schema::compile(bounded(text)?, *lenient)?),
            Source::TooDeep { lenient } => ("schema", schema::too_deep(*lenient)?),
            Source::Gbnf(text) => ("grammar", gbnf::compile(bounded(text)?, &self.tokenizer)?),
            Source::Regex(text) => ("regular expression", TopLevelGrammar::from_regex(bounded(text)?)),
            Source::Lark(text) => ("grammar", lark::compile(bounded(text)?)?),
        };
        let mut pristine = self
            .factory
            .create_parser(grammar)
            .map_err(|error| GrammarError::Unusable { kind, message: first_line(&error.to_string()) })?;
        pristine.start_without_prompt();
        // Finds what nothing fits, and the masks of what is too dear.
        let begun = catch_unwind(AssertUnwindSafe(|| pristine.deep_clone().compute_mask().map(|_| ())));
        let begun = begun.unwrap_or_else(|_| Ok(()));
        begun.map_err(|_| GrammarError::Unusable { kind, message: "no text fits it".to_owned() })?;
        let warm = Mutex::new(pristine.deep_clone());
        Ok(Arc::new(Compiled { pristine, warm }))
    }
}

impl Compiled {
    fn parser(&self) -> TokenParser {
        let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        let usable = catch_unwind(AssertUnwindSafe(|| {
            let stats = warm.parser.lexer_stats();
            !stats.error && stats.num_bytes < WARM_BYTES
        }));
        if !usable.unwrap_or(false) {
            *warm = self.pristine.deep_clone();
        }
        warm.clone()
    }
}

/// What a mask and a grammar may cost. Descriptions come from requests.
pub(super) fn limits() -> ParserLimits {
    ParserLimits {
        // A grammar of single characters needs some for every byte of every token it allows: 15 ms a mask with 150 000
        // tokens.
        step_max_items: 500_000,
        // 1 to 2 KB each.
        max_lexer_states: 50_000,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

/// Runs what may need much stack.
pub(super) fn on_deep_stack<T: Send>(
    run: impl FnOnce() -> Result<T, GrammarError> + Send,
) -> Result<T, GrammarError> {
    let failed = |message: &str| GrammarError::Unusable { kind: "grammar", message: message.to_owned() };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("grammar".to_owned()).stack_size(STACK);
        match thread.spawn_scoped(scope, run) {
            Ok(handle) => handle.join().unwrap_or_else(|_| Err(failed("the compiler failed"))),
            Err(error) => Err(failed(&format!("no thread to compile it on: {error}"))),
        }
    })
}

fn bounded(text: &str) -> Result<&str, GrammarError> {
    match text.len() {
        size if size > LONGEST => {
            Err(GrammarError::TooLarge { what: "bytes of the description", size, limit: LONGEST })
        }
        _ => Ok(text),
    }
}

/// The line of a message that says what is wrong.
pub(super) fn first_line(message: &str) -> String {
    const LONGEST: usize = 300;
    // Errors of expressions draw where they are, and say last what they are.
    let said = message.lines().find_map(|line| line.strip_prefix("error: "));
    let first = || message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let line = said.unwrap_or_else(first).trim();
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}
