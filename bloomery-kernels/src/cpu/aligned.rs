//! Memory aligned to cache lines.

/// One cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

// SAFETY: zero bits are the value of sixteen zeros.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: sixteen f32 fill the 64 bytes of the line, so there is no padding, and any bits are values.
unsafe impl bytemuck::Pod for Line {}

/// Zeroed memory that starts at a multiple of 64 bytes, as vectors of 512 bits want it. The system hands out its
/// pages when they are first written, so a cache may be sized for the longest context at once.
#[derive(Debug, Default)]
pub struct Aligned {
    lines: Vec<Line>,
    bytes: usize,
}

impl Aligned {
    /// `bytes` zeros.
    #[must_use]
    pub fn zeroed(bytes: usize) -> Self {
        Self { lines: bytemuck::zeroed_vec(bytes.div_ceil(size_of::<Line>())), bytes }
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.bytes]
    }

    /// All bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.bytes]
    }

    /// All whole f32 values.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.bytes / size_of::<f32>()]
    }

    /// All whole f32 values.
    pub fn values_mut(&mut self) -> &mut [f32] {
        let count = self.bytes / size_of::<f32>();
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..count]
    }

    /// The first `count` f32 values after growing to hold them; their contents are whatever was left there.
    pub(super) fn floats(&mut self, count: usize) -> &mut [f32] {
        if self.bytes < 4 * count {
            *self = Self::zeroed(4 * count);
        }
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..count]
    }
}
