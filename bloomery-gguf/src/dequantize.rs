//! Whole rows of any float format to `f32`.

use crate::{
    Format,
    blocks::{self, BlockNVFP4, f16_to_f32},
};

/// Why a row could not be dequantised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DequantizeError {
    /// The format holds integers, not weights.
    #[error("{format} tensors have no float values")]
    UnsupportedFormat {
        /// The format asked for.
        format: Format,
    },
    /// The bytes are not whole blocks, or not as many values as the output has room for.
    #[error("{bytes} bytes of {format} ({block_bytes} for {block_len} values) do not hold {values} values")]
    Length {
        /// The format asked for.
        format: Format,
        /// Bytes given.
        bytes: usize,
        /// Values asked for.
        values: usize,
        /// Bytes in a block of the format.
        block_bytes: usize,
        /// Values in a block of the format.
        block_len: usize,
    },
    /// A block's scale is not a number of the scale's format.
    #[error("block {block} of a {format} row has an invalid scale")]
    InvalidScale {
        /// The format asked for.
        format: Format,
        /// Index of the block in the bytes given.
        block: usize,
    },
}

/// Writes the values of whole blocks, `out.len()` of them, in file order.
///
/// Bit-exact with the `gguf` package: products left to right, then the subtraction, each rounded to `f32`; no fused
/// multiply-add. F64 is rounded to `f32`. A NVFP4 tensor's separate `*.scale` is not applied.
///
/// # Errors
/// [`DequantizeError::UnsupportedFormat`] for integer formats; [`DequantizeError::Length`] if `bytes` are not exactly
/// the blocks of `out.len()` values; [`DequantizeError::InvalidScale`] for a NVFP4 scale above 0x7F.
pub fn dequantize(format: Format, bytes: &[u8], out: &mut [f32]) -> Result<(), DequantizeError> {
    let (block_len, block_bytes) = (format.block_len(), format.block_bytes());
    let whole = out.len().is_multiple_of(block_len) && bytes.len().is_multiple_of(block_bytes);
    if !whole || bytes.len() / block_bytes != out.len() / block_len {
        let (bytes, values) = (bytes.len(), out.len());
        return Err(DequantizeError::Length { format, bytes, values, block_bytes, block_len });
    }

    macro_rules! blocks {
        ($block:ident) => {{
            const { assert!(size_of::<blocks::$block>() == blocks::$block::BYTES) };
            let (bytes, _) = bytes.as_chunks::<{ blocks::$block::BYTES }>();
            let (out, _) = out.as_chunks_mut::<{ blocks::$block::LEN }>();
            bytes.iter().zip(out).for_each(|(block, out)| blocks::$block::dequantize(block, out));
        }};
    }

    match format {
        Format::F32 => each(bytes, out, f32::from_le_bytes),
        Format::F64 => each(bytes, out, |value| f64::from_le_bytes(value) as f32),
        Format::F16 => each(bytes, out, |value| f16_to_f32(u16::from_le_bytes(value))),
        Format::BF16 => each(bytes, out, |value| blocks::bf16_to_f32(u16::from_le_bytes(value))),
        Format::Q4_0 => blocks!(BlockQ4_0),
        Format::Q4_1 => blocks!(BlockQ4_1),
        Format::Q5_0 => blocks!(BlockQ5_0),
        Format::Q5_1 => blocks!(BlockQ5_1),
        Format::Q8_0 => blocks!(BlockQ8_0),
        Format::Q2_K => blocks!(BlockQ2K),
        Format::Q3_K => blocks!(BlockQ3K),
        Format::Q4_K => blocks!(BlockQ4K),
        Format::Q5_K => blocks!(BlockQ5K),
        Format::Q6_K => blocks!(BlockQ6K),
        Format::IQ2_XXS => blocks!(BlockIQ2XXS),
        Format::IQ2_XS => blocks!(BlockIQ2XS),
        Format::IQ2_S => blocks!(BlockIQ2S),
        Format::IQ3_XXS => blocks!(BlockIQ3XXS),
        Format::IQ3_S => blocks!(BlockIQ3S),
        Format::IQ1_S => blocks!(BlockIQ1S),
        Format::IQ1_M => blocks!(BlockIQ1M),
        Format::IQ4_NL => blocks!(BlockIQ4NL),
        Format::IQ4_XS => blocks!(BlockIQ4XS),
        Format::MXFP4 => blocks!(BlockMXFP4),
        Format::NVFP4 => {
            check_nvfp4(bytes)?;
            blocks!(BlockNVFP4);
        }
        Format::I8 | Format::I16 | Format::I32 | Format::I64 => {
            return Err(DequantizeError::UnsupportedFormat { format });
        }
    }
    Ok(())
}

fn check_nvfp4(bytes: &[u8]) -> Result<(), DequantizeError> {
    let (blocks, _) = bytes.as_chunks::<{ BlockNVFP4::BYTES }>();
    match blocks.iter().position(|block| !BlockNVFP4::from_bytes(block).is_valid()) {
        Some(block) => Err(DequantizeError::InvalidScale { format: Format::NVFP4, block }),
        None => Ok(()),
    }
}

fn each<const N: usize>(bytes: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    let (bytes, _) = bytes.as_chunks::<N>();
    bytes.iter().zip(out).for_each(|(bytes, out)| *out = value(*bytes));
}
