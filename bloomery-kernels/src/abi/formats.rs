//! Formats by their id in the file.

macro_rules! formats {
    ($($name:ident = $id:literal,)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            pub const $name: u32 = $id;
        )*

        /// Every format by name.
        pub const ALL: &[(&str, u32)] = &[$((stringify!($name), $id)),*];
    };
}

formats! {
    F32 = 0,
    F16 = 1,
    BF16 = 30,
    F64 = 28,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q2_K = 10,
    Q3_K = 11,
    Q4_K = 12,
    Q5_K = 13,
    Q6_K = 14,
    IQ2_XXS = 16,
    IQ2_XS = 17,
    IQ2_S = 22,
    IQ3_XXS = 18,
    IQ3_S = 21,
    IQ1_S = 19,
    IQ1_M = 29,
    IQ4_NL = 20,
    IQ4_XS = 23,
    MXFP4 = 39,
    NVFP4 = 40,
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_are_those_of_the_file() {
        for (name, id) in super::ALL {
            let format = bloomery_gguf::Format::from_id(*id).unwrap();
            assert_eq!(format.name(), *name);
        }
    }
}
