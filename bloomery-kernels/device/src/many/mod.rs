//! Kernels for any number of rows: rows rounded in memory first, then products in squares on the tensor cores.

pub(crate) mod combine;
pub(crate) mod gemm;
pub(crate) mod round;

#[cfg(target_arch = "nvptx64")]
mod entries {
    crate::simt::bounds!(many_round, 256, 4);
    crate::simt::bounds!(many_products, 256, 2);
    crate::simt::bounds!(many_combine, 256, 4);

    /// See [`round`](super::round::round).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn many_round(args: crate::abi::many::RoundArgs) {
        super::round::round(args);
    }

    /// See [`products`](super::gemm::products).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn many_products(args: crate::abi::many::ProductArgs) {
        super::gemm::products(args);
    }

    /// See [`combine`](super::combine::combine).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn many_combine(args: crate::abi::many::CombineArgs) {
        super::combine::combine(args);
    }
}
