//! Experts of rows.
//!
//! A logit is the same whatever other rows there are, however many, and whichever kernel computes it:
//!
//! ```text
//! chain (s, j)  columns 64 s + 4 j .. + 4, then 64 s + 32 + 4 j .. + 4 of (x * gain) * weight, fused, from 0 on
//! slab s        ((c0 + c1) + (c2 + c3)) + ((c4 + c5) + (c6 + c7)) of its eight chains
//! logit         (slab 0 + slab 1 + ...) * 1 / sqrt(square / cols + eps)
//! ```
//!
//! where `square`, the sum of the squares of `x`, has the same chains, slabs and order. Of rows that are taken as they are there is
//! neither gain nor square: both factors are 1. A lane takes a chain of each row, so that neighbouring lanes read neighbouring 16
//! bytes; in the kernel for many rows a thread takes all chains of its products in turn.

pub(crate) mod choose;
pub(crate) mod few;
pub(crate) mod group;
mod keys;
pub(crate) mod many;
mod scored;
mod sums;

#[cfg(target_arch = "nvptx64")]
mod entries {
    #[cfg(feature = "route")]
    use super::super::abi::route::GroupArgs;
    use super::super::abi::route::RouteArgs;

    macro_rules! entries {
        ($feature:literal:
            $($(#[$doc:meta])* $name:ident($args:ty) = $kernel:expr, $threads:literal, $blocks:literal;)*
        ) => {
            $(
                #[cfg(feature = $feature)]
                crate::simt::bounds!($name, $threads, $blocks);

                $(#[$doc])*
                #[cfg(feature = $feature)]
                #[unsafe(no_mangle)]
                pub unsafe extern "ptx-kernel" fn $name(args: $args) {
                    $kernel(args);
                }
            )*
        };
    }

    entries! { "route":
        /// One expert a block.
        route_1(RouteArgs) = super::few::route::<1, false>, 512, 1;
        /// Two.
        route_2(RouteArgs) = super::few::route::<2, false>, 512, 1;
        /// Four.
        route_4(RouteArgs) = super::few::route::<4, false>, 512, 1;
        /// The first of three launches for many rows.
        route_norm(RouteArgs) = super::many::route_norm, 512, 2;
        /// The second, in tiles of 32 by 32.
        route_logits_2(RouteArgs) = super::many::route_logits::<2, false, false>, 256, 2;
        /// In tiles of 64 by 64.
        route_logits_4(RouteArgs) = super::many::route_logits::<4, false, false>, 256, 1;
        /// Products by themselves, after the norm, in tiles of 32 by 32.
        route_plain_2(RouteArgs) = super::many::route_logits::<2, true, false>, 256, 2;
        /// In tiles of 64 by 64.
        route_plain_4(RouteArgs) = super::many::route_logits::<4, true, false>, 256, 1;
        /// The third.
        route_choose(RouteArgs) = super::choose::route_choose, 256, 2;
        /// Pairs of each expert in every block of pairs.
        group_count(GroupArgs) = super::group::group_count, 512, 1;
        /// Pairs in the order of their experts.
        group_place(GroupArgs) = super::group::group_place, 512, 1;
    }

    entries! { "route_raw":
        /// One expert a block, of rows as they are.
        route_raw_1(RouteArgs) = super::few::route::<1, true>, 512, 1;
        /// Two.
        route_raw_2(RouteArgs) = super::few::route::<2, true>, 512, 1;
        /// Four.
        route_raw_4(RouteArgs) = super::few::route::<4, true>, 512, 1;
        /// Their product with a gate.
        route_gate(RouteArgs) = super::many::route_gate, 512, 2;
        /// Tiles of 32 by 32 of rows as they are.
        route_raw_logits_2(RouteArgs) = super::many::route_logits::<2, false, true>, 256, 2;
        /// Tiles of 64 by 64.
        route_raw_logits_4(RouteArgs) = super::many::route_logits::<4, false, true>, 256, 1;
    }
}
