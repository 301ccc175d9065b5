//! Rows of the token table as floats, in every format, through the one definition of the formats.

use super::abi::embed::EmbedArgs;
use super::abi::formats;
use super::blocks::{self, Block};
use super::simt::{
    await_predecessors, block, blocks as grid, divide, half, ld_global_u32, release_successor, st_global_f32,
    st_global_f32x4, thread, threads,
};

/// Values of a thread.
const GROUP: u32 = 32;

/// A format of single values.
trait Value: Copy {
    unsafe fn read(at: u64) -> f32;
}

impl Value for f32 {
    #[inline(always)]
    unsafe fn read(at: u64) -> f32 {
        *(at as *const f32)
    }
}

impl Value for f64 {
    #[inline(always)]
    unsafe fn read(at: u64) -> f32 {
        *(at as *const f64) as f32
    }
}

/// IEEE half precision.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Half(u16);

impl Value for Half {
    #[inline(always)]
    unsafe fn read(at: u64) -> f32 {
        half((*(at as *const Self)).0)
    }
}

/// The upper half of an `f32`.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Upper(u16);

impl Value for Upper {
    #[inline(always)]
    unsafe fn read(at: u64) -> f32 {
        f32::from_bits(u32::from((*(at as *const Self)).0) << 16)
    }
}

/// Up to 32 values, `column ..`, of the row at `row`.
#[inline(always)]
unsafe fn values<V: Value>(row: u64, column: u32, (cols, scale): (u32, f32), out: u64) {
    let mut i = column;
    while i < cols && i < column + GROUP {
        st_global_f32(out + 4 * u64::from(i), scale * V::read(row + u64::from(i) * size_of::<V>() as u64));
        i += 1;
    }
}

/// 32 values, `column ..`, of the row at `row`.
#[inline(always)]
unsafe fn group<B: Block>(row: u64, column: u32, scale: f32, out: u64) {
    let (index, group) = (column / B::LEN as u32, column % B::LEN as u32 / GROUP);
    // By reference: a copy in registers could not be indexed.
    let block = &*((row + u64::from(index) * B::BYTES as u64) as *const B);
    let quants = block.quants(group as usize);
    let (first, second) = (2 * group as usize, 2 * group as usize + 1);
    let factors = [block.factor(first), block.factor(second)];
    let offsets = [block.offset(first), block.offset(second)];
    let mut i = 0;
    while i < 8 {
        let mut four = [0.0; 4];
        let mut j = 0;
        while j < 4 {
            // Two roundings, as the CPU's, and a third.
            four[j] = scale * (factors[i / 4] * f32::from(quants[4 * i + j]) - offsets[i / 4]);
            j += 1;
        }
        st_global_f32x4(out + 4 * u64::from(column + 4 * i as u32), four);
        i += 1;
    }
}

/// `out[i] = scale * table[ids[i / copies]]`, 32 values a thread.
///
/// # Safety
/// The contract of `Embed::launch`: buffers of the lengths in [`EmbedArgs`], `out` aligned to 16 bytes, a float format,
/// `cols` a multiple of its block, blocks of 32 values or more only with whole groups of 32.
#[inline(always)]
pub(crate) unsafe fn embed(args: EmbedArgs) {
    await_predecessors();
    release_successor();
    let per_row = args.cols.div_ceil(GROUP);
    let mut at = block() * threads() + thread();
    while at < args.count * per_row {
        let (i, g) = divide(at, per_row);
        at += grid() * threads();
        let of = divide(i, args.copies).0;
        let (id, column) = (ld_global_u32(args.ids + 4 * u64::from(of)), GROUP * g);
        let out = args.out + 4 * u64::from(i) * u64::from(args.cols);
        if id >= args.rows {
            let mut c = column;
            while c < args.cols && c < column + GROUP {
                st_global_f32(out + 4 * u64::from(c), 0.0);
                c += 1;
            }
            continue;
        }
        macro_rules! of_format {
            ($($name:ident => $block:ident,)*) => {
                match args.format {
                    formats::F32 => values::<f32>(row::<f32>(&args, id), column, (args.cols, args.scale), out),
                    formats::F64 => values::<f64>(row::<f64>(&args, id), column, (args.cols, args.scale), out),
                    formats::F16 => values::<Half>(row::<Half>(&args, id), column, (args.cols, args.scale), out),
                    formats::BF16 => values::<Upper>(row::<Upper>(&args, id), column, (args.cols, args.scale), out),
                    $(formats::$name => {
                        let row_bytes = args.cols / blocks::$block::LEN as u32 * blocks::$block::BYTES as u32;
                        let row = args.table + u64::from(id) * u64::from(row_bytes);
                        group::<blocks::$block>(row, column, args.scale, out);
                    })*
                    _ => {}
                }
            };
        }
        of_format! {
            Q4_0 => BlockQ4_0,
            Q4_1 => BlockQ4_1,
            Q5_0 => BlockQ5_0,
            Q5_1 => BlockQ5_1,
            Q8_0 => BlockQ8_0,
            Q2_K => BlockQ2K,
            Q3_K => BlockQ3K,
            Q4_K => BlockQ4K,
            Q5_K => BlockQ5K,
            Q6_K => BlockQ6K,
            IQ2_XXS => BlockIQ2XXS,
            IQ2_XS => BlockIQ2XS,
            IQ2_S => BlockIQ2S,
            IQ3_XXS => BlockIQ3XXS,
            IQ3_S => BlockIQ3S,
            IQ1_S => BlockIQ1S,
            IQ1_M => BlockIQ1M,
            IQ4_NL => BlockIQ4NL,
            IQ4_XS => BlockIQ4XS,
            MXFP4 => BlockMXFP4,
            NVFP4 => BlockNVFP4,
        }
    }
}

/// Where row `id` of single values starts.
#[inline(always)]
fn row<V>(args: &EmbedArgs, id: u32) -> u64 {
    args.table + u64::from(id) * u64::from(args.cols) * size_of::<V>() as u64
}

#[cfg(target_arch = "nvptx64")]
mod entries {
    use super::EmbedArgs;

    crate::simt::bounds!(embed, 128, 4);

    /// See [`embed`](super::embed).
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn embed(args: EmbedArgs) {
        super::embed(args);
    }
}
