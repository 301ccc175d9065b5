//! Damaged files give an error or a model, never a panic.

use bloomery_gguf::{Gguf, Metadata};
use proptest::collection::vec;
use proptest::prelude::*;

const ORACLE: &[u8] = include_bytes!("oracle.bin");

/// Reads a file and everything in it.
fn read(bytes: Vec<u8>) {
    let len = bytes.len() as u64;
    let Ok(gguf) = Gguf::from_bytes(bytes) else { return };
    let mut total = 0;
    for tensor in gguf.tensors() {
        assert_eq!(gguf.data(tensor).len() as u64, tensor.bytes());
        assert!(tensor.offset() + tensor.bytes() <= len);
        assert!(tensor.rows() * tensor.row_len() == tensor.elements());
        total += tensor.bytes();
    }
    assert!(total <= len, "tensors do not overlap");
    getters(gguf.metadata());
}

fn getters(metadata: &Metadata) {
    for (key, value) in metadata.iter() {
        let _ = (metadata.u32(key), metadata.i64(key), metadata.f32(key), metadata.bool(key));
        let _ = (metadata.u32s(key), metadata.f32s(key), metadata.bools(key), metadata.strings(key));
        let _ = (metadata.per_layer_u32(key, 2), metadata.str(key), value.to_string());
    }
}

/// Numbers that break arithmetic more often than random ones.
fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0u64..64,
        (0u32..64).prop_map(|shift| 1 << shift),
        (0u64..64).prop_map(|less| u64::MAX - less),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn changed_bytes(changes in vec((0..ORACLE.len(), any::<u8>()), 1..6)) {
        let mut bytes = ORACLE.to_vec();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        read(bytes);
    }

    #[test]
    fn changed_numbers(changes in vec((0..ORACLE.len() - 8, numbers(), 1usize..9), 1..3)) {
        let mut bytes = ORACLE.to_vec();
        for (at, number, width) in changes {
            bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
        }
        read(bytes);
    }

    #[test]
    fn cut_and_changed(len in 0..ORACLE.len(), at: prop::sample::Index, byte: u8) {
        let mut bytes = ORACLE[..len].to_vec();
        if let Some(place) = bytes.get_mut(at.index(ORACLE.len())) {
            *place = byte;
        }
        read(bytes);
    }

    #[test]
    fn pieces_moved(from in 0..ORACLE.len(), len in 0usize..64, to in 0..ORACLE.len(), insert: bool) {
        let piece = ORACLE[from..(from + len).min(ORACLE.len())].to_vec();
        let end = if insert { to } else { (to + len).min(ORACLE.len()) };
        let mut bytes = ORACLE.to_vec();
        bytes.splice(to..end, piece);
        read(bytes);
    }

    #[test]
    fn noise(tail in vec(any::<u8>(), 0..256), tensors in numbers(), keys in numbers()) {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(tensors.to_le_bytes());
        bytes.extend(keys.to_le_bytes());
        bytes.extend(&tail);
        read(bytes);
        read(tail);
    }
}

/// Every single byte of the head set to its extremes.
#[test]
fn every_byte() {
    for at in 0..ORACLE.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = ORACLE.to_vec();
            bytes[at] = byte;
            read(bytes);
        }
    }
}

#[test]
fn every_prefix() {
    for len in 0..ORACLE.len() {
        read(ORACLE[..len].to_vec());
    }
}
