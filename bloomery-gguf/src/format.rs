//! Tensor formats: ids, block sizes and names.

/// How the values of a tensor are stored. A row is a whole number of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the variants are the format names of the GGUF specification")]
#[expect(non_camel_case_types, reason = "the field writes these names with underscores")]
pub enum Format {
    F32,
    F16,
    BF16,
    F64,
    I8,
    I16,
    I32,
    I64,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ2_XXS,
    IQ2_XS,
    IQ2_S,
    IQ3_XXS,
    IQ3_S,
    IQ1_S,
    IQ1_M,
    IQ4_NL,
    IQ4_XS,
    MXFP4,
    NVFP4,
}

/// (format, ggml id, values in a block, bytes in a block, name)
const TABLE: [(Format, u32, usize, usize, &str); 29] = {
    use Format::*;
    [
        (F32, 0, 1, 4, "F32"),
        (F16, 1, 1, 2, "F16"),
        (BF16, 30, 1, 2, "BF16"),
        (F64, 28, 1, 8, "F64"),
        (I8, 24, 1, 1, "I8"),
        (I16, 25, 1, 2, "I16"),
        (I32, 26, 1, 4, "I32"),
        (I64, 27, 1, 8, "I64"),
        (Q4_0, 2, 32, 18, "Q4_0"),
        (Q4_1, 3, 32, 20, "Q4_1"),
        (Q5_0, 6, 32, 22, "Q5_0"),
        (Q5_1, 7, 32, 24, "Q5_1"),
        (Q8_0, 8, 32, 34, "Q8_0"),
        (Q2_K, 10, 256, 84, "Q2_K"),
        (Q3_K, 11, 256, 110, "Q3_K"),
        (Q4_K, 12, 256, 144, "Q4_K"),
        (Q5_K, 13, 256, 176, "Q5_K"),
        (Q6_K, 14, 256, 210, "Q6_K"),
        (IQ2_XXS, 16, 256, 66, "IQ2_XXS"),
        (IQ2_XS, 17, 256, 74, "IQ2_XS"),
        (IQ2_S, 22, 256, 82, "IQ2_S"),
        (IQ3_XXS, 18, 256, 98, "IQ3_XXS"),
        (IQ3_S, 21, 256, 110, "IQ3_S"),
        (IQ1_S, 19, 256, 50, "IQ1_S"),
        (IQ1_M, 29, 256, 56, "IQ1_M"),
        (IQ4_NL, 20, 32, 18, "IQ4_NL"),
        (IQ4_XS, 23, 256, 136, "IQ4_XS"),
        (MXFP4, 39, 32, 17, "MXFP4"),
        (NVFP4, 40, 64, 36, "NVFP4"),
    ]
};

impl Format {
    /// Every format this crate reads.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// The format with a ggml type id, if this crate reads it.
    #[must_use]
    pub fn from_id(id: u32) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == id).map(|row| row.0)
    }

    fn row(self) -> &'static (Self, u32, usize, usize, &'static str) {
        // TABLE lists the variants in declaration order; `table_is_in_order` checks it.
        &TABLE[self as usize]
    }

    /// The ggml type id.
    #[must_use]
    pub fn id(self) -> u32 {
        self.row().1
    }

    /// Values in a block.
    #[must_use]
    pub fn block_len(self) -> usize {
        self.row().2
    }

    /// Bytes in a block.
    #[must_use]
    pub fn block_bytes(self) -> usize {
        self.row().3
    }

    /// The specification's name, for example `Q4_K`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().4
    }
}

impl core::fmt::Display for Format {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_order() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{}", row.4);
            assert_eq!(Format::from_id(row.1), Some(row.0));
        }
    }
}
