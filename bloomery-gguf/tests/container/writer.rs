//! What the writer writes, the reader reads.

use bloomery_gguf::{Array, Format, Gguf, GgufError, Value, ValueType, Writer};
use proptest::collection::vec;
use proptest::prelude::*;

fn written(writer: &Writer) -> Result<Gguf, GgufError> {
    let mut bytes = Vec::new();
    writer.write_to(&mut bytes)?;
    Gguf::from_bytes(bytes)
}

fn arrays() -> impl Strategy<Value = Array> {
    let flat = prop_oneof![
        vec(any::<u8>(), 0..9).prop_map(Array::U8),
        vec(any::<i8>(), 0..9).prop_map(Array::I8),
        vec(any::<u16>(), 0..9).prop_map(Array::U16),
        vec(any::<i16>(), 0..9).prop_map(Array::I16),
        vec(any::<u32>(), 0..9).prop_map(Array::U32),
        vec(any::<i32>(), 0..9).prop_map(Array::I32),
        vec(any::<f32>(), 0..9).prop_map(Array::F32),
        vec(any::<bool>(), 0..9).prop_map(Array::Bool),
        vec(any::<String>(), 0..9).prop_map(Array::String),
        vec(any::<u64>(), 0..9).prop_map(Array::U64),
        vec(any::<i64>(), 0..9).prop_map(Array::I64),
        vec(any::<f64>(), 0..9).prop_map(Array::F64),
    ];
    flat.prop_recursive(3, 16, 4, |inner| vec(inner, 0..4).prop_map(Array::Nested))
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<i8>().prop_map(Value::I8),
        any::<u16>().prop_map(Value::U16),
        any::<i16>().prop_map(Value::I16),
        any::<u32>().prop_map(Value::U32),
        any::<i32>().prop_map(Value::I32),
        any::<f32>().prop_map(Value::F32),
        any::<bool>().prop_map(Value::Bool),
        any::<String>().prop_map(Value::String),
        arrays().prop_map(Value::Array),
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        any::<f64>().prop_map(Value::F64),
    ]
}

fn formats() -> impl Strategy<Value = Format> {
    proptest::sample::select(Format::all().collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn everything_round_trips(
        values in vec(values(), 0..12),
        shapes in vec((formats(), 1u64..4, vec(1u64..4, 0..4)), 0..8),
        alignment in 0u32..9,
        seed: u8,
    ) {
        let mut writer = Writer::new();
        writer.alignment(1 << alignment);
        for (index, value) in values.iter().enumerate() {
            writer.set(format!("key.{index}"), value.clone());
        }
        let mut expected = Vec::new();
        for (index, (format, blocks, rest)) in shapes.iter().enumerate() {
            let dims = [&[blocks * format.block_len() as u64], rest.as_slice()].concat();
            let len = (blocks * rest.iter().product::<u64>()) as usize * format.block_bytes();
            let bytes: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect();
            writer.tensor(format!("tensor.{index}"), &dims, *format, bytes.clone()).unwrap();
            expected.push((dims, *format, bytes));
        }

        let gguf = written(&writer).unwrap();
        prop_assert_eq!(gguf.metadata().len(), values.len() + 1);
        for (index, value) in values.iter().enumerate() {
            prop_assert_eq!(gguf.metadata().get(&format!("key.{index}")), Some(value));
        }
        prop_assert_eq!(gguf.tensors().len(), expected.len());
        for (tensor, (dims, format, bytes)) in gguf.tensors().zip(&expected) {
            prop_assert_eq!((&tensor.dims, tensor.format), (dims, *format));
            prop_assert_eq!(gguf.data(tensor), bytes.as_slice());
            prop_assert_eq!(tensor.offset() % (1 << alignment), 0);
        }
    }
}

#[test]
fn setting_again_replaces() {
    let mut writer = Writer::new();
    writer.set("a", 1u32).set("b", 2u32).set("a", "new");
    let gguf = written(&writer).unwrap();
    let keys: Vec<_> = gguf.metadata().iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(gguf.metadata().str("a").unwrap(), "new");
}

#[test]
fn refuses_what_the_reader_would() {
    let mut writer = Writer::new();
    assert!(matches!(
        writer.tensor("a", &[4], Format::F32, vec![0; 12]),
        Err(GgufError::WrongSize { expected: 16, found: 12, .. })
    ));
    assert!(matches!(writer.tensor("a", &[4], Format::Q4_K, vec![]), Err(GgufError::RaggedRow { .. })));
    assert!(matches!(writer.tensor("a", &[], Format::F32, vec![]), Err(GgufError::BadRank { rank: 0, .. })));
    assert!(matches!(
        writer.tensor("a", &[1 << 63, 2], Format::F32, vec![]),
        Err(GgufError::TooLarge { .. })
    ));
    let long = "x".repeat(65536);
    assert!(matches!(
        writer.tensor(&long, &[1], Format::I8, vec![0]),
        Err(GgufError::AbsurdCount { count: 65536, .. })
    ));
    assert_eq!(written(&writer).unwrap().tensors().len(), 0, "a refused tensor is not added");

    writer.tensor("a", &[1], Format::I8, vec![0]).unwrap().tensor("a", &[1], Format::I8, vec![0]).unwrap();
    assert!(matches!(written(&writer), Err(GgufError::DuplicateTensor { .. })));

    assert!(matches!(written(Writer::new().alignment(48)), Err(GgufError::BadAlignment { alignment: 48 })));
    assert!(matches!(written(Writer::new().set(long, 1u8)), Err(GgufError::AbsurdCount { .. })));
    let deep = (0..8).fold(Array::U8(vec![]), |inner, _| Array::Nested(vec![inner]));
    assert!(matches!(written(Writer::new().set("deep", deep)), Err(GgufError::TooDeep { limit: 8, .. })));
}

#[test]
fn replaces_a_file_that_is_open() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("replaced.gguf");
    let mut writer = Writer::new();
    writer.tensor("a", &[4096], Format::I8, vec![1; 4096]).unwrap();
    writer.write_file(&path).unwrap();
    let old = Gguf::open(&path).unwrap();
    assert_eq!(old.paths().collect::<Vec<_>>(), [path.as_path()]);

    Writer::new().set("new", true).write_file(&path).unwrap();
    assert_eq!(old.data(old.tensor("a").unwrap()), [1; 4096]);
    assert!(Gguf::open(&path).unwrap().metadata().bool("new").unwrap());

    let nowhere = path.with_file_name("no-such-folder").join("x.gguf");
    let error = Writer::new().write_file(&nowhere).unwrap_err();
    assert!(matches!(error.root(), GgufError::Io(_)), "{error:?}");
}

#[test]
fn value_type_ids() {
    for kind in ValueType::ALL {
        assert_eq!(ValueType::from_id(kind.id()), Some(kind));
    }
    assert_eq!(ValueType::from_id(13), None);
}
