//! Every way a file can be wrong has its own error.

use bloomery_gguf::{Format, Gguf, GgufError};

use crate::raw::{Raw, array, string};

const F32: u32 = 0;
const Q8_0: u32 = 8;
const U32: u32 = 4;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

fn error(raw: &Raw) -> GgufError {
    Gguf::from_bytes(raw.bytes()).expect_err("the file is wrong")
}

/// Asserts the variant and parts of the message.
macro_rules! refused {
    ($raw:expr, $pattern:pat $(if $guard:expr)?, $($text:literal),*) => {
        let error = error(&$raw);
        assert!(matches!(&error, $pattern $(if $guard)?), "{error:?}");
        let message = error.to_string();
        $(assert!(message.contains($text), "{message}");)*
    };
}

fn small() -> Raw {
    Raw::new()
        .pair("general.architecture", STRING, &string(b"tiny"))
        .pair("list", ARRAY, &array(U32, 2, &[0; 8]))
        .tensor("a", &[4, 2], F32, 0)
        .tensor("b", &[32], Q8_0, 32)
        .data(96)
}

#[test]
fn the_small_file_is_right() {
    let gguf = Gguf::from_bytes(small().bytes()).unwrap();
    assert_eq!(gguf.data(gguf.tensor("b").unwrap()), (32..66).collect::<Vec<u8>>());
    let mut version_2 = small();
    version_2.version = 2u32.to_le_bytes();
    assert_eq!(Gguf::from_bytes(version_2.bytes()).unwrap().version(), 2);
}

/// Every prefix that does not hold all tensor bytes is refused; at the ends of the sections by the right name.
#[test]
fn truncated_everywhere() {
    let whole = small().bytes();
    let data_end = whole.len() - (96 - 66);
    for len in 0..data_end {
        let error = Gguf::from_bytes(whole[..len].to_vec()).expect_err("a prefix");
        let expected = match len {
            0..4 => "the magic",
            4..8 => "the version",
            8..16 => "the tensor count",
            16..24 => "count",
            _ => "",
        };
        assert!(error.to_string().contains(expected), "{len}: {error}");
    }
    assert!(Gguf::from_bytes(whole[..data_end].to_vec()).is_ok());

    // A truncation further on may first be seen by a count that no longer fits, so these have none.
    let raw = Raw::new().pair("key", U32, &[1, 0]);
    refused!(Raw { alignment: 1, ..raw }, GgufError::Truncated { need: 4, have: 2, .. }, "\"key\"");
    let mut raw = Raw { alignment: 1, ..Raw::new().pair("k", U32, &[0; 4]).tensor("name", &[1], F32, 0) };
    raw.tensors.truncate(raw.tensors.len() - 8);
    refused!(raw, GgufError::Truncated { need: 8, have: 0, .. }, "tensor \"name\"");
}

#[test]
fn magic_and_version() {
    refused!(
        Raw { magic: *b"ggjt", ..small() },
        GgufError::BadMagic { found: [b'g', b'g', b'j', b't'] },
        "GGUF"
    );
    for version in [0u32, 1, 4, 0x0003_0003] {
        let raw = Raw { version: version.to_le_bytes(), ..small() };
        refused!(raw, GgufError::UnsupportedVersion { version: found } if *found == version, "versions 2 and 3");
    }
    let raw = Raw { version: 3u32.to_be_bytes(), ..small() };
    refused!(raw, GgufError::BigEndian { version: 3 }, "big-endian");
}

#[test]
fn absurd_counts() {
    for count in [1 << 20, 1 << 40, u64::MAX] {
        let absurd = |raw: Raw, text: &str| {
            let error = error(&raw);
            assert!(
                matches!(&error, GgufError::AbsurdCount { count: found, .. } if *found == count),
                "{error:?}"
            );
            assert!(error.to_string().contains(text), "{error}");
        };
        absurd(Raw { tensor_count: count, ..small() }, "the tensor count");
        absurd(Raw { key_count: count, ..small() }, "the metadata count");
        absurd(small().pair("x", STRING, &count.to_le_bytes()), "the length of the value of \"x\"");
        for id in 0..13 {
            absurd(small().pair("x", ARRAY, &array(id, count, &[])), "the length of \"x\"");
        }
        let mut raw = small();
        raw.pairs.splice(..8, count.to_le_bytes());
        absurd(raw, "the length of metadata key 0");
        let mut raw = small();
        raw.tensors.splice(..8, count.to_le_bytes());
        absurd(raw, "the length of the name of tensor 0");
    }
    // A string one byte longer than the rest of the file.
    let raw =
        Raw { alignment: 1, ..Raw::new().pair("x", STRING, &[&5u64.to_le_bytes()[..], b"four"].concat()) };
    refused!(raw, GgufError::AbsurdCount { count: 5, limit: 4, .. }, "\"x\"");
    // A key longer than the specification allows, though the file has the bytes.
    let raw = Raw::new().pair(&"k".repeat(65536), U32, &[0; 4]);
    refused!(raw, GgufError::AbsurdCount { count: 65536, limit: 65535, .. }, "metadata key 0");
    // More than the file could hold of the smallest pair.
    refused!(
        Raw { key_count: 30, ..small() },
        GgufError::AbsurdCount { count: 30, .. },
        "the metadata count"
    );
}

#[test]
fn values() {
    refused!(small().pair("x", 13, &[0; 8]), GgufError::UnknownValueType { id: 13, .. }, "\"x\"");
    let unknown_element = array(77, 0, &[]);
    refused!(small().pair("x", ARRAY, &unknown_element), GgufError::UnknownValueType { id: 77, .. }, "\"x\"");
    refused!(small().pair("x", BOOL, &[2]), GgufError::BadBool { value: 2, .. }, "\"x\"");
    let bools = array(BOOL, 3, &[0, 1, 255]);
    refused!(small().pair("x", ARRAY, &bools), GgufError::BadBool { value: 255, .. }, "\"x\"");
    let text = string(b"ab\xff");
    refused!(small().pair("x", STRING, &text), GgufError::BadUtf8 { valid: 2, .. }, "\"x\"");
    let texts = array(STRING, 2, &[string(b"ok"), string(b"\xc3")].concat());
    refused!(small().pair("x", ARRAY, &texts), GgufError::BadUtf8 { valid: 0, .. }, "entry 1 of \"x\"");
    refused!(small().pair("list", U32, &[0; 4]), GgufError::DuplicateKey { .. }, "\"list\"");

    let mut raw = small();
    raw.pairs[8] = 0xff;
    refused!(raw, GgufError::BadUtf8 { offset: 32, valid: 0, .. }, "metadata key 0");
}

#[test]
fn nested_arrays_have_a_limit() {
    let nested = |depth: usize| (1..depth).fold(array(U32, 0, &[]), |inner, _| array(ARRAY, 1, &inner));
    assert!(Gguf::from_bytes(small().pair("x", ARRAY, &nested(8)).bytes()).is_ok());
    refused!(small().pair("x", ARRAY, &nested(9)), GgufError::TooDeep { limit: 8, .. }, "\"x\"");
    // Deep enough to end a recursion without a limit.
    refused!(
        small().pair("x", ARRAY, &array(ARRAY, 1, &[]).repeat(1 << 20)),
        GgufError::TooDeep { .. },
        "\"x\""
    );
}

#[test]
fn alignment() {
    for alignment in [0u32, 3, 33, u32::MAX] {
        let raw = small().pair("general.alignment", U32, &alignment.to_le_bytes());
        refused!(
            raw,
            GgufError::BadAlignment { alignment: found } if *found == u64::from(alignment),
            "power of two"
        );
    }
    refused!(small().pair("general.alignment", BOOL, &[1]), GgufError::WrongType { .. }, "general.alignment");
    // A power of two beyond the file: the data starts nowhere.
    for alignment in [1u64 << 31, 1 << 63] {
        let raw = Raw::new().pair("general.alignment", 10, &alignment.to_le_bytes());
        assert!(Gguf::from_bytes(raw.bytes()).is_ok(), "no tensors, no data");
        refused!(raw.tensor("a", &[1], F32, 0).data(64), GgufError::OutOfFile { .. }, "\"a\"");
    }
    let mut raw =
        Raw::new().pair("general.alignment", U32, &64u32.to_le_bytes()).tensor("a", &[1], F32, 64).data(68);
    raw.alignment = 64;
    let gguf = Gguf::from_bytes(raw.bytes()).unwrap();
    assert_eq!(gguf.data(gguf.tensor("a").unwrap()), [64, 65, 66, 67]);
    refused!(
        small().tensor("c", &[1], F32, 36),
        GgufError::Misaligned { offset: 36, alignment: 32, .. },
        "\"c\""
    );
}

#[test]
fn shapes() {
    for rank in [0usize, 5] {
        let raw = small().tensor("c", &vec![1; rank], F32, 0);
        refused!(raw, GgufError::BadRank { rank: found, .. } if *found == rank as u32, "\"c\"");
    }
    let mut raw = Raw::new().tensor("c", &[1], F32, 0);
    raw.tensors.splice(9..13, u32::MAX.to_le_bytes());
    refused!(raw, GgufError::BadRank { rank: u32::MAX, .. }, "\"c\"");

    refused!(small().tensor("c", &[4, 0], F32, 0), GgufError::EmptyDimension { .. }, "\"c\"", "[4, 0]");
    for dims in [&[1 << 32, 1 << 32][..], &[1 << 62], &[1 << 20, 1 << 20, 1 << 20, 1 << 20]] {
        refused!(small().tensor("c", dims, F32, 0), GgufError::TooLarge { .. }, "\"c\"");
    }
    refused!(
        small().tensor("c", &[48, 2], Q8_0, 0),
        GgufError::RaggedRow { row: 48, format: Format::Q8_0, block: 32, .. },
        "\"c\"",
        "Q8_0"
    );
    for id in [4u32, 5, 36, 1000, u32::MAX] {
        refused!(
            small().tensor("c", &[32], id, 0),
            GgufError::UnknownFormat { id: found, .. } if *found == id,
            "\"c\""
        );
    }
}

#[test]
fn places() {
    refused!(small().tensor("a", &[4], F32, 96).data(112), GgufError::DuplicateTensor { .. }, "\"a\"");
    let end = small().tensor("c", &[1], F32, 96).bytes().len() as u64;
    refused!(
        small().tensor("c", &[1], F32, 96),
        GgufError::OutOfFile { offset, bytes: 4, file, .. } if *offset == end && *file == end,
        "\"c\""
    );
    for offset in [1 << 40, u64::MAX - 31] {
        refused!(small().tensor("c", &[1], F32, offset), GgufError::OutOfFile { .. }, "\"c\"");
    }
    refused!(small().tensor("c", &[1 << 40], F32, 0), GgufError::OutOfFile { .. }, "\"c\"");
    // Inside "b", which takes 34 bytes from 32.
    refused!(small().tensor("c", &[1], F32, 64), GgufError::Overlap { .. }, "\"b\"", "\"c\"");
    refused!(small().tensor("c", &[1], F32, 32), GgufError::Overlap { .. }, "\"b\"", "\"c\"");
    // Out of order and with a gap is fine.
    let raw = Raw::new().tensor("a", &[1], F32, 64).tensor("b", &[1], F32, 0).data(68);
    let gguf = Gguf::from_bytes(raw.bytes()).unwrap();
    let names: Vec<_> = gguf.tensors().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn what_is_not_there() {
    let gguf = Gguf::from_bytes(small().bytes()).unwrap();
    assert!(gguf.tensor("c").is_none());
    assert_eq!(gguf.require("c").unwrap_err().to_string(), "no tensor \"c\" in the file");
    // An entry of another, larger model reads nothing here and does not panic.
    let other = Raw::new().tensor("z", &[1], F32, 1 << 16).data((1 << 16) + 4);
    let other = Gguf::from_bytes(other.bytes()).unwrap();
    assert!(gguf.data(other.tensor("z").unwrap()).is_empty());
}

#[test]
fn files_that_cannot_be_read() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    for path in [folder.join("no-such-file.gguf"), folder.to_owned()] {
        let error = Gguf::open(&path).unwrap_err();
        assert!(matches!(error.root(), GgufError::Io(_)), "{error:?}");
        assert!(error.to_string().starts_with(&*path.to_string_lossy()), "{error}");
    }
    let empty = folder.join("empty.gguf");
    std::fs::write(&empty, []).unwrap();
    let error = Gguf::open(&empty).unwrap_err();
    assert!(matches!(error.root(), GgufError::Truncated { need: 4, have: 0, .. }), "{error:?}");
}
