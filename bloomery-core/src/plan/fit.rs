//! The memory plan of one device, as a pure function.

use super::Context;
use crate::error::{PlanError, Term};
use crate::units::Bytes;

/// What the size of a plan depends on.
#[derive(Debug, Clone)]
pub(super) struct Demand {
    /// What is needed whatever the context, listed before the caches.
    pub(super) before: Vec<Term>,
    /// The same, listed after them.
    pub(super) after: Vec<Term>,
    /// Keys and values of one position in all layers.
    pub(super) position: Bytes,
    /// Positions the model was trained for.
    pub(super) trained: usize,
    pub(super) sessions: usize,
    /// Positions of all sessions together, if they share less, or have more, than a context each.
    pub(super) pool: Option<usize>,
    /// Contexts are whole pages.
    pub(super) page: usize,
    /// Shortest context that [`Context::Auto`] settles for.
    pub(super) floor: usize,
    /// [`Context::Auto`] takes one part in so many of what else is free.
    pub(super) share: u64,
}

/// What has the memory.
#[derive(Debug, Clone)]
pub(super) struct Room {
    /// For people.
    pub(super) device: String,
    pub(super) free: Bytes,
    /// Other programs that use it.
    pub(super) holders: Vec<String>,
}

/// Positions per session, pages of all, and the terms that add up to what is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fit {
    pub(super) context: usize,
    pub(super) pages: usize,
    pub(super) terms: Vec<Term>,
}

impl Room {
    /// Refuses terms that exceed it.
    pub(super) fn check(&self, terms: &[Term]) -> Result<(), PlanError> {
        let need: Bytes = terms.iter().map(|term| term.bytes).sum();
        if need <= self.free {
            return Ok(());
        }
        let Self { device, free, holders } = self.clone();
        Err(PlanError::DoesNotFit { device, need, free, terms: terms.to_vec(), holders, tried: Vec::new() })
    }
}

/// Settles the context and adds up the terms; refuses with all of them when they exceed what the device has.
pub(super) fn fit(demand: Demand, context: Context, room: &Room) -> Result<Fit, PlanError> {
    let context = match (context, demand.pool) {
        (Context::Tokens(n), _) => n,
        (Context::Trained, _) => demand.trained,
        // A session cannot have more than there is.
        (Context::Auto, Some(pool)) => demand.trained.min(pool),
        (Context::Auto, None) => {
            let fixed = demand.before.iter().chain(&demand.after).map(|term| term.bytes).sum();
            let per_position = demand.position.0.saturating_mul(demand.sessions as u64).max(1);
            let fitting = room.free.saturating_sub(fixed).0 / demand.share / per_position;
            let fitting = usize::try_from(fitting).unwrap_or(usize::MAX) / demand.page * demand.page;
            demand.trained.min(fitting.max(demand.floor))
        }
    };
    let one = context.div_ceil(demand.page);
    let (pages, detail) = match demand.pool {
        None => {
            let detail = format!("{} x {context} positions of {}", demand.sessions, demand.position);
            (one.saturating_mul(demand.sessions), detail)
        }
        Some(pool) => {
            let pages = one.max(pool.div_ceil(demand.page));
            let positions = pages.saturating_mul(demand.page);
            let sharing = format!("{} of up to {context}", demand.sessions);
            (pages, format!("{positions} positions of {} for {sharing}", demand.position))
        }
    };
    let cache = (pages as u64).saturating_mul(demand.page as u64).saturating_mul(demand.position.0);
    let mut terms = demand.before;
    terms.push(Term { what: "KV cache", bytes: Bytes(cache), detail });
    terms.extend(demand.after);
    room.check(&terms)?;
    Ok(Fit { context, pages, terms })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn host(gib: u64) -> Room {
        Room { device: "host memory".to_owned(), free: Bytes(gib * GIB), holders: Vec::new() }
    }

    fn term(what: &'static str, bytes: u64) -> Term {
        Term { what, bytes: Bytes(bytes), detail: String::new() }
    }

    fn demand() -> Demand {
        Demand {
            before: vec![term("file", 18 * GIB), term("norms and biases", 1 << 20)],
            after: vec![term("scratch", 64 << 20)],
            position: Bytes(96 << 10),
            trained: 262_144,
            sessions: 1,
            pool: None,
            page: 64,
            floor: 4096,
            share: 1,
        }
    }

    #[test]
    fn auto_takes_the_trained_context_or_what_fits() {
        assert_eq!(fit(demand(), Context::Auto, &host(64)).unwrap().context, 262_144);
        let fitted = fit(demand(), Context::Auto, &host(24)).unwrap();
        assert!(
            fitted.context > 60_000 && fitted.context < 66_000 && fitted.context.is_multiple_of(64),
            "{fitted:?}"
        );
        let two = Demand { sessions: 2, ..demand() };
        let halved = fit(two, Context::Auto, &host(24)).unwrap().context;
        assert!(halved.abs_diff(fitted.context / 2) <= 64, "{halved}");
    }

    #[test]
    fn a_pool_is_shared_by_all_sessions_and_never_shorter_than_one() {
        let demand = Demand { sessions: 4, ..demand() };
        let fit_of = |pool, context| fit(Demand { pool, ..demand.clone() }, context, &host(64)).unwrap();
        assert_eq!(fit_of(None, Context::Tokens(1000)).pages, 4 * 16);
        assert_eq!(fit_of(Some(2000), Context::Tokens(1000)).pages, 32);
        assert_eq!(fit_of(Some(1), Context::Tokens(1000)).pages, 16);
        let auto = fit_of(Some(2000), Context::Auto);
        assert_eq!((auto.context, auto.pages), (2000, 32));
        assert_eq!(auto.terms[2].bytes, Bytes(32 * 64 * (96 << 10)));
        assert_eq!(auto.terms[2].detail, "2048 positions of 96.00 KiB for 4 of up to 2000");
    }

    #[test]
    fn what_comes_after_the_caches_counts() {
        let mut parking = demand();
        parking.after.push(term("parked prefixes", 4 * GIB));
        let Fit { context, terms, .. } = fit(parking.clone(), Context::Auto, &host(28)).unwrap();
        assert!(terms.iter().any(|term| term.what == "parked prefixes" && term.bytes == Bytes(4 * GIB)));
        assert_eq!(context, fit(demand(), Context::Auto, &host(24)).unwrap().context);
        assert!(fit(parking, Context::Tokens(64), &host(22)).is_err());
    }

    #[test]
    fn the_floor_and_the_share_are_the_plans() {
        let quarter = fit(Demand { share: 4, ..demand() }, Context::Auto, &host(24)).unwrap().context;
        assert!(quarter > 15_000 && quarter < 16_500, "{quarter}");
        let tight = Demand { floor: 60_000, share: 4, ..demand() };
        assert_eq!(fit(tight.clone(), Context::Auto, &host(24)).unwrap().context, 60_000);
        assert!(fit(tight, Context::Auto, &host(20)).is_err());
        assert!(fit(demand(), Context::Trained, &host(24)).is_err());
        assert_eq!(fit(demand(), Context::Trained, &host(64)).unwrap().context, 262_144);
    }

    #[test]
    fn a_short_model_is_not_stretched_to_the_floor() {
        let short = Demand { trained: 1024, ..demand() };
        assert_eq!(fit(short, Context::Auto, &host(24)).unwrap().context, 1024);
    }

    #[test]
    fn refusals_name_every_term_and_add_up() {
        let error = fit(demand(), Context::Tokens(262_144), &host(24)).unwrap_err();
        let PlanError::DoesNotFit { need, free, terms, .. } = &error else { panic!("{error}") };
        assert_eq!(terms.iter().map(|term| term.bytes).sum::<Bytes>(), *need);
        assert_eq!(*free, Bytes(24 * GIB));
        let text = error.to_string();
        for word in ["file", "KV cache", "scratch", "24.00 GiB", "262144"] {
            assert!(text.contains(word), "{text}");
        }
        let held = Room { holders: vec!["pid 7 (python3) 9.00 GiB".to_owned()], ..host(17) };
        let text = fit(demand(), Context::Auto, &held).unwrap_err().to_string();
        assert!(text.ends_with("; held by pid 7 (python3) 9.00 GiB"), "{text}");
        assert!(fit(demand(), Context::Tokens(usize::MAX), &host(24)).is_err(), "no overflow");
    }
}
