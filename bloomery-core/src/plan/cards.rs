//! What cards this machine has, and what is free on them.

use std::sync::{Arc, OnceLock};

#[cfg(feature = "cuda")]
use bloomery_kernels::cuda::{Device, Holder, holders};

use crate::error::Term;
use crate::units::Bytes;

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
}

impl CardFacts {
    /// A card of this size that nobody uses.
    #[must_use]
    pub fn new(name: &str, total: Bytes) -> Self {
        Self { name: name.to_owned(), total, free: total, overhead: OVERHEAD, holders: Vec::new() }
    }

    /// What a model takes of it beside the caches: before them in a list, and after them. `scratch` is of steps of so many
    /// rows.
    #[cfg_attr(
        not(any(feature = "cuda", test)),
        expect(dead_code, reason = "without kernels nothing is on a card")
    )]
    pub(super) fn terms(&self, weights: Bytes, (scratch, rows): (Bytes, usize)) -> (Vec<Term>, Vec<Term>) {
        let term = |what, bytes, detail: &str| Term { what, bytes, detail: detail.to_owned() };
        // What no plan foresees: a desktop, fragments.
        let margin = Bytes((self.total.0 / 100).max(256 << 20));
        let after = vec![
            term("scratch", scratch, &format!("steps of up to {rows} rows")),
            term("kernels", self.overhead, "with the driver's share"),
            term("margin", margin, ""),
        ];
        (vec![term("weights", weights, "")], after)
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
        let facts = CardFacts { free, holders, ..CardFacts::new(&info.name, Bytes(info.memory)) };
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
    use super::super::Context;
    use super::super::fit::{Demand, Fit, Room, fit};
    use super::*;
    use crate::error::PlanError;

    const GB: u64 = 1_000_000_000;

    /// Qwen3-30B-A3B in Q4_K_M: 18.6 GB, 96 KiB a position.
    fn on(gigabytes: u64) -> Result<Fit, PlanError> {
        let facts = CardFacts::new("a card", Bytes(gigabytes * GB));
        let (before, after) = facts.terms(Bytes(18_600_000_000), (Bytes(400 << 20), 512));
        let demand = Demand {
            before,
            after,
            position: Bytes(96 << 10),
            trained: 262_144,
            sessions: 1,
            pool: None,
            page: 64,
        };
        let room = Room { device: "card 0 (a card)".to_owned(), free: facts.free, holders: Vec::new() };
        fit(demand, Context::Auto, &room)
    }

    #[test]
    fn cards_of_all_sizes_get_the_context_that_they_have_room_for() {
        let text = on(8).unwrap_err().to_string();
        for word in [
            "card 0 (a card)",
            "7.45 GiB available",
            "weights 17.32 GiB",
            "KV cache",
            "scratch 400.00 MiB",
            "kernels 600.00 MiB",
            "margin 256.00 MiB",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
        let small = on(24).unwrap();
        assert!((35_000..42_000).contains(&small.context) && small.context.is_multiple_of(64), "{small:?}");
        assert!(small.terms.iter().map(|term| term.bytes).sum::<Bytes>() <= Bytes(24 * GB));
        assert_eq!((on(80).unwrap().context, on(141).unwrap().context), (262_144, 262_144));
        assert_eq!(on(141).unwrap().terms.last().unwrap().bytes, Bytes(1_410_000_000));
    }

    #[test]
    fn cards_that_do_not_exist_say_why() {
        assert_eq!(Cards::none("no driver").facts(0), Err("no driver".to_owned()));
        let two = Cards::given([CardFacts::new("a", Bytes(GB)), CardFacts::new("b", Bytes(GB))]);
        assert_eq!((two.count(), two.facts(1).unwrap().name.as_str()), (2, "b"));
        assert_eq!(two.facts(2), Err("there are 2, numbered from 0".to_owned()));
        assert_eq!(Cards::given([]).facts(0), Err("there is none".to_owned()));
    }
}
