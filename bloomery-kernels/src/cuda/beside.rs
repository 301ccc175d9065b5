//! Experts and a network that every row goes through beside them.

use super::few::{self, Network, Networks};
use super::{CudaError, DeviceInfo, FeedForward, Launch};
use crate::abi::shape::Class;

/// Adds `network`'s result to `out`, or replaces it, then adds the sum of `experts`: the same bits as the launches of both in that order.
/// For few rows and weights in tiles, and where shared memory has room for both, no more launches than the experts' alone.
#[derive(Debug, Clone)]
pub struct Beside {
    /// Chosen for each row.
    pub experts: FeedForward,
    /// One network, with or without a weight for each row: one slot whose expert is number 0. Of the same rows, outputs and workspace, and
    /// with hidden values of its own.
    pub network: FeedForward,
}

const KERNEL: &str = "a network beside experts";

impl Beside {
    /// Bytes of a workspace for both, given those for each.
    #[must_use]
    pub fn workspace_bytes(experts: usize, network: usize) -> usize {
        experts + network
    }

    /// The kernels, in order, with nothing between.
    ///
    /// # Errors
    /// As [`FeedForward::launches`], and [`CudaError::Contract`] for two that are not of the same rows and outputs.
    pub fn launches(&self, info: &DeviceInfo) -> Result<Vec<Launch>, CudaError> {
        let Self { experts, network } = self;
        let require = |what, found: usize, holds: bool| {
            CudaError::require(KERNEL, what, found as u64, holds, || "the experts'".to_owned())
        };
        require("its rows", network.rows, network.rows == experts.rows)?;
        require("its output", network.out.len(), network.out.address() == experts.out.address())?;
        require("its input", network.x.len(), network.x.address() == experts.x.address())?;
        let [own, other] = [experts, network].map(|op| op.hidden.address());
        let apart =
            own + 4 * experts.hidden.len() as u64 <= other || other + 4 * network.hidden.len() as u64 <= own;
        CudaError::require(KERNEL, "its hidden values", other, apart, || {
            "apart from the experts'".to_owned()
        })?;
        let adds = experts.accumulate && experts.norm.is_none() && network.norm.is_none();
        CudaError::require(KERNEL, "experts that replace, or what is normalised", 1, adds, || {
            "0".to_owned()
        })?;
        CudaError::equal(KERNEL, "its slots", network.used() as u64, 1)?;
        CudaError::equal(KERNEL, "its matrices", network.gate.count() as u64, 1)?;
        require("its columns", network.gate.cols(), network.gate.cols() == experts.gate.cols())?;
        // Each has its own limit.
        let act = network.act().act;
        CudaError::require(KERNEL, "its activation", act.into(), act == experts.act().act, || {
            "the experts'".to_owned()
        })?;
        let (experts_classes, classes) = (experts.check()?, network.check()?);
        let joins = !experts.sorts()
            && !network.sorts()
            && !experts_classes.contains(&Class::Float)
            && !classes.contains(&Class::Float);
        let beside = Some(Network { op: network, classes });
        let networks = Networks { experts: Network { op: experts, classes: experts_classes }, beside };
        if joins && networks.fits(info)? {
            experts.refuse_seats()?;
            return few::feed_forward(networks, info, experts.workspace.as_ref());
        }
        let mut launches = network.launches(info)?;
        launches.extend(experts.launches(info)?);
        Ok(launches)
    }
}
