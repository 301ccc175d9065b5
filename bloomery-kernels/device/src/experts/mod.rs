//! Feed-forward blocks of chosen experts in two launches; a dense layer is one expert.
//!
//! Every expert's weights are read once for all tokens that chose it. A token's sum runs over its slots in order, so that it
//! does not depend on the other tokens.
//!
//! A kernel is made for `T` tokens: 1; 4, in groups of up to 4 (an expert that more tokens chose is several groups); or 8,
//! all in one group.

pub(crate) mod down;
pub(crate) mod gate_up;

use super::abi::routes::Routes;
use super::groups::{Asked, Groups};

/// The groups' table of a kernel made for `T` tokens.
///
/// # Safety
/// As [`Groups::new`], of at most [`PAIRS`](super::abi::routes::PAIRS) pairs; with `T` 1 one token of at most 32.
#[inline(always)]
unsafe fn table<const T: usize>(asked: Asked, routes: &Routes, tokens: u32, at: u32) -> Groups {
    let groups = Groups::new(asked, routes, tokens, at);
    if T == 1 { groups.of_one(asked) } else { groups.of_several(asked, T as u32) }
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    macro_rules! entries {
        ($feature:literal, $class:ident: $($gate_up:ident $down:ident $tokens:literal $threads:literal $blocks:literal,)*) => {$(
            #[cfg(feature = $feature)]
            crate::simt::bounds!($gate_up, $threads, $blocks);
            #[cfg(feature = $feature)]
            crate::simt::bounds!($down, $threads, $blocks);

            /// See [`gate_up`](super::gate_up::gate_up).
            #[cfg(feature = $feature)]
            #[unsafe(no_mangle)]
            pub unsafe extern "ptx-kernel" fn $gate_up(args: crate::abi::experts::GateUpArgs) {
                super::gate_up::gate_up::<crate::class::$class, $tokens>(args);
            }

            /// See [`down`](super::down::down).
            #[cfg(feature = $feature)]
            #[unsafe(no_mangle)]
            pub unsafe extern "ptx-kernel" fn $down(args: crate::abi::experts::DownArgs) {
                super::down::down::<crate::class::$class, $tokens>(args);
            }
        )*};
    }

    entries! {
        "experts_float", Float:
        gate_up_float_1 down_float_1 1 256 2, gate_up_float_4 down_float_4 4 256 1, gate_up_float_8 down_float_8 8 256 1,
    }
}
