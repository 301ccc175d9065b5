//! Products of many rows with weights of floats: rows cut in two in memory first, then products in squares on the tensor cores.

pub(crate) mod gemm;
pub(crate) mod operands;
pub(crate) mod split;

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::gemm::products;
    use super::operands::{Bfloat, Half, Packed, Single};
    use crate::abi::many_float::{ProductArgs, SplitArgs};

    crate::simt::bounds!(many_float_split, 256, 4);

    /// See [`split`](super::split::split).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn many_float_split(args: SplitArgs) {
        super::split::split(args);
    }

    macro_rules! entries {
        ($($name:ident $threads:literal $blocks:literal: $kind:ident, $rows:literal, $across:literal, $pieces:literal;)*) => {$(
            crate::simt::bounds!($name, $threads, $blocks);

            /// See [`products`].
            #[unsafe(no_mangle)]
            pub unsafe extern "ptx-kernel" fn $name(args: ProductArgs) {
                products::<$kind, $rows, $across, $pieces>(args);
            }
        )*};
    }

    // Blocks of 64 and of 128 rows of both.
    entries! {
        many_half_64 128 4: Half, 2, 2, 1;
        many_half_128 256 1: Half, 4, 4, 2;
        many_bfloat_64 128 4: Bfloat, 2, 2, 1;
        many_bfloat_128 256 1: Bfloat, 4, 4, 2;
        many_single_64 128 4: Single, 2, 2, 1;
        many_heads_64 128 4: Packed, 2, 2, 1;
        many_heads_128 256 1: Packed, 4, 4, 2;
    }
}
