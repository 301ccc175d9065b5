//! Norm and gate of a head of the result.

use super::super::abi::delta::DeltaArgs;
use super::super::math::{sigmoid, silu};
use super::super::simt::{
    await_predecessors, block, divide, lane, ld_global_f32x4, release_successor, sqrt, st_global_f32x4, warp,
    warps,
};
use super::convolve::warp_dot;

/// Four values of a head's row for each lane.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// Byte of them in the result and in `z`.
    at: u64,
    exist: bool,
}

impl Head {
    /// Head `head` of row `row`.
    #[inline(always)]
    pub(super) fn new(args: &DeltaArgs, row: u32, head: u32) -> Self {
        let first =
            (u64::from(row) * u64::from(args.value_heads) + u64::from(head)) * u64::from(args.value_dim);
        Self { at: 4 * first + 16 * u64::from(lane()), exist: 4 * lane() < args.value_dim }
    }

    /// What the norm's result is multiplied by: the gain and the gate.
    ///
    /// # Safety
    /// There is such a head; `z` has been written.
    #[inline(always)]
    pub(super) unsafe fn factors(self, args: &DeltaArgs) -> [f32; 4] {
        let mut out = [0.0; 4];
        if self.exist {
            let (z, gain) =
                (ld_global_f32x4(args.z + self.at), ld_global_f32x4(args.gain + 16 * u64::from(lane())));
            let mut i = 0;
            while i < 4 {
                out[i] = gain[i] * if args.sigmoid != 0 { sigmoid(z[i]) } else { silu(z[i]) };
                i += 1;
            }
        }
        out
    }

    /// Writes the result of which `o` is what the delta rule gave.
    ///
    /// # Safety
    /// Every lane of the warp gets here; values that do not exist are 0.
    #[inline(always)]
    pub(super) unsafe fn finish(self, args: &DeltaArgs, o: [f32; 4], factors: [f32; 4]) {
        let inverse = 1.0 / sqrt(warp_dot(o, o) / args.value_dim as f32 + args.eps);
        let (mut out, mut i) = ([0.0; 4], 0);
        while i < 4 {
            out[i] = o[i] * inverse * factors[i];
            i += 1;
        }
        if self.exist {
            st_global_f32x4(args.out + self.at, out);
        }
    }
}

/// Of what the scan left in `out`, in place: a warp for each head of a row.
///
/// # Safety
/// The contract of `Delta`; warps for all of them.
#[inline(always)]
pub(crate) unsafe fn finish(args: DeltaArgs) {
    await_predecessors();
    release_successor();
    let (row, head) = divide(block() * warps() + warp(), args.value_heads);
    if row >= args.rows {
        return;
    }
    let of = Head::new(&args, row, head);
    let o = if of.exist { ld_global_f32x4(args.out + of.at) } else { [0.0; 4] };
    of.finish(&args, o, of.factors(&args));
}
