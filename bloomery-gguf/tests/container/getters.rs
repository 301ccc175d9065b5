//! Typed getters.

use bloomery_gguf::{Array, FoundType, GgufError, Metadata, Value, ValueType};

fn metadata(pairs: &[(&str, Value)]) -> Metadata {
    Metadata::from_pairs(pairs.iter().map(|(key, value)| ((*key).to_owned(), value.clone())))
        .expect("no key twice")
}

#[test]
fn integers_of_every_width() {
    let seven: [Value; 8] = [
        7u8.into(),
        7i8.into(),
        7u16.into(),
        7i16.into(),
        7u32.into(),
        7i32.into(),
        7u64.into(),
        7i64.into(),
    ];
    for value in seven {
        let meta = metadata(&[("n", value)]);
        assert_eq!(meta.u32("n").unwrap(), 7);
        assert_eq!(meta.u64("n").unwrap(), 7);
        assert_eq!(meta.i32("n").unwrap(), 7);
        assert_eq!(meta.i64("n").unwrap(), 7);
        assert_eq!(meta.opt_u32("n").unwrap(), Some(7));
    }
}

#[test]
fn integers_that_do_not_fit() {
    let meta =
        metadata(&[("minus", (-1i32).into()), ("big", u64::MAX.into()), ("list", vec![1i64, -2].into())]);
    let refused = |result: Result<String, GgufError>, key: &str, value: i128| {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, GgufError::OutOfRange { key: k, value: v, .. } if k == key && *v == value),
            "{error:?}"
        );
    };
    refused(meta.u32("minus").map(|v| v.to_string()), "minus", -1);
    refused(meta.u64("minus").map(|v| v.to_string()), "minus", -1);
    refused(meta.u32("big").map(|v| v.to_string()), "big", i128::from(u64::MAX));
    refused(meta.i64("big").map(|v| v.to_string()), "big", i128::from(u64::MAX));
    refused(meta.opt_i32("big").map(|v| format!("{v:?}")), "big", i128::from(u64::MAX));
    refused(meta.u32s("list").map(|v| format!("{v:?}")), "list", -2);
    assert_eq!(meta.u64("big").unwrap(), u64::MAX);
    assert_eq!(meta.i32s("list").unwrap(), [1, -2]);
}

#[test]
fn wrong_types_and_missing_keys() {
    let meta = metadata(&[("text", "x".into()), ("list", vec![1u32].into()), ("flag", true.into())]);
    let error = meta.opt_u32("text").unwrap_err();
    assert_eq!(error.to_string(), "metadata key \"text\" is string: u32 was expected");
    let error = meta.u32("list").unwrap_err();
    assert!(
        matches!(error, GgufError::WrongType { found: FoundType::Array(ValueType::U32), .. }),
        "{error:?}"
    );
    assert!(matches!(meta.u32("flag"), Err(GgufError::WrongType { .. })));
    assert!(matches!(meta.bool("text"), Err(GgufError::WrongType { .. })));
    assert!(matches!(meta.f32("flag"), Err(GgufError::WrongType { .. })));
    assert!(matches!(meta.strings("text"), Err(GgufError::WrongType { .. })));
    assert!(matches!(meta.str("flag"), Err(GgufError::WrongType { .. })));
    assert!(matches!(meta.u32s("flag"), Err(GgufError::WrongType { .. })));
    assert!(matches!(meta.f32s("list"), Err(GgufError::WrongType { .. })));
    assert!(matches!(meta.bools("list"), Err(GgufError::WrongType { .. })));
    assert!(matches!(meta.str("none"), Err(GgufError::MissingKey { key }) if key == "none"));
    assert!(
        matches!(meta.architecture(), Err(GgufError::MissingKey { key }) if key == "general.architecture")
    );
    assert_eq!(meta.opt_str("none").unwrap(), None);
    assert_eq!(meta.opt_bool("flag").unwrap(), Some(true));
}

#[test]
fn other_types() {
    let meta = metadata(&[
        ("f32", 0.5f32.into()),
        ("f64", 0.1f64.into()),
        ("strings", vec!["a".to_owned(), "b".to_owned()].into()),
        ("f32s", vec![1.0f32].into()),
        ("f64s", vec![0.1f64].into()),
        ("bools", vec![true, false].into()),
        ("bytes", vec![3u8, 4].into()),
    ]);
    assert_eq!(meta.f32("f64").unwrap(), 0.1f32);
    assert_eq!((meta.f64("f64").unwrap(), meta.f64("f32").unwrap()), (0.1, 0.5));
    assert_eq!(meta.strings("strings").unwrap(), ["a", "b"]);
    assert_eq!((meta.f32s("f32s").unwrap(), meta.f32s("f64s").unwrap()), (vec![1.0], vec![0.1f32]));
    assert_eq!(meta.bools("bools").unwrap(), [true, false]);
    assert_eq!((meta.u32s("bytes").unwrap(), meta.u64s("bytes").unwrap()), (vec![3, 4], vec![3, 4]));
    assert_eq!((meta.len(), meta.is_empty()), (7, false));
    let order: Vec<_> = meta.iter().map(|(key, _)| key).collect();
    assert_eq!(order, ["f32", "f64", "strings", "f32s", "f64s", "bools", "bytes"]);
}

#[test]
fn scopes_name_the_full_key() {
    let meta = metadata(&[
        ("general.architecture", "llama".into()),
        ("llama.block_count", 2u32.into()),
        ("llama.rope.scaling.type", "yarn".into()),
    ]);
    // What a scope gives out outlives the scope.
    let kind = meta.scoped("llama").scoped("rope.scaling").str("type").unwrap();
    assert_eq!(kind, "yarn");
    let scope = meta.scoped(meta.architecture().unwrap());
    assert_eq!((scope.u32("block_count").unwrap(), scope.prefix()), (2, "llama"));
    assert_eq!(scope.opt_f32("rope.freq_base").unwrap(), None);
    let error = scope.f32("rope.freq_base").unwrap_err();
    assert!(matches!(&error, GgufError::MissingKey { key } if key == "llama.rope.freq_base"), "{error:?}");
    let error = scope.f32("block_count").unwrap_err();
    assert!(matches!(&error, GgufError::WrongType { key, .. } if key == "llama.block_count"), "{error:?}");
}

#[test]
fn per_layer_values() {
    let meta = metadata(&[
        ("one", 8u32.into()),
        ("each", vec![1i32, 2, 3].into()),
        ("rates", vec![0.5f32, 1.5].into()),
        ("flag", true.into()),
        ("nested", Array::Nested(vec![]).into()),
    ]);
    assert_eq!(meta.per_layer_u32("one", 3).unwrap(), [8, 8, 8]);
    assert_eq!(meta.per_layer_u32("each", 3).unwrap(), [1, 2, 3]);
    assert_eq!(meta.per_layer_f32("rates", 2).unwrap(), [0.5, 1.5]);
    assert_eq!(meta.opt_per_layer_bool("flag", 2).unwrap(), Some(vec![true; 2]));
    assert_eq!(meta.opt_per_layer_u32("none", 3).unwrap(), None);
    assert!(matches!(
        meta.per_layer_u32("each", 4),
        Err(GgufError::PerLayerLength { expected: 4, found: 3, .. })
    ));
    assert!(matches!(meta.per_layer_u32("nested", 0), Err(GgufError::WrongType { .. })));
    // The layer count comes from the file too: it must not decide what is allocated.
    assert!(matches!(meta.per_layer_u32("one", usize::MAX), Err(GgufError::AbsurdCount { .. })));
}

#[test]
fn cloning_shares() {
    let meta = metadata(&[("tokens", vec!["a".to_owned()].into())]);
    let copy = meta.clone();
    assert!(std::ptr::eq(meta.strings("tokens").unwrap(), copy.strings("tokens").unwrap()));
    assert!(matches!(
        Metadata::from_pairs([("k".to_owned(), 1u8.into()), ("k".to_owned(), 2u8.into())]),
        Err(GgufError::DuplicateKey { key }) if key == "k"
    ));
}

#[test]
fn values_print_short() {
    let meta = metadata(&[("list", vec![1u32; 1000].into()), ("text", "a\nb".into())]);
    let list = meta.get("list").unwrap().to_string();
    assert_eq!(list, "1000 x u32 [1, 1, 1, 1, ...]");
    assert_eq!(meta.get("text").unwrap().to_string(), r#""a\nb""#);
    assert!(format!("{meta:?}").len() < 100);
}
