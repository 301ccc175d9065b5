//! Residual streams: several rows of the model's width for each token.
//!
//! Gated streams: [`stream_norm`](gated::stream_norm) gives streams what a part returned and normalises them for the next, in one pass. What is
//! normalised is divided by the number of streams there, since everything that reads it divides by that. Hyper-connections:
//! [`hyper_pass`](hyper::hyper_pass) does the same and begins the products with all streams, column by column;
//! [`hyper_read`](hyper::hyper_read) ends them, makes the weights and reads.

pub(crate) mod gated;
pub(crate) mod hyper;

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::super::abi::streams::{HyperArgs, StreamMeanArgs, StreamNormArgs};

    crate::simt::bounds!(stream_norm, 512, 1);
    crate::simt::bounds!(gated_mean, 64, 16);
    crate::simt::bounds!(stream_mean, 64, 16);
    crate::simt::bounds!(hyper_pass, 64, 5);
    crate::simt::bounds!(hyper_read, 256, 2);

    /// See [`stream_norm`](super::gated::stream_norm).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn stream_norm(args: StreamNormArgs) {
        super::gated::stream_norm(args);
    }

    /// With gates.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn gated_mean(args: StreamMeanArgs) {
        super::gated::mean::<true>(args);
    }

    /// Without.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn stream_mean(args: StreamMeanArgs) {
        super::gated::mean::<false>(args);
    }

    /// See [`hyper_pass`](super::hyper::hyper_pass).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn hyper_pass(args: HyperArgs) {
        super::hyper::hyper_pass(args);
    }

    /// See [`hyper_read`](super::hyper::hyper_read).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn hyper_read(args: HyperArgs) {
        super::hyper::hyper_read(args);
    }
}
