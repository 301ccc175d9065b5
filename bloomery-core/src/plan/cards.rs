//! What cards this machine has, and what is free on them.

use std::sync::{Arc, OnceLock};

#[cfg(feature = "cuda")]
use bloomery_kernels::cuda::{Device, Holder, holders};

use crate::units::{Bytes, Rate};

/// Of the kernels' code, the driver's own memory and captured graphs.
pub(crate) const OVERHEAD: Bytes = Bytes(600 << 20);

/// A card as the planner sees it. Plans are pure functions of these facts, so tests make them up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardFacts {
    /// The driver's name for it.
    pub name: String,
    /// All of its memory.
    pub total: Bytes,
    /// Memory that nobody uses.
    pub free: Bytes,
    /// What the kernels' code and the driver will take of that.
    pub overhead: Bytes,
    /// Other programs that have memory of it, for people.
    pub holders: Vec<String>,
    /// What kernels read of its memory, if that is known.
    pub read_rate: Option<Rate>,
    /// What copies from host memory reach, if that was measured.
    pub link_rate: Option<Rate>,
}

impl CardFacts {
    /// A card of this size that nobody uses.
    #[must_use]
    pub fn new(name: &str, total: Bytes) -> Self {
        Self {
            name: name.to_owned(),
            total,
            free: total,
            overhead: OVERHEAD,
            holders: Vec::new(),
            read_rate: None,
            link_rate: None,
        }
    }

    /// The same card, of which no more than this may be used.
    #[must_use]
    pub fn within(self, budget: Bytes) -> Self {
        Self { total: self.total.min(budget), free: self.free.min(budget), ..self }
    }

    /// What stays free, for what no plan foresees: a desktop, fragments.
    #[cfg_attr(
        not(any(feature = "cuda", test)),
        expect(dead_code, reason = "without kernels nothing is on a card")
    )]
    pub(super) fn margin(&self) -> Bytes {
        Bytes((self.total.0 / 100).max(256 << 20))
    }
}

/// A card, opened when its facts were read.
#[derive(Debug, Clone)]
pub(crate) struct Card {
    pub(crate) facts: CardFacts,
    #[cfg(feature = "cuda")]
    pub(crate) device: Option<Device>,
}

/// The cards of a machine, numbered from 0. One is looked at when its facts are first asked for, because that takes memory of
/// it and a fraction of a second. Clones share what they have seen.
#[derive(Debug, Clone)]
pub struct Cards {
    cards: Arc<[OnceLock<Result<Card, String>>]>,
    /// Why there is none.
    missing: Arc<str>,
}

impl Cards {
    /// Those of this machine.
    #[must_use]
    pub fn read() -> Self {
        #[cfg(feature = "cuda")]
        match Device::count() {
            Ok(0) => Self::none("the driver knows no card"),
            Ok(count) => Self { cards: (0..count).map(|_| OnceLock::new()).collect(), missing: "".into() },
            Err(error) => Self::none(&error.to_string()),
        }
        #[cfg(not(feature = "cuda"))]
        Self::none("this build has no kernels for cards")
    }

    /// None, for this reason.
    #[must_use]
    pub fn none(why: &str) -> Self {
        Self { cards: Arc::new([]), missing: why.into() }
    }

    /// Cards that may not exist, for plans that are only looked at.
    #[must_use]
    pub fn given(facts: impl IntoIterator<Item = CardFacts>) -> Self {
        let card = |facts| Card {
            facts,
            #[cfg(feature = "cuda")]
            device: None,
        };
        let cards = facts.into_iter().map(|facts| OnceLock::from(Ok(card(facts)))).collect();
        Self { cards, missing: "there is none".into() }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.cards.len()
    }

    /// What card `number` is, or why it cannot be used.
    ///
    /// # Errors
    /// For people: there is no such card, or the driver's words.
    pub fn facts(&self, number: usize) -> Result<CardFacts, String> {
        self.card(number).map(|card| card.facts)
    }

    /// Those that can be used, for people.
    pub(super) fn names(&self) -> Vec<String> {
        let name = |number| {
            let facts = self.facts(number).ok()?;
            Some(format!("CUDA{number} ({}, {})", facts.name, facts.total))
        };
        (0..self.count()).filter_map(name).collect()
    }

    /// The card whose memory no other's is `before`; of equal ones the first.
    pub(super) fn sized(&self, before: impl Fn(Bytes, Bytes) -> bool) -> Result<usize, String> {
        let sizes = (0..self.count()).filter_map(|number| Some((number, self.facts(number).ok()?.total)));
        let best = sizes.reduce(|best, next| if before(next.1, best.1) { next } else { best });
        best.map(|(number, _)| number).ok_or_else(|| self.card(0).err().unwrap_or_default())
    }

    pub(crate) fn card(&self, number: usize) -> Result<Card, String> {
        match self.cards.get(number) {
            Some(cell) => cell.get_or_init(|| open(number)).clone(),
            None if self.cards.is_empty() => Err(self.missing.to_string()),
            None => Err(format!("there are {}, numbered from 0", self.cards.len())),
        }
    }
}

#[cfg(feature = "cuda")]
fn open(number: usize) -> Result<Card, String> {
    let open = || {
        let device = Device::open(number)?;
        let (info, free) = (device.info(), Bytes(device.free_memory()?));
        let holders = holders(&device).iter().filter_map(held).collect();
        // Reads come to nine tenths of what the memory's clock and width promise.
        let read_rate = Some(Rate(info.memory_rate / 10 * 9)).filter(|rate| rate.0 > 0);
        let facts = CardFacts { free, holders, read_rate, ..CardFacts::new(&info.name, Bytes(info.memory)) };
        Ok(Card { facts, device: Some(device) })
    };
    open().map_err(|error: bloomery_kernels::cuda::CudaError| error.to_string())
}

/// Another program's memory, for people.
#[cfg(feature = "cuda")]
fn held(holder: &Holder) -> Option<String> {
    let Holder { pid, bytes, name } = holder;
    let name = name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    let bytes = bytes.map_or_else(String::new, |bytes| format!(" {}", Bytes(bytes)));
    (*pid != std::process::id()).then(|| format!("process {pid}{name}{bytes}"))
}

#[cfg(not(feature = "cuda"))]
fn open(_: usize) -> Result<Card, String> {
    Err("this build has no kernels for cards".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    #[test]
    fn cards_that_do_not_exist_say_why() {
        assert_eq!(Cards::none("no driver").facts(0), Err("no driver".to_owned()));
        let two = Cards::given([CardFacts::new("a", Bytes(GB)), CardFacts::new("b", Bytes(GB))]);
        assert_eq!((two.count(), two.facts(1).unwrap().name.as_str()), (2, "b"));
        assert_eq!(two.facts(2), Err("there are 2, numbered from 0".to_owned()));
        assert_eq!(Cards::given([]).facts(0), Err("there is none".to_owned()));
    }

    #[test]
    fn a_budget_makes_a_smaller_card() {
        let card = CardFacts { free: Bytes(20 * GB), ..CardFacts::new("a", Bytes(100 * GB)) };
        assert_eq!((card.margin(), card.clone().within(Bytes(50 * GB)).free), (Bytes(GB), Bytes(20 * GB)));
        let small = card.within(Bytes(10 * GB));
        assert_eq!(
            (small.free, small.total, small.margin()),
            (Bytes(10 * GB), Bytes(10 * GB), Bytes(256 << 20))
        );
    }
}
