//! Typed reading of one value, and the getters that [`Metadata`](crate::Metadata) and
//! [`Scoped`](crate::Scoped) share.

use crate::{Array, GgufError, Value};

/// Layers that a scalar may be repeated for; the count mostly comes from the file itself.
const MAX_LAYERS: usize = 1 << 16;

/// A value of the wrong kind, before the key is known.
pub(crate) enum Refusal {
    Type(&'static str),
    Range(i128, &'static str),
    Length { expected: usize, found: usize },
    Layers(usize),
}

impl Refusal {
    pub(crate) fn at(self, key: String, value: &Value) -> GgufError {
        match self {
            Self::Type(expected) => GgufError::WrongType { key, expected, found: value.found_type() },
            Self::Range(value, expected) => GgufError::OutOfRange { key, value, expected },
            Self::Length { expected, found } => GgufError::PerLayerLength { key, expected, found },
            Self::Layers(layers) => GgufError::AbsurdCount {
                what: format!("the layer count for {key:?}"),
                offset: 0,
                count: layers as u64,
                limit: MAX_LAYERS as u64,
            },
        }
    }
}

/// An integer type that a getter can return.
pub(crate) trait Integer: TryFrom<i128> + Copy {
    const ONE: &'static str;
    const MANY: &'static str;
}

macro_rules! integers {
    ($($name:ident)*) => {$(
        impl Integer for $name {
            const ONE: &'static str = stringify!($name);
            const MANY: &'static str = concat!("array of ", stringify!($name));
        }
    )*};
}
integers!(u32 u64 i32 i64);

fn narrow<T: Integer>(value: impl Into<i128>) -> Result<T, Refusal> {
    let value = value.into();
    T::try_from(value).map_err(|_| Refusal::Range(value, T::ONE))
}

/// Any integer width whose value fits.
pub(crate) fn integer<T: Integer>(value: &Value) -> Result<T, Refusal> {
    match *value {
        Value::U8(v) => narrow(v),
        Value::I8(v) => narrow(v),
        Value::U16(v) => narrow(v),
        Value::I16(v) => narrow(v),
        Value::U32(v) => narrow(v),
        Value::I32(v) => narrow(v),
        Value::U64(v) => narrow(v),
        Value::I64(v) => narrow(v),
        Value::F32(_) | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::F64(_) => {
            Err(Refusal::Type(T::ONE))
        }
    }
}

/// An array of any integer width whose values fit.
pub(crate) fn integers<T: Integer>(value: &Value) -> Result<Vec<T>, Refusal> {
    fn all<S: Copy + Into<i128>, T: Integer>(items: &[S]) -> Result<Vec<T>, Refusal> {
        items.iter().map(|&item| narrow(item)).collect()
    }
    let Value::Array(array) = value else { return Err(Refusal::Type(T::MANY)) };
    match array {
        Array::U8(items) => all(items),
        Array::I8(items) => all(items),
        Array::U16(items) => all(items),
        Array::I16(items) => all(items),
        Array::U32(items) => all(items),
        Array::I32(items) => all(items),
        Array::U64(items) => all(items),
        Array::I64(items) => all(items),
        Array::F32(_) | Array::Bool(_) | Array::String(_) | Array::Nested(_) | Array::F64(_) => {
            Err(Refusal::Type(T::MANY))
        }
    }
}

/// An `f32`, or an `f64` rounded to one.
pub(crate) fn float(value: &Value) -> Result<f32, Refusal> {
    match value {
        Value::F32(v) => Ok(*v),
        Value::F64(v) => Ok(*v as f32),
        _ => Err(Refusal::Type("f32")),
    }
}

pub(crate) fn floats(value: &Value) -> Result<Vec<f32>, Refusal> {
    match value {
        Value::Array(Array::F32(items)) => Ok(items.clone()),
        Value::Array(Array::F64(items)) => Ok(items.iter().map(|&item| item as f32).collect()),
        _ => Err(Refusal::Type("array of f32")),
    }
}

pub(crate) fn double(value: &Value) -> Result<f64, Refusal> {
    match value {
        Value::F32(v) => Ok(f64::from(*v)),
        Value::F64(v) => Ok(*v),
        _ => Err(Refusal::Type("f64")),
    }
}

pub(crate) fn boolean(value: &Value) -> Result<bool, Refusal> {
    match value {
        Value::Bool(v) => Ok(*v),
        _ => Err(Refusal::Type("bool")),
    }
}

pub(crate) fn booleans(value: &Value) -> Result<Vec<bool>, Refusal> {
    match value {
        Value::Array(Array::Bool(items)) => Ok(items.clone()),
        _ => Err(Refusal::Type("array of bool")),
    }
}

pub(crate) fn string(value: &Value) -> Result<&str, Refusal> {
    match value {
        Value::String(v) => Ok(v),
        _ => Err(Refusal::Type("string")),
    }
}

pub(crate) fn strings(value: &Value) -> Result<&[String], Refusal> {
    match value {
        Value::Array(Array::String(items)) => Ok(items),
        _ => Err(Refusal::Type("array of string")),
    }
}

/// One entry per layer: an array of exactly `layers` entries, or a scalar for all of them.
pub(crate) fn per_layer<T: Clone>(
    value: &Value,
    layers: usize,
    one: fn(&Value) -> Result<T, Refusal>,
    many: fn(&Value) -> Result<Vec<T>, Refusal>,
) -> Result<Vec<T>, Refusal> {
    if !matches!(value, Value::Array(_)) {
        if layers > MAX_LAYERS {
            return Err(Refusal::Layers(layers));
        }
        return Ok(vec![one(value)?; layers]);
    }
    let items = many(value)?;
    if items.len() != layers {
        return Err(Refusal::Length { expected: layers, found: items.len() });
    }
    Ok(items)
}

/// One getter and its optional twin. The implementing type has `lookup(key) -> Option<&Value>` and
/// `full_key(key) -> String`; `$generics` holds the lifetime where the type itself has none.
macro_rules! getter {
    ($self:ident: $me:ty, [$($generics:tt)*], $name:ident, $optional:ident($($arg:ident: $of:ty)?) -> $out:ty,
     $read:expr, $doc:literal) => {
        #[doc = $doc]
        ///
        /// # Errors
        /// A missing key, another type, or a value that does not fit: each names the key.
        pub fn $name<$($generics)*>($self: $me, key: &str $(, $arg: $of)?) -> Result<$out, GgufError> {
            $self
                .$optional(key $(, $arg)?)?
                .ok_or_else(|| GgufError::MissingKey { key: $self.full_key(key) })
        }

        #[doc = concat!("As `", stringify!($name), "`, with `None` for a missing key.")]
        ///
        /// # Errors
        /// Another type, or a value that does not fit: each names the key.
        pub fn $optional<$($generics)*>(
            $self: $me, key: &str $(, $arg: $of)?
        ) -> Result<Option<$out>, GgufError> {
            let Some(value) = $self.lookup(key) else { return Ok(None) };
            let read = $read;
            read(value $(, $arg)?).map(Some).map_err(|refusal: getters::Refusal| {
                refusal.at($self.full_key(key), value)
            })
        }
    };
}

macro_rules! getters {
    ($s:ident: $me:ty, [$($g:tt)*]) => {
        getter!($s: $me, [$($g)*], u32, opt_u32() -> u32, getters::integer::<u32>,
            "An integer of any width that fits a `u32`.");
        getter!($s: $me, [$($g)*], u64, opt_u64() -> u64, getters::integer::<u64>,
            "An integer of any width that fits a `u64`.");
        getter!($s: $me, [$($g)*], i32, opt_i32() -> i32, getters::integer::<i32>,
            "An integer of any width that fits an `i32`.");
        getter!($s: $me, [$($g)*], i64, opt_i64() -> i64, getters::integer::<i64>,
            "An integer of any width that fits an `i64`.");
        getter!($s: $me, [$($g)*], f32, opt_f32() -> f32, getters::float,
            "An `f32`, or an `f64` rounded to one.");
        getter!($s: $me, [$($g)*], f64, opt_f64() -> f64, getters::double,
            "An `f64`, or an `f32` widened.");
        getter!($s: $me, [$($g)*], bool, opt_bool() -> bool, getters::boolean,
            "A bool.");
        getter!($s: $me, [$($g)*], str, opt_str() -> &'a str, getters::string,
            "A string.");
        getter!($s: $me, [$($g)*], strings, opt_strings() -> &'a [String], getters::strings,
            "An array of strings.");
        getter!($s: $me, [$($g)*], u32s, opt_u32s() -> Vec<u32>, getters::integers::<u32>,
            "An array of integers that all fit a `u32`.");
        getter!($s: $me, [$($g)*], i32s, opt_i32s() -> Vec<i32>, getters::integers::<i32>,
            "An array of integers that all fit an `i32`.");
        getter!($s: $me, [$($g)*], u64s, opt_u64s() -> Vec<u64>, getters::integers::<u64>,
            "An array of integers that all fit a `u64`.");
        getter!($s: $me, [$($g)*], f32s, opt_f32s() -> Vec<f32>, getters::floats,
            "An array of `f32`, or of `f64` rounded to `f32`.");
        getter!($s: $me, [$($g)*], bools, opt_bools() -> Vec<bool>, getters::booleans,
            "An array of bools.");
        getter!($s: $me, [$($g)*], per_layer_u32, opt_per_layer_u32(layers: usize) -> Vec<u32>,
            |value, layers| getters::per_layer(value, layers, getters::integer::<u32>, getters::integers::<u32>),
            "One `u32` per layer: an array of `layers` integers, or one integer for all (65536 layers at most).");
        getter!($s: $me, [$($g)*], per_layer_f32, opt_per_layer_f32(layers: usize) -> Vec<f32>,
            |value, layers| getters::per_layer(value, layers, getters::float, getters::floats),
            "One `f32` per layer: an array of `layers` floats, or one float for all (65536 layers at most).");
        getter!($s: $me, [$($g)*], per_layer_bool, opt_per_layer_bool(layers: usize) -> Vec<bool>,
            |value, layers| getters::per_layer(value, layers, getters::boolean, getters::booleans),
            "One bool per layer: an array of `layers` bools, or one bool for all (65536 layers at most).");
    };
}

pub(crate) use {getter, getters};
