//! The memory plan of a CPU-only placement, as a pure function.

use super::{Context, HostFacts};
use crate::error::{PlanError, Term};
use crate::units::Bytes;

/// Shortest context that [`Context::Auto`] settles for.
const AUTO_FLOOR: usize = 4096;

/// What the size of a plan depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    /// Bytes of the mapped file or files.
    pub(super) file: Bytes,
    /// Vectors kept in f32.
    pub(super) vectors: Bytes,
    /// Keys and values of one position in all layers.
    pub(super) position: Bytes,
    /// Activations of one step.
    pub(super) scratch: Bytes,
    /// Positions the model was trained for.
    pub(super) trained: usize,
    pub(super) sessions: usize,
    /// Contexts are whole pages.
    pub(super) page: usize,
}

/// Positions per session, and the terms that add up to what is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fit {
    pub(super) context: usize,
    pub(super) terms: Vec<Term>,
}

/// Settles the context and adds up the terms; refuses with all of them when they exceed what the host has.
pub(super) fn fit(demand: &Demand, context: Context, host: &HostFacts) -> Result<Fit, PlanError> {
    let context = match context {
        Context::Tokens(n) => n,
        Context::Auto => {
            let fixed = demand.file + demand.vectors + demand.scratch;
            let per_position = demand.position.0.saturating_mul(demand.sessions as u64).max(1);
            let fitting = host.available.saturating_sub(fixed).0 / per_position;
            let fitting = usize::try_from(fitting).unwrap_or(usize::MAX) / demand.page * demand.page;
            demand.trained.min(fitting.max(AUTO_FLOOR))
        }
    };
    let positions = (context.div_ceil(demand.page) as u64).saturating_mul(demand.page as u64);
    let cache = demand.position.0.saturating_mul(demand.sessions as u64).saturating_mul(positions);
    let cache = Bytes(cache);
    let term = |what, bytes, detail| Term { what, bytes, detail };
    let terms = vec![
        term("file", demand.file, "mapped".to_owned()),
        term("norms and biases", demand.vectors, String::new()),
        term("KV cache", cache, format!("{} x {context} positions of {}", demand.sessions, demand.position)),
        term("scratch", demand.scratch, String::new()),
    ];
    let need: Bytes = terms.iter().map(|term| term.bytes).sum();
    if need > host.available {
        let device = "host memory".to_owned();
        return Err(PlanError::DoesNotFit { device, need, free: host.available, terms });
    }
    Ok(Fit { context, terms })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn host(gib: u64) -> HostFacts {
        HostFacts { available: Bytes(gib * GIB), cores: NonZeroUsize::MIN }
    }

    fn demand() -> Demand {
        Demand {
            file: Bytes(18 * GIB),
            vectors: Bytes(1 << 20),
            position: Bytes(96 << 10),
            scratch: Bytes(64 << 20),
            trained: 262_144,
            sessions: 1,
            page: 64,
        }
    }

    #[test]
    fn auto_takes_the_trained_context_or_what_fits() {
        assert_eq!(fit(&demand(), Context::Auto, &host(64)).unwrap().context, 262_144);
        let fitted = fit(&demand(), Context::Auto, &host(24)).unwrap();
        assert!(
            fitted.context > 60_000 && fitted.context < 66_000 && fitted.context.is_multiple_of(64),
            "{fitted:?}"
        );
        let two = Demand { sessions: 2, ..demand() };
        let halved = fit(&two, Context::Auto, &host(24)).unwrap().context;
        assert!(halved.abs_diff(fitted.context / 2) <= 64, "{halved}");
    }

    #[test]
    fn a_short_model_is_not_stretched_to_the_floor() {
        let short = Demand { trained: 1024, ..demand() };
        assert_eq!(fit(&short, Context::Auto, &host(24)).unwrap().context, 1024);
    }

    #[test]
    fn refusals_name_every_term_and_add_up() {
        let error = fit(&demand(), Context::Tokens(262_144), &host(24)).unwrap_err();
        let PlanError::DoesNotFit { need, free, terms, .. } = &error else { panic!("{error}") };
        assert_eq!(terms.iter().map(|term| term.bytes).sum::<Bytes>(), *need);
        assert_eq!(*free, Bytes(24 * GIB));
        let text = error.to_string();
        for word in ["file", "KV cache", "scratch", "24.00 GiB", "262144"] {
            assert!(text.contains(word), "{text}");
        }
        assert!(fit(&demand(), Context::Auto, &host(17)).is_err());
        assert!(fit(&demand(), Context::Tokens(usize::MAX), &host(24)).is_err(), "no overflow");
    }
}
