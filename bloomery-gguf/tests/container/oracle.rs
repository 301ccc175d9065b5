//! `oracle.bin` comes from another implementation (see `oracle.py`): every type must read, and the writer must
//! make the same bytes.

use bloomery_gguf::{Array, Format, Gguf, Value, ValueType, Writer};

const ORACLE: &[u8] = include_bytes!("oracle.bin");

fn pairs() -> Vec<(&'static str, Value)> {
    vec![
        ("general.architecture", "tiny".into()),
        ("v.u8", 200u8.into()),
        ("v.i8", (-100i8).into()),
        ("v.u16", 60000u16.into()),
        ("v.i16", (-30000i16).into()),
        ("v.u32", 4_000_000_000u32.into()),
        ("v.i32", (-2_000_000_000i32).into()),
        ("v.f32", 0.1f32.into()),
        ("v.bool", true.into()),
        ("v.string", "blühende 花".into()),
        ("v.u64", ((1u64 << 63) + 5).into()),
        ("v.i64", (-(1i64 << 62)).into()),
        ("v.f64", 0.1f64.into()),
        ("a.u8", vec![1u8, 255].into()),
        ("a.i8", vec![-1i8, 2].into()),
        ("a.u16", vec![1u16, 65535].into()),
        ("a.i16", vec![-1i16, 2].into()),
        ("a.u32", vec![1u32, u32::MAX].into()),
        ("a.i32", vec![-1i32, 2].into()),
        ("a.f32", vec![0.5f32, -2.0].into()),
        ("a.bool", vec![true, false, true].into()),
        ("a.string", vec![String::new(), "a".into(), "é".into()].into()),
        ("a.u64", vec![u64::MAX].into()),
        ("a.i64", vec![i64::MIN].into()),
        ("a.f64", vec![1e300f64].into()),
        ("a.nested", Array::Nested(vec![Array::I32(vec![1, 2]), Array::I32(vec![3])]).into()),
    ]
}

#[test]
fn every_value_type_reads() {
    let gguf = Gguf::from_static(ORACLE).unwrap();
    let expected = pairs();
    let found: Vec<_> = gguf.metadata().iter().map(|(key, value)| (key, value.clone())).collect();
    assert_eq!(found, expected);
    for kind in ValueType::ALL {
        assert!(expected.iter().any(|(_, value)| value.value_type() == kind), "{kind} is not in the oracle");
    }
}

#[test]
fn tensors_read() {
    let gguf = Gguf::from_static(ORACLE).unwrap();
    let table: Vec<_> =
        gguf.tensors().map(|t| (t.name.as_str(), t.dims.clone(), t.format, t.bytes())).collect();
    assert_eq!(
        table,
        [
            ("first.weight", vec![3, 2], Format::F32, 24),
            ("second.weight", vec![64, 2], Format::Q8_0, 136),
            ("third.bias", vec![5], Format::F16, 10),
        ]
    );
    let first: Vec<u8> = (0u8..6).flat_map(|v| f32::from(v).to_le_bytes()).collect();
    assert_eq!(gguf.data(gguf.require("first.weight").unwrap()), first);
    let second: Vec<u8> = (0..136).collect();
    assert_eq!(gguf.data(gguf.require("second.weight").unwrap()), second);
    let third = gguf.require("third.bias").unwrap();
    assert_eq!((third.row_len(), third.rows(), third.elements(), third.shard()), (5, 1, 5, 0));
    assert_eq!(gguf.data(third)[2..4], 0x3c00u16.to_le_bytes());
    assert_eq!((gguf.version(), gguf.file_bytes(), gguf.paths().count()), (3, ORACLE.len() as u64, 0));
    assert_eq!(gguf.mappings().count(), 0, "it is in memory, not in a mapping");
}

#[test]
fn the_writer_makes_the_same_bytes() {
    let gguf = Gguf::from_static(ORACLE).unwrap();
    let mut writer = Writer::new();
    for (key, value) in pairs() {
        writer.set(key, value);
    }
    for tensor in gguf.tensors() {
        writer.tensor(&tensor.name, &tensor.dims, tensor.format, gguf.data(tensor)).unwrap();
    }
    let mut out = Vec::new();
    writer.write_to(&mut out).unwrap();
    assert!(out == ORACLE, "{} bytes written, {} in the oracle", out.len(), ORACLE.len());
}
