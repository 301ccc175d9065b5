//! The tokens still in play: the whole vocabulary until something cuts it, then a list.

use super::mass::{self, Weighted};
use super::math;
use super::top::select_top;
use std::cmp::Ordering;
use std::collections::HashMap;

/// A token of the list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) id: u32,
    pub(super) logit: f32,
    /// Its softmax, where the last step computed one.
    pub(super) p: f32,
}

/// Larger logit first, then lower id. Logits are never NaN here.
pub(super) fn by_rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal).then(a.id.cmp(&b.id))
}

/// Memory that a sampler keeps between tokens. A clone starts empty: forks do not copy scratch.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    dense: Vec<f32>,
    list: Vec<Candidate>,
    weighted: Vec<Weighted>,
}

impl Clone for Buffers {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Every token, with the caller's logits.
    Raw,
    /// Every token, with the logits in `dense`.
    Dense,
    /// The tokens of `list`, none of them at -inf.
    List,
}

/// Logits of the tokens still in play.
pub(super) struct Candidates<'a> {
    raw: &'a [f32],
    dense: Vec<f32>,
    list: Vec<Candidate>,
    weighted: Vec<Weighted>,
    form: Form,
    sorted: bool,
}

impl<'a> Candidates<'a> {
    /// `raw` has no NaN and no +inf.
    pub(super) fn new(raw: &'a [f32], buffers: Buffers) -> Self {
        let Buffers { dense, list, weighted } = buffers;
        Self { raw, dense, list, weighted, form: Form::Raw, sorted: false }
    }

    /// The best of a vocabulary in place of all of it, best first. None is NaN or +inf.
    pub(super) fn of_best(ids: &[u32], logits: &[f32], buffers: Buffers) -> Self {
        let mut new = Self { form: Form::List, sorted: true, ..Self::new(&[], buffers) };
        new.list.clear();
        let live = ids.iter().zip(logits).filter(|(_, logit)| **logit > f32::NEG_INFINITY);
        new.list.extend(live.map(|(&id, &logit)| Candidate { id, logit, p: 0.0 }));
        new
    }

    pub(super) fn into_buffers(self) -> Buffers {
        Buffers { dense: self.dense, list: self.list, weighted: self.weighted }
    }

    /// The logits of the vocabulary, by id, unless a list has taken their place.
    pub(super) fn vocabulary(&self) -> Option<&[f32]> {
        match self.form {
            Form::Raw => Some(self.raw),
            Form::Dense => Some(&self.dense),
            Form::List => None,
        }
    }

    /// The same, writable.
    pub(super) fn vocabulary_mut(&mut self) -> Option<&mut [f32]> {
        if self.form == Form::Raw {
            self.dense.clear();
            self.dense.extend_from_slice(self.raw);
            self.form = Form::Dense;
        }
        (self.form == Form::Dense).then_some(self.dense.as_mut_slice())
    }

    /// Turns the vocabulary into a list of every token above -inf.
    pub(super) fn list(&mut self) -> &mut Vec<Candidate> {
        if self.form != Form::List {
            self.retain(|_, _| true);
        }
        &mut self.list
    }

    /// The list as it stands; empty while the vocabulary is whole.
    pub(super) fn listed(&self) -> &[Candidate] {
        if self.form == Form::List { &self.list } else { &[] }
    }

    /// The k best, best first, without dropping the others.
    pub(super) fn best(&self, k: usize) -> Vec<Candidate> {
        let mut best = Vec::new();
        match self.vocabulary() {
            Some(logits) => select_top(logits, k, &mut best),
            None => {
                best.extend_from_slice(&self.list);
                if k > 0 && k < best.len() {
                    best.select_nth_unstable_by(k - 1, by_rank);
                }
                best.truncate(k);
            }
        }
        best.sort_unstable_by(by_rank);
        best
    }

    /// The list, and the promise that its order will be lost.
    pub(super) fn reorder(&mut self) -> &mut Vec<Candidate> {
        self.list();
        self.sorted = false;
        &mut self.list
    }

    /// Whether nothing is left. Of a vocabulary that is only known after a list was made of it.
    pub(super) fn is_empty(&self) -> bool {
        self.form == Form::List && self.list.is_empty()
    }

    /// How many logits are looked at, -inf included.
    pub(super) fn len(&self) -> usize {
        self.vocabulary().map_or(self.list.len(), <[f32]>::len)
    }

    /// The largest logit; -inf if nothing is left.
    pub(super) fn max(&self) -> f32 {
        match self.vocabulary() {
            Some(logits) => math::scan(logits).0,
            None if self.sorted => self.list.first().map_or(f32::NEG_INFINITY, |c| c.logit),
            None => self.list.iter().fold(f32::NEG_INFINITY, |m, c| m.max(c.logit)),
        }
    }

    /// The largest logit and the sum of e^(logit - largest).
    pub(super) fn normalizer(&self) -> (f32, f32) {
        let max = self.max();
        let sum = match self.vocabulary() {
            Some(logits) => math::sum_exp(logits, max),
            None => self.list.iter().map(|c| f64::from(math::exp(c.logit - max))).sum(),
        };
        (max, sum as f32)
    }

    /// Entropy of the softmax in nats, and the number of tokens it is over.
    pub(super) fn entropy(&self) -> (f64, usize) {
        let max = self.max();
        match self.vocabulary() {
            Some(logits) => math::entropy(logits, max),
            None => math::entropy(&self.list.iter().map(|c| c.logit).collect::<Vec<_>>(), max),
        }
    }

    /// Fills `p` of the list (made if need be) with the softmax.
    pub(super) fn softmax(&mut self) -> &mut Vec<Candidate> {
        self.list();
        let (max, sum) = self.normalizer();
        for c in &mut self.list {
            c.p = math::exp(c.logit - max) / sum;
        }
        &mut self.list
    }

    /// Replaces logits of the tokens in `edits`. Results are kept below +inf; tokens at -inf stay there.
    pub(super) fn adjust<T>(&mut self, edits: &HashMap<u32, T>, new: impl Fn(f32, &T) -> f32) {
        let edit = |logit: &mut f32, with: &T| {
            if *logit > f32::NEG_INFINITY {
                *logit = new(*logit, with).min(f32::MAX);
            }
        };
        if edits.is_empty() {
            return;
        }
        if let Some(logits) = self.vocabulary_mut() {
            for (&id, with) in edits {
                if let Some(logit) = logits.get_mut(id as usize) {
                    edit(logit, with);
                }
            }
            return;
        }
        for c in &mut self.list {
            if let Some(with) = edits.get(&c.id) {
                edit(&mut c.logit, with);
            }
        }
        self.list.retain(|c| c.logit > f32::NEG_INFINITY);
        self.sorted = false;
    }

    /// Keeps the k best, best first.
    pub(super) fn keep_top(&mut self, k: usize) {
        match self.form {
            Form::Raw => select_top(self.raw, k, &mut self.list),
            Form::Dense => select_top(&self.dense, k, &mut self.list),
            Form::List => {
                if !self.sorted && k > 0 && k < self.list.len() {
                    self.list.select_nth_unstable_by(k - 1, by_rank);
                }
                self.list.truncate(k);
            }
        }
        if self.form != Form::List || !self.sorted {
            self.list.sort_unstable_by(by_rank);
        }
        self.form = Form::List;
        self.sorted = true;
    }

    /// Keeps logits of at least `floor`, but no fewer than the `min_keep` best and never none.
    pub(super) fn keep_from(&mut self, floor: f32, min_keep: usize) {
        // -inf never passes, whatever the floor; NaN, from a vocabulary of -inf, becomes MIN too
        let floor = floor.max(f32::MIN);
        let passing = match self.vocabulary() {
            Some(logits) => logits.iter().filter(|l| **l >= floor).count(),
            None => self.list.iter().filter(|c| c.logit >= floor).count(),
        };
        if passing < min_keep.max(1) {
            return self.keep_top(min_keep.max(1));
        }
        self.retain(|_, logit| logit >= floor);
    }

    /// Keeps the tokens of least cost, ties to the lower id, until `enough` accepts their probability
    /// and number. `cost` is of (logit, largest logit, logarithm of the sum of e^(logit - largest)).
    pub(super) fn keep_mass(
        &mut self,
        cost: impl Fn(f32, f32, f32) -> f32,
        enough: impl Fn(f64, usize) -> bool,
    ) {
        let (max, sum) = self.normalizer();
        let cost = |logit: f32| cost(logit, max, sum.ln());
        let weigh = |id: u32, logit: f32| Weighted { cost: cost(logit), id, p: math::exp(logit - max) / sum };
        self.weighted.clear();
        match self.form {
            Form::Raw => weigh_all(self.raw, weigh, &mut self.weighted),
            Form::Dense => weigh_all(&self.dense, weigh, &mut self.weighted),
            Form::List => self.weighted.extend(self.list.iter().map(|c| weigh(c.id, c.logit))),
        }
        let Some(last) = mass::last_needed(&mut self.weighted, enough) else { return };
        self.retain(|id, logit| {
            let cost = cost(logit);
            cost < last.cost || (cost == last.cost && id <= last.id)
        });
    }

    /// Keeps what `keep` says of (id, logit), in the order it stands; the vocabulary becomes a list.
    fn retain(&mut self, keep: impl Fn(u32, f32) -> bool) {
        let logits = match self.form {
            Form::Raw => self.raw,
            Form::Dense => &self.dense,
            Form::List => return self.list.retain(|c| keep(c.id, c.logit)),
        };
        self.list.clear();
        self.list.extend((0..).zip(logits).filter_map(|(id, &logit)| {
            (logit > f32::NEG_INFINITY && keep(id, logit)).then_some(Candidate { id, logit, p: 0.0 })
        }));
        self.form = Form::List;
        self.sorted = false;
    }
}

fn weigh_all(logits: &[f32], weigh: impl Fn(u32, f32) -> Weighted, out: &mut Vec<Weighted>) {
    let live = (0..).zip(logits).filter(|(_, l)| **l > f32::NEG_INFINITY);
    out.extend(live.map(|(id, &l)| weigh(id, l)));
}
