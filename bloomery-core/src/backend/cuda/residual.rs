//! Ops of residual streams that follow each other and are few kernels together.

use bloomery_kernels::cuda::CudaError;

use super::frame::Frame;
use super::ops::streams::Write;
use super::ops::{hyper, streams};
use super::walk::Stage;
use crate::program::{Buffer, Op};

/// What some ops do with streams.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Residual<'a> {
    /// Streams behind gates.
    Gated { write: Option<(Buffer, usize, Write)>, read: Option<streams::Reading<'a>> },
    /// Hyper-connections.
    Hyper { write: Option<(Buffer, Write)>, read: Option<hyper::Reading<'a>> },
}

impl<'a> Residual<'a> {
    /// What `ops` begin with, and how many of them it is.
    pub(super) fn of(ops: impl Iterator<Item = &'a Op> + Clone) -> Option<(Self, usize)> {
        let (first, rest) = (ops.clone().next()?, ops.clone().skip(1));
        Some(match *first {
            Op::Inject { y, weights, streams, x } => {
                let read = streams::Reading::of(rest).filter(|read| read.reads(x));
                let more = if read.is_some() { streams::Reading::OPS } else { 0 };
                (Self::Gated { write: Some((x, streams, Write { y, weights })), read }, 1 + more)
            }
            Op::StreamNorm { .. } => {
                let read = streams::Reading::of(ops)?;
                (Self::Gated { write: None, read: Some(read) }, streams::Reading::OPS)
            }
            Op::HyperWrite { y, weights, x, .. } => {
                let read = hyper::Reading::of(rest).filter(|read| read.reads(x));
                let more = if read.is_some() { hyper::Reading::OPS } else { 0 };
                (Self::Hyper { write: Some((x, Write { y, weights })), read }, 1 + more)
            }
            Op::Project { .. } => {
                let read = hyper::Reading::of(ops)?;
                (Self::Hyper { write: None, read: Some(read) }, hyper::Reading::OPS)
            }
            _ => return None,
        })
    }

    /// Its kernels.
    pub(super) fn stages(self, frame: &Frame<'_>) -> Result<Vec<Stage>, CudaError> {
        let lone = |launches| vec![Stage::new("streams", launches)];
        match self {
            Self::Gated { write, read: Some(read) } => read.stages(frame, write.map(|(_, _, write)| write)),
            Self::Gated { write: Some((x, count, write)), read: None } => {
                Ok(lone(streams::write(frame, x, count, write)?))
            }
            Self::Hyper { write, read: Some(read) } => read.stages(frame, write.map(|(_, write)| write)),
            Self::Hyper { write: Some((x, write)), read: None } => Ok(lone(hyper::write(frame, x, write)?)),
            Self::Gated { .. } | Self::Hyper { .. } => Ok(Vec::new()),
        }
    }

    /// Why there are no kernels for it, if there are none.
    pub(super) fn unsupported(self) -> Option<String> {
        match self {
            Self::Gated { write, read } => write
                .and_then(|(x, count, _)| streams::odd(count, x.cols / count.max(1)))
                .or_else(|| read.and_then(streams::Reading::unsupported)),
            Self::Hyper { write, read } => write
                .and_then(|(x, write)| hyper::odd(x, write.y))
                .or_else(|| read.and_then(hyper::Reading::unsupported)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::Sizes;
    use crate::backend::cuda::ops::ngrams;
    use crate::engine::Engine;
    use crate::plan::{Placement, Plan};

    fn path(name: &str) -> std::path::PathBuf {
        format!("{}/tests/data/models/{name}.gguf", env!("CARGO_MANIFEST_DIR")).into()
    }

    fn plan(name: &str) -> Plan {
        Engine::builder(path(name)).placement(Placement::Cpu).plan().unwrap()
    }

    /// How many readings there are, writes with one, writes without, and ops of readings that are in none.
    fn count(ops: &[&Op]) -> [usize; 4] {
        let (mut found, mut at) = ([0; 4], 0);
        while at < ops.len() {
            let Some((residual, count)) = Residual::of(ops[at..].iter().copied()) else {
                found[3] += usize::from(ops[at].is_of_reading());
                at += 1;
                continue;
            };
            assert_eq!(residual.unsupported(), None);
            let (writes, reads) = match residual {
                Residual::Gated { write, read } => (write.is_some(), read.is_some()),
                Residual::Hyper { write, read } => (write.is_some(), read.is_some()),
            };
            found[0] += usize::from(reads);
            found[1] += usize::from(writes && reads);
            found[2] += usize::from(writes && !reads);
            at += count;
        }
        found
    }

    #[test]
    fn every_reading_is_found_and_most_follow_a_write() {
        // What the head reads, and the writes that nothing reads at once: rows are taken in the last layer, n-grams come in between, and
        // what follows all layers is no reading everywhere.
        for (name, head, alone) in [
            ("qwen4exp-k-q4_k_m", 1, 2),
            ("glm5next-k-q4_k_m", 0, 2),
            ("deepseek4-k-q4_k_m", 1, 1),
            ("deepseek41-k-q4_k", 0, 4),
            ("deepseek41-small-bf16", 0, 4),
        ] {
            let plan = plan(name);
            let trunk = plan.program.trunk();
            let ops: Vec<&Op> = trunk.ops.iter().collect();
            let parts =
                ops.iter().filter(|op| matches!(op, Op::Inject { .. } | Op::HyperWrite { .. })).count();
            let [reads, both, writes, left] = count(&ops);
            assert_eq!(left, 0, "{name}");
            assert_eq!(both + writes, parts, "{name}");
            assert_eq!(reads, parts + head, "{name}");
            assert!(parts > 4 && writes <= alone, "{name}: {writes} of {parts} writes alone");
        }
    }

    #[test]
    fn streams_of_a_block_are_read_alike() {
        // Two parts of each layer, and a head.
        let cases = [
            ("qwen4exp-small-bf16", "mtp-qwen4exp-bf16", 3),
            ("deepseek41-small-bf16", "dspark-deepseek41-bf16", 4),
        ];
        for (model, block, parts) in cases {
            let builder = Engine::builder(path(model)).block(path(block));
            let plan = builder.placement(Placement::Cpu).plan().unwrap();
            let draft = plan.program.draft.as_ref().unwrap();
            let [reads, .., left] = count(&draft.ops.iter().collect::<Vec<_>>());
            assert_eq!((reads, left), (parts, 0), "{model}");
            let step: Vec<&Op> = plan.program.step_ops().collect();
            assert_eq!(count(&step)[3], 0, "{model}");
        }
    }

    #[test]
    fn other_orders_are_no_reading() {
        for name in ["qwen4exp-small-bf16", "glm5next-small-bf16", "deepseek41-small-bf16"] {
            let plan = plan(name);
            let ops: Vec<&Op> = plan.program.ops.iter().collect();
            let at = ops.iter().position(|op| op.is_of_reading()).unwrap();
            let at = if matches!(ops[at], Op::HyperRead { .. }) { at - 1 } else { at };
            let (_, len) = Residual::of(ops[at..].iter().copied()).unwrap();
            for gone in at..at + len {
                let fewer: Vec<&Op> = (at..at + len).filter(|&i| i != gone).map(|i| ops[i]).collect();
                assert_eq!(Residual::of(fewer.into_iter()), None, "{name} without op {gone}");
            }
        }
    }

    #[test]
    fn tables_of_ngrams_stay_in_the_file() {
        for (name, layers) in [("qwen4exp-k-q4_k_m", 1), ("deepseek41-k-q4_k", 2)] {
            let plan = plan(name);
            assert_eq!(plan.program.ngrams.len(), layers, "{name}");
            let matrices = plan.weights.packed_matrices(&plan.gguf).count();
            let sizes = Sizes::of(&plan.program, &plan.weights, plan.kv, (9, 2));
            let mut bytes = 0;
            for layer in &plan.program.ngrams {
                let table = super::super::load::uses(&plan.program, matrices)[layer.table.index()];
                assert!(!table.product && !table.table);
                assert_eq!(ngrams::unsupported(layer), None);
                assert_eq!(sizes.found_rows, 9 * layer.hash.heads.len());
                bytes += sizes.found_rows * ngrams::row_bytes(layer, &plan.weights);
            }
            assert_eq!(sizes.found_bytes, bytes);
        }
    }
}
