//! Models in several files.

use std::fs;
use std::path::{Path, PathBuf};

use bloomery_gguf::{Format, Gguf, GgufError, Writer};

/// A fresh folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("split").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the test folder");
    folder
}

fn path(folder: &Path, number: u16, count: u16) -> PathBuf {
    folder.join(format!("model-{:05}-of-{count:05}.gguf", number + 1))
}

/// A shard with one tensor `t.NUMBER`, before a test spoils it.
fn shard(number: u16, count: u16) -> Writer<'static> {
    let mut writer = Writer::new();
    if number == 0 {
        writer.set("general.architecture", "tiny");
    }
    writer.set("split.no", number).set("split.count", count).set("split.tensors.count", i32::from(count));
    writer.tensor(format!("t.{number}"), &[4], Format::I8, vec![number as u8; 4]).expect("four bytes");
    writer
}

fn write_all(folder: &Path, count: u16) {
    for number in 0..count {
        shard(number, count).write_file(path(folder, number, count)).expect("a shard");
    }
}

#[test]
fn opens_from_any_shard() {
    let folder = folder("any");
    write_all(&folder, 3);
    for number in 0..3 {
        let gguf = Gguf::open(path(&folder, number, 3)).unwrap();
        assert_eq!(gguf.metadata().architecture().unwrap(), "tiny");
        let names: Vec<_> = gguf.tensors().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(names, ["t.0", "t.1", "t.2"]);
        for (index, tensor) in gguf.tensors().enumerate() {
            assert_eq!(tensor.shard(), index);
            assert_eq!(gguf.data(tensor), [index as u8; 4]);
        }
        let paths: Vec<_> = (0..3).map(|number| path(&folder, number, 3)).collect();
        assert_eq!(gguf.paths().collect::<Vec<_>>(), paths);
        let mapped: usize = gguf.mappings().map(<[u8]>::len).sum();
        assert_eq!((gguf.mappings().count(), mapped as u64), (paths.len(), gguf.file_bytes()));
        let sizes: u64 = paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
        assert_eq!(gguf.file_bytes(), sizes);
    }
}

#[test]
fn names_the_missing_shard() {
    let folder = folder("missing");
    write_all(&folder, 3);
    fs::remove_file(path(&folder, 1, 3)).unwrap();
    for number in [0, 2] {
        let error = Gguf::open(path(&folder, number, 3)).unwrap_err();
        assert!(
            matches!(error.root(), GgufError::MissingShard { path: missing, number: 2, count: 3 }
                if *missing == path(&folder, 1, 3)),
            "{error:?}"
        );
    }
}

#[test]
fn a_broken_shard_is_named() {
    let folder = folder("broken");
    write_all(&folder, 2);
    fs::write(path(&folder, 1, 2), b"GGUF").unwrap();
    let error = Gguf::open(path(&folder, 0, 2)).unwrap_err();
    assert!(
        matches!(&error, GgufError::InFile { path: broken, error }
            if *broken == path(&folder, 1, 2) && matches!(**error, GgufError::Truncated { .. })),
        "{error:?}"
    );
}

/// Opens the first of three shards, of which the second is `spoilt`.
fn disagreement(name: &str, spoilt: &Writer) -> GgufError {
    let folder = folder(name);
    write_all(&folder, 3);
    spoilt.write_file(path(&folder, 1, 3)).expect("a shard");
    Gguf::open(path(&folder, 0, 3)).expect_err("a spoilt shard")
}

#[test]
fn shards_must_agree() {
    let error = disagreement("count", shard(1, 3).set("split.count", 4u16));
    assert!(
        matches!(error.root(), GgufError::ShardDisagrees { key: "split.count", expected: 3, found: 4 }),
        "{error:?}"
    );
    assert!(error.to_string().contains("model-00002-of-00003.gguf"), "{error}");
    let error = disagreement("number", shard(1, 3).set("split.no", 2u16));
    assert!(
        matches!(error.root(), GgufError::ShardDisagrees { key: "split.no", expected: 1, found: 2 }),
        "{error:?}"
    );
    let error = disagreement("tensors", shard(1, 3).set("split.tensors.count", 9));
    assert!(
        matches!(
            error.root(),
            GgufError::ShardDisagrees { key: "split.tensors.count", expected: 3, found: 9 }
        ),
        "{error:?}"
    );
    let error = disagreement("extra", shard(1, 3).tensor("extra", &[1], Format::I8, vec![0]).unwrap());
    assert!(
        matches!(
            error.root(),
            GgufError::ShardDisagrees { key: "split.tensors.count", expected: 3, found: 4 }
        ),
        "{error:?}"
    );
    let error = disagreement("whole", &Writer::new());
    assert!(
        matches!(error.root(), GgufError::ShardDisagrees { key: "split.count", expected: 3, found: 1 }),
        "{error:?}"
    );
    let mut twice = Writer::new();
    twice.set("split.no", 1u16).set("split.count", 3u16).tensor("t.0", &[1], Format::I8, vec![0]).unwrap();
    let error = disagreement("twice", &twice);
    assert!(matches!(error.root(), GgufError::DuplicateTensor { tensor } if tensor == "t.0"), "{error:?}");
}

#[test]
fn names_must_fit_the_numbers() {
    let folder = folder("names");
    for name in ["model.gguf", "model-00001-of-00002.gguf", "model-00002-of-00003.gguf", "model-1-of-3.gguf"]
    {
        let path = folder.join(name);
        shard(0, 3).write_file(&path).unwrap();
        let error = Gguf::open(&path).unwrap_err();
        assert!(matches!(error.root(), GgufError::ShardName { number: 1, count: 3 }), "{name}: {error:?}");
        assert!(error.to_string().contains("NAME-00001-of-00003.gguf"), "{error}");
    }
    let path = folder.join("model-00006-of-00003.gguf");
    shard(5, 3).write_file(&path).unwrap();
    let error = Gguf::open(&path).unwrap_err();
    assert!(matches!(error.root(), GgufError::ShardDisagrees { key: "split.no", found: 5, .. }), "{error:?}");
}

#[test]
fn damaged_numbers() {
    let folder = folder("damaged");
    for (number, count) in [(u64::MAX, u64::MAX), (0, u64::MAX), (u64::MAX - 1, u64::MAX), (u64::MAX, 2)] {
        let path = folder.join(format!("model-{:05}-of-{count:05}.gguf", number.saturating_add(1)));
        Writer::new().set("split.no", number).set("split.count", count).write_file(&path).unwrap();
        let error = Gguf::open(&path).unwrap_err();
        assert!(
            matches!(error.root(), GgufError::ShardDisagrees { .. } | GgufError::MissingShard { .. }),
            "{error:?}"
        );
    }
}

#[test]
fn sets_of_one_and_merged_files() {
    let folder = folder("one");
    for count in [0u16, 1] {
        let path = folder.join("any-name.gguf");
        shard(0, count).write_file(&path).unwrap();
        assert_eq!(Gguf::open(&path).unwrap().tensors().len(), 1);
    }
}

#[test]
fn memory_holds_no_set() {
    let mut bytes = Vec::new();
    shard(0, 3).write_to(&mut bytes).unwrap();
    assert!(matches!(Gguf::from_bytes(bytes), Err(GgufError::ShardInMemory { count: 3 })));
}
