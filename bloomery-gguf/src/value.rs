//! Metadata values and their types.

use std::fmt;

use crate::error::FoundType;

/// Declares [`ValueType`], [`Value`] and [`Array`] from one table, so that none of them can miss a type.
macro_rules! value_types {
    ($($name:ident ($array:ident) = $id:literal, $text:literal, $scalar:ty;)*) => {
        /// The type of a metadata value; the discriminant is the id in the file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        #[expect(missing_docs, reason = "the variants are the types of the GGUF specification")]
        pub enum ValueType {
            $($name = $id,)*
        }

        impl ValueType {
            /// Every type, in the order of the ids.
            pub const ALL: [Self; 13] = [$(Self::$name,)*];

            /// The specification's name in lower case, for example `u32`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }

        /// A metadata value.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "the variants are the types of the GGUF specification")]
        pub enum Value {
            $($name($scalar),)*
        }

        impl Value {
            /// The type of the value.
            #[must_use]
            pub fn value_type(&self) -> ValueType {
                match self {
                    $(Self::$name(_) => ValueType::$name,)*
                }
            }
        }

        /// A metadata array: all its elements have one type.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "the variants are the types of the GGUF specification")]
        pub enum Array {
            $($array(Vec<$scalar>),)*
        }

        impl Array {
            /// The type of the elements.
            #[must_use]
            pub fn element_type(&self) -> ValueType {
                match self {
                    $(Self::$array(_) => ValueType::$name,)*
                }
            }

            /// How many elements.
            #[must_use]
            pub fn len(&self) -> usize {
                match self {
                    $(Self::$array(items) => items.len(),)*
                }
            }
        }
    };
}

value_types! {
    U8(U8) = 0, "u8", u8;
    I8(I8) = 1, "i8", i8;
    U16(U16) = 2, "u16", u16;
    I16(I16) = 3, "i16", i16;
    U32(U32) = 4, "u32", u32;
    I32(I32) = 5, "i32", i32;
    F32(F32) = 6, "f32", f32;
    Bool(Bool) = 7, "bool", bool;
    String(String) = 8, "string", String;
    Array(Nested) = 9, "array", Array;
    U64(U64) = 10, "u64", u64;
    I64(I64) = 11, "i64", i64;
    F64(F64) = 12, "f64", f64;
}

impl ValueType {
    /// The type with an id of the file format.
    #[must_use]
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// The id in the file format.
    #[must_use]
    pub fn id(self) -> u32 {
        self as u32
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Value {
    pub(crate) fn found_type(&self) -> FoundType {
        match self {
            Self::Array(array) => FoundType::Array(array.element_type()),
            other => FoundType::Scalar(other.value_type()),
        }
    }
}

impl fmt::Display for Value {
    /// Scalars in full, strings quoted and escaped, arrays as their length and first four elements.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U8(value) => write!(f, "{value}"),
            Self::I8(value) => write!(f, "{value}"),
            Self::U16(value) => write!(f, "{value}"),
            Self::I16(value) => write!(f, "{value}"),
            Self::U32(value) => write!(f, "{value}"),
            Self::I32(value) => write!(f, "{value}"),
            Self::F32(value) => write!(f, "{value:?}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::String(value) => write!(f, "{value:?}"),
            Self::Array(value) => write!(f, "{value}"),
            Self::U64(value) => write!(f, "{value}"),
            Self::I64(value) => write!(f, "{value}"),
            Self::F64(value) => write!(f, "{value:?}"),
        }
    }
}

impl Array {
    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Array {
    /// The length, the type and the first four elements: `3 x i32 [1, 2, 3]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn elements<T>(f: &mut fmt::Formatter<'_>, items: &[T], show: impl Fn(&T) -> String) -> fmt::Result {
            let shown: Vec<String> = items.iter().take(4).map(show).collect();
            let more = if items.len() > shown.len() { ", ..." } else { "" };
            write!(f, "[{}{more}]", shown.join(", "))
        }
        write!(f, "{} x {} ", self.len(), self.element_type())?;
        match self {
            Self::U8(items) => elements(f, items, u8::to_string),
            Self::I8(items) => elements(f, items, i8::to_string),
            Self::U16(items) => elements(f, items, u16::to_string),
            Self::I16(items) => elements(f, items, i16::to_string),
            Self::U32(items) => elements(f, items, u32::to_string),
            Self::I32(items) => elements(f, items, i32::to_string),
            Self::F32(items) => elements(f, items, |item| format!("{item:?}")),
            Self::Bool(items) => elements(f, items, bool::to_string),
            Self::String(items) => elements(f, items, |item| format!("{item:?}")),
            Self::Nested(items) => elements(f, items, Self::to_string),
            Self::U64(items) => elements(f, items, u64::to_string),
            Self::I64(items) => elements(f, items, i64::to_string),
            Self::F64(items) => elements(f, items, |item| format!("{item:?}")),
        }
    }
}

/// `Value::from(scalar)` and `Value::from(vector)`.
macro_rules! from_values {
    ($($name:ident: $scalar:ty;)*) => {$(
        impl From<$scalar> for Value {
            fn from(value: $scalar) -> Self {
                Self::$name(value)
            }
        }

        impl From<Vec<$scalar>> for Value {
            fn from(items: Vec<$scalar>) -> Self {
                Self::Array(Array::$name(items))
            }
        }
    )*};
}

from_values! {
    U8: u8; I8: i8; U16: u16; I16: i16; U32: u32; I32: i32; F32: f32; Bool: bool; String: String;
    U64: u64; I64: i64; F64: f64;
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<Array> for Value {
    fn from(value: Array) -> Self {
        Self::Array(value)
    }
}
