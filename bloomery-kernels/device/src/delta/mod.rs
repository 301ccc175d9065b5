//! The gated delta net between its projections: convolution, delta rule, norm and gate, for rows of several sequences.
//!
//! ```text
//! c = silu(conv(ring, u));  q = c_q / sqrt(|c_q|^2 + 1e-6) / sqrt(dim);  k = c_k / sqrt(|c_k|^2 + 1e-6);  v = c_v
//! d = beta (v - e^g S k);  o = e^g S q + (k q) d;  S = e^g S + d k';  out = rms(o) * gain * silu(z)
//! ```
//!
//! Many rows are three kernels: [`convolve`](convolve::convolve) for q, k, v and the gates of all rows, [`scan`](scan::scan), whose
//! blocks keep 32 rows of a head's S in registers and go through the rows of a sequence, and [`finish`](finish::finish). Few rows are
//! one, [`few`](few::few), with a block for each head of a sequence. Both use the same functions in the same order, so that a row's
//! bits tell neither which kernels it met nor where its prompt was cut.
//!
//! Two rows of S are on eight lanes each, 16 keys a lane. So a row's sums are three shuffles deep, those with k, for
//! which the next row waits, and those with q at once.

pub(crate) mod convolve;
pub(crate) mod few;
pub(crate) mod finish;
mod gates;
mod ring;
pub(crate) mod scan;
mod sequences;
mod slice;

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::super::abi::delta::DeltaArgs;

    crate::simt::bounds!(delta_convolve, 256, 2);
    crate::simt::bounds!(delta_scan, 128, 3);
    crate::simt::bounds!(delta_finish, 256, 4);
    crate::simt::bounds!(delta_few, 512, 1);

    /// The first of three kernels for many rows.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn delta_convolve(args: DeltaArgs) {
        super::convolve::convolve(args);
    }

    /// The second.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn delta_scan(args: DeltaArgs) {
        super::scan::scan(args);
    }

    /// The third.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn delta_finish(args: DeltaArgs) {
        super::finish::finish(args);
    }

    /// All of it for few rows.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn delta_few(args: DeltaArgs) {
        super::few::few(args);
    }
}
