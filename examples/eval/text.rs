//! A text cut into contexts and scored: the method of llama-perplexity, shared by `perplexity` and `kld`.

use std::fs;
use std::path::Path;

use bloomery_core::tokenizer::{Specials, Tokenizer};
use bloomery_core::{Engine, Logits, Session, Turn};
use bloomery_examples::{Failure, Status};

/// Tokens in chunks of one context each. The first token of every chunk gives way to the BOS where the model has
/// one; of every chunk, tokens `context / 2 + 1` to the last are scored, each from the logits before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunks {
    pub(crate) context: usize,
    /// Whole chunks, BOS in place.
    pub(crate) tokens: Vec<u32>,
}

impl Chunks {
    /// Tokenizes a file. The text must be two contexts long; what is left after the last whole chunk is not scored.
    pub(crate) fn read(
        path: &Path,
        tokenizer: &Tokenizer,
        context: usize,
        limit: Option<usize>,
    ) -> Result<Self, Failure> {
        let text =
            fs::read(path).map_err(|error| Failure::new(Status::NoInput, error).about(path.display()))?;
        let text = String::from_utf8(text)
            .map_err(|error| Failure::new(Status::Data, format!("{}: not UTF-8: {error}", path.display())))?;
        // llama.cpp drops one line end at the end of a file.
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let tokens = tokenizer
            .encode_prompt(text, Specials::AsText)
            .map_err(|error| Failure::new(Status::Data, error))?;
        let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
        Self::cut(tokens, bos, context, limit).map_err(|failure| failure.about(path.display()))
    }

    fn cut(
        mut tokens: Vec<u32>,
        bos: Option<u32>,
        context: usize,
        limit: Option<usize>,
    ) -> Result<Self, Failure> {
        if tokens.len() / 2 < context {
            let message =
                format!("{} tokens; a context of {context} needs at least {}", tokens.len(), 2 * context);
            return Err(Failure::new(Status::Data, message));
        }
        let chunks = (tokens.len() / context).min(limit.unwrap_or(usize::MAX));
        tokens.truncate(chunks * context);
        if let Some(bos) = bos {
            tokens.iter_mut().step_by(context).for_each(|token| *token = bos);
        }
        Ok(Self { context, tokens })
    }

    /// Chunks in all.
    pub(crate) fn count(&self) -> usize {
        self.tokens.len() / self.context
    }

    /// Runs one chunk in an emptied session. `visit` gets the logits before every scored token, and the token; a
    /// few rows of logits exist at a time.
    pub(crate) fn score(
        &self,
        engine: &Engine,
        session: &mut Session,
        chunk: usize,
        mut visit: impl FnMut(&[f32], u32) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let tokens = &self.tokens[chunk * self.context..][..self.context];
        let first = self.context / 2;
        session.truncate(0)?;
        engine.step(&mut [Turn::new(session, &tokens[..first], Logits::None)])?;
        let vocab = engine.model().vocab;
        let rows = rows_at_a_time(vocab);
        let mut targets = tokens[first + 1..].iter();
        for part in tokens[first..self.context - 1].chunks(rows) {
            let mut turn = [Turn::new(session, part, Logits::All)];
            engine.step(&mut turn)?;
            for (logits, &target) in turn[0].logits().chunks_exact(vocab).zip(targets.by_ref()) {
                visit(logits, target)?;
            }
        }
        Ok(())
    }
}

/// Rows of logits to ask for at a time, so that they take no more than 64 MiB.
pub(crate) fn rows_at_a_time(vocab: usize) -> usize {
    const BYTES: usize = 64 << 20;
    (BYTES / (4 * vocab.max(1))).clamp(1, 512)
}

/// Scored tokens of a chunk.
pub(crate) fn scored(context: usize) -> usize {
    context.saturating_sub(context / 2 + 1)
}

/// Sum of negative log-likelihoods, and of their squares.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Likelihood {
    count: usize,
    sum: f64,
    squares: f64,
}

impl Likelihood {
    /// Takes in one token that had this log-probability.
    pub(crate) fn add(&mut self, log_probability: f64) {
        self.count += 1;
        self.sum -= log_probability;
        self.squares += log_probability * log_probability;
    }

    /// `exp` of the mean.
    pub(crate) fn perplexity(&self) -> f64 {
        (self.sum / self.count as f64).exp()
    }

    /// Standard error of the perplexity, to first order.
    pub(crate) fn error(&self) -> f64 {
        let n = self.count as f64;
        let mean = self.sum / n;
        let variance = (self.squares / n - mean * mean).max(0.0);
        (variance / (n - 1.0)).sqrt() * self.perplexity()
    }
}

#[cfg(test)]
mod tests {
    use bloomery_core::{Context, ModelSource, Numerics};
    use bloomery_examples::stats::log_softmax;

    use super::*;

    #[test]
    fn chunks_are_whole_and_begin_with_the_bos() {
        let tokens: Vec<u32> = (100..111).collect();
        let chunks = Chunks::cut(tokens.clone(), Some(1), 4, None).unwrap();
        assert_eq!(chunks.tokens, [1, 101, 102, 103, 1, 105, 106, 107]);
        assert_eq!((chunks.count(), scored(chunks.context)), (2, 1));
        assert_eq!(Chunks::cut(tokens.clone(), None, 4, Some(1)).unwrap().tokens, [100, 101, 102, 103]);
        let short = Chunks::cut(tokens, None, 6, None).unwrap_err();
        assert_eq!(short.status, Status::Data);
        assert!(short.message.contains("11 tokens") && short.message.contains("12"), "{}", short.message);
        assert_eq!([2, 3, 4, 5, 512].map(scored), [0, 1, 1, 2, 255]);
    }

    #[test]
    fn perplexity_of_known_likelihoods() {
        let mut likelihood = Likelihood::default();
        for p in [0.5f64, 0.25, 0.125, 0.25] {
            likelihood.add(p.ln());
        }
        assert!((likelihood.perplexity() - 4.0).abs() < 1e-12);
        // Deviations from the mean are ln 2, 0, -ln 2, 0.
        let error = (2.0 * f64::ln(2.0).powi(2) / 4.0 / 3.0).sqrt() * 4.0;
        assert!((likelihood.error() - error).abs() < 1e-12);
    }

    /// Every scored token must be predicted from its own chunk only, from exactly the tokens before it.
    #[test]
    fn scores_are_those_of_stepping_through_each_chunk_alone() {
        let builder = Engine::builder(ModelSource::demo())
            .numerics(Numerics::Exact)
            .context(Context::Tokens(12))
            .sessions(2);
        let engine = builder.plan().unwrap().load(|_| {}).unwrap();
        let chunks = Chunks::cut((40..68).collect(), Some(9), 12, None).unwrap();
        let mut session = engine.session().unwrap();
        for chunk in 0..2 {
            let mut found = Vec::new();
            let visit = |logits: &[f32], target: u32| {
                found.push((target, log_softmax(logits)[target as usize]));
                Ok(())
            };
            chunks.score(&engine, &mut session, chunk, visit).unwrap();
            let mut stepping = engine.session().unwrap();
            let tokens = &chunks.tokens[12 * chunk..][..12];
            let expected: Vec<(u32, f64)> = (0..11)
                .map(|i| {
                    (tokens[i + 1], log_softmax(stepping.step(tokens[i]).unwrap())[tokens[i + 1] as usize])
                })
                .skip(6)
                .collect();
            assert_eq!(found, expected, "chunk {chunk}");
        }
    }
}
