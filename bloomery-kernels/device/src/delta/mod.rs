//! The gated delta net between its projections: convolution, delta rule, norm and gate, for rows of several sequences.
//!
//! ```text
//! c = silu(conv(ring, u));  q = c_q / sqrt(|c_q|^2 + 1e-6) / sqrt(dim);  k = c_k / sqrt(|c_k|^2 + 1e-6);  v = c_v
//! d = beta (v - e^g S k);  o = e^g S q + (k q) d;  S = e^g S + d k';  out = rms(o) * gain * g(z), g SiLU or sigmoid
//! ```
//!
//! Many rows are three kernels: [`convolve`](convolve::convolve) for q, k, v and the gates of all rows, [`scan`](scan::scan), whose
//! blocks keep 32 rows of a head's S in registers and go through the rows of a sequence, and [`finish`](finish::finish). Few rows are
//! one, [`few`](few::few), with a block for each head of a sequence. Both use the same functions in the same order, so that a row's
//! bits tell neither which kernels it met nor where its prompt was cut.
//!
//! Where channels of keys decay by themselves (`CHANNELS`), `e^g` is a vector, `g = bound sigmoid(-a (alpha + dt))`, that S is multiplied
//! with before its products; q, k and v, and the weights of their convolutions, are in memory of their own; and what multiplies the
//! results is a sigmoid of z:
//!
//! ```text
//! P = e^g S;  d = beta (v - P k);  o = P q + (k q) d;  S = P + d k';  out = rms(o) * gain * sigmoid(z)
//! ```
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

    macro_rules! entries {
        ($feature:literal: $($(#[$doc:meta])* $name:ident = $kernel:expr, $threads:literal, $blocks:literal;)*) => {
            $(
                #[cfg(feature = $feature)]
                crate::simt::bounds!($name, $threads, $blocks);

                $(#[$doc])*
                #[cfg(feature = $feature)]
                #[unsafe(no_mangle)]
                pub unsafe extern "ptx-kernel" fn $name(args: DeltaArgs) {
                    $kernel(args);
                }
            )*
        };
    }

    entries! { "delta":
        /// The first of three kernels for many rows.
        delta_convolve = super::convolve::convolve::<false>, 256, 2;
        /// The second.
        delta_scan = super::scan::scan::<false>, 128, 3;
        /// The third.
        delta_finish = super::finish::finish, 256, 4;
        /// All of it for few rows.
        delta_few = super::few::few::<false>, 512, 1;
    }

    entries! { "delta_channels":
        /// Of channels that decay by themselves, the first of three kernels for many rows.
        delta_channels_convolve = super::convolve::convolve::<true>, 128, 3;
        /// The second.
        delta_channels_scan = super::scan::scan::<true>, 128, 3;
        /// The third.
        delta_channels_finish = super::finish::finish, 256, 4;
        /// All of it for few rows.
        delta_channels_few = super::few::few::<true>, 512, 1;
    }
}
