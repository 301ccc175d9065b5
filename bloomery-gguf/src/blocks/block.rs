//! What every block format offers, and the macro that declares one.

use super::F16;

/// A block of quantised values: `x[i] = factor(i / 16) * quants(i / 32)[i % 32] - offset(i / 16)`.
pub trait Block: Copy {
    /// Values in a block.
    const LEN: usize;
    /// Bytes in a block.
    const BYTES: usize;

    /// The block in the first `BYTES` bytes; `None` if there are fewer.
    fn read(bytes: &[u8]) -> Option<Self>;

    /// The integers of values `32 * group ..`, offsets such as -8 applied.
    fn quants(&self, group: usize) -> [i8; 32];

    /// What the integers of values `16 * run ..` are multiplied with.
    fn factor(&self, run: usize) -> f32;

    /// What is subtracted from the products of values `16 * run ..`; +0 where the format has no minimum.
    #[inline(always)]
    fn offset(&self, run: usize) -> f32 {
        let _ = run;
        0.0
    }
}

/// A block of 256 values whose factors are `d` times small integers, and whose offsets are `dmin` times small integers.
///
/// A dot product with int8 values is therefore an integer per block:
/// `d * sum_run scale(run) * (quants . q8)[run] - dmin * sum_run min(run) * sum(q8)[run]`.
pub trait SuperBlock: Block {
    /// The block's scale. (For the IQ families this is the file's scale times a power of two.)
    fn d(&self) -> f32;

    /// The block's scale of the minimums; +0 where the format has none.
    #[inline(always)]
    fn dmin(&self) -> f32 {
        0.0
    }

    /// Multiplier of the 16 values of `run` (0..16): within -128..=127.
    fn scale(&self, run: usize) -> i32;

    /// Minimum of the 16 values of `run`: within 0..=63, 0 where the format has none.
    #[inline(always)]
    fn min(&self, run: usize) -> i32 {
        let _ = run;
        0
    }
}

/// Four neighbouring int8 values in each word, value `4 * word + byte` in byte `byte`: the operand of `dp4a`.
#[inline(always)]
#[must_use]
pub const fn pack(quants: [i8; 32]) -> [i32; 8] {
    let q = quants;
    let mut words = [0; 8];
    let mut w = 0;
    while w < 8 {
        let at = 4 * w;
        words[w] = i32::from_le_bytes([q[at] as u8, q[at + 1] as u8, q[at + 2] as u8, q[at + 3] as u8]);
        w += 1;
    }
    words
}

/// `core::array::from_fn`, always inlined: the library's one stays a call in some of the unpackers (rustc 1.95 -O).
#[inline(always)]
pub(super) fn build<T: Copy + Default, const N: usize>(value: impl Fn(usize) -> T) -> [T; N] {
    let mut out = [T::default(); N];
    for (i, out) in out.iter_mut().enumerate() {
        *out = value(i);
    }
    out
}

/// Low nibbles of the 16 bytes, then their high nibbles.
#[inline(always)]
pub(super) fn nibbles(bytes: &[u8; 16]) -> [u8; 32] {
    let mut out = [0; 32];
    for (l, byte) in bytes.iter().enumerate() {
        out[l] = byte & 15;
        out[l + 16] = byte >> 4;
    }
    out
}

/// The sign bits of eight values from seven: bit 7 makes their number even.
#[inline(always)]
pub(super) const fn even_signs(index: u32) -> u8 {
    let seven = index & 127;
    (seven | (seven.count_ones() & 1) << 7) as u8
}

/// 32 values being gathered from codebook rows of eight.
#[derive(Default)]
pub(super) struct Signed([[i8; 8]; 4]);

impl Signed {
    /// Values `8 * l ..`, negated where their bit of `signs` is set.
    #[inline(always)]
    pub(super) fn set8(&mut self, l: usize, values: [i8; 8], signs: u8) {
        for (j, value) in values.into_iter().enumerate() {
            let negative = -(((signs >> (j & 7)) & 1) as i8);
            self.0[l & 3][j] = (value ^ negative) - negative;
        }
    }

    #[inline(always)]
    pub(super) fn values(self) -> [i8; 32] {
        build(|i| self.0[i >> 3][i & 7])
    }
}

/// Writes the values of a block given as groups of 32.
#[inline(always)]
pub(super) fn dequantize<B: Block>(block: &B, out: &mut [[f32; 32]]) {
    for (group, out) in out.iter_mut().enumerate() {
        let quants = block.quants(group);
        let (factors, offsets) = (
            [block.factor(2 * group), block.factor(2 * group + 1)],
            [block.offset(2 * group), block.offset(2 * group + 1)],
        );
        for l in 0..32 {
            out[l] = factors[l / 16] * f32::from(quants[l]) - offsets[l / 16];
        }
    }
}

/// A field of a block, read from the block's bytes at a constant offset.
pub(super) trait Field: Sized {
    fn parse<const N: usize, const AT: usize>(bytes: &[u8; N]) -> Self;
}

impl Field for u8 {
    #[inline(always)]
    fn parse<const N: usize, const AT: usize>(bytes: &[u8; N]) -> Self {
        const { assert!(AT < N) };
        bytes[AT]
    }
}

impl Field for F16 {
    #[inline(always)]
    fn parse<const N: usize, const AT: usize>(bytes: &[u8; N]) -> Self {
        Self(<[u8; 2]>::parse::<N, AT>(bytes))
    }
}

impl<const M: usize> Field for [u8; M] {
    #[inline(always)]
    fn parse<const N: usize, const AT: usize>(bytes: &[u8; N]) -> Self {
        const { assert!(AT + M <= N) };
        build(|i| bytes[AT + i])
    }
}

impl<const M: usize> Field for [i8; M] {
    #[inline(always)]
    fn parse<const N: usize, const AT: usize>(bytes: &[u8; N]) -> Self {
        const { assert!(AT + M <= N) };
        build(|i| bytes[AT + i] as i8)
    }
}

impl<const M: usize, const K: usize> Field for [[u8; M]; K] {
    #[inline(always)]
    fn parse<const N: usize, const AT: usize>(bytes: &[u8; N]) -> Self {
        const { assert!(AT + M * K <= N) };
        let mut out = [[0; M]; K];
        for (k, row) in out.iter_mut().enumerate() {
            for (i, byte) in row.iter_mut().enumerate() {
                *byte = bytes[AT + M * k + i];
            }
        }
        out
    }
}

/// Declares a block: the structure in file order, its sizes, parsing and dequantisation.
macro_rules! block {
    ($(#[$doc:meta])* $name:ident: $len:literal values in $bytes:literal bytes {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
    } impl Block { $($body:tt)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        const _: () = assert!(size_of::<$name>() == $bytes && align_of::<$name>() == 1);

        impl $name {
            /// Values in a block.
            pub const LEN: usize = $len;
            /// Bytes in a block.
            pub const BYTES: usize = $bytes;

            /// The block with these file bytes.
            #[inline(always)]
            #[must_use]
            pub fn from_bytes(bytes: &[u8; $bytes]) -> Self {
                Self {
                    $($field: <$type as super::block::Field>::parse::<
                        $bytes,
                        { core::mem::offset_of!($name, $field) },
                    >(bytes),)*
                }
            }

            /// Writes the block's values.
            pub fn dequantize(bytes: &[u8; $bytes], out: &mut [f32; $len]) {
                super::block::dequantize(&Self::from_bytes(bytes), out.as_chunks_mut().0);
            }
        }

        impl super::Block for $name {
            const LEN: usize = $len;
            const BYTES: usize = $bytes;

            #[inline(always)]
            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.first_chunk().map(Self::from_bytes)
            }

            $($body)*
        }
    };
}

/// [`block!`] for a block of 256 values: the body implements `SuperBlock` after the `quants` of `Block`.
macro_rules! super_block {
    ($(#[$doc:meta])* $name:ident: $bytes:literal bytes { $($fields:tt)* }
        quants($self:ident, $group:ident) $quants:block
        impl SuperBlock { $($body:tt)* }) => {
        super::block::block! {
            $(#[$doc])*
            $name: 256 values in $bytes bytes { $($fields)* }
            impl Block {
                #[inline(always)]
                fn quants(&$self, $group: usize) -> [i8; 32] $quants

                #[inline(always)]
                fn factor(&self, run: usize) -> f32 {
                    use super::SuperBlock;
                    self.d() * self.scale(run) as f32
                }

                #[inline(always)]
                fn offset(&self, run: usize) -> f32 {
                    use super::SuperBlock;
                    self.dmin() * self.min(run) as f32
                }
            }
        }

        impl super::SuperBlock for $name { $($body)* }
    };
}

pub(super) use {block, super_block};
