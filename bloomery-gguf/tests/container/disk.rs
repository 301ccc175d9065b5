//! Parts of tensors, read where they lie.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use bloomery_gguf::{Format, Gguf, Writer};

const LEN: usize = 300_000;

fn writer() -> Writer<'static> {
    let mut writer = Writer::new();
    for name in ["first", "second"] {
        let bytes: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8 ^ name.len() as u8).collect();
        writer.tensor(name, &[LEN as u64], Format::I8, bytes).expect("as many bytes as values");
    }
    writer
}

fn file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    writer().write_file(&path).expect("the test file");
    path
}

#[test]
fn parts_are_those_of_the_tensor() {
    let mut bytes = Vec::new();
    writer().write_to(&mut bytes).unwrap();
    for gguf in [Gguf::open(file("parts.gguf")).unwrap(), Gguf::from_bytes(bytes).unwrap()] {
        for tensor in gguf.tensors() {
            for (start, len) in [(0, LEN), (0, 0), (4095, 2), (77_777, 4096), (LEN - 1, 1), (LEN, 0)] {
                gguf.prefetch(tensor, start..start + len);
                let mut part = vec![0; len];
                gguf.read(tensor, start, &mut part).unwrap();
                assert!(part == gguf.data(tensor)[start..start + len], "{len} bytes from {start}");
            }
        }
    }
}

#[test]
fn mappings_leave_inner_pages_of_tensors_out() {
    let gguf = Gguf::open(file("without.gguf")).unwrap();
    let whole: Vec<&[u8]> = gguf.mappings().collect();
    assert_eq!(gguf.mappings_without(&[]), whole);
    let second = gguf.require("second").unwrap();
    let pieces = gguf.mappings_without(&[second]);
    let (start, data) = (whole[0].as_ptr().addr(), gguf.data(second).as_ptr().addr());
    let [one, two] = pieces[..] else { panic!("{} pieces", pieces.len()) };
    // The hole is made of whole pages, as large as any system has them, and lies within the tensor.
    let hole = one.as_ptr().addr() + one.len()..two.as_ptr().addr();
    assert_eq!(one.as_ptr().addr(), start);
    assert_eq!(two.as_ptr().addr() + two.len(), start + whole[0].len());
    assert!((hole.start - start) % 65536 == 0 && (hole.end - start) % 65536 == 0 && !hole.is_empty());
    assert!(data <= hole.start && hole.end <= data + LEN);
    assert!(
        Gguf::from_bytes(fs::read(gguf.paths().next().unwrap()).unwrap())
            .unwrap()
            .mappings_without(&[])
            .is_empty()
    );
}

#[test]
fn a_part_beyond_the_tensor_is_refused() {
    let gguf = Gguf::open(file("beyond.gguf")).unwrap();
    let tensor = gguf.require("first").unwrap();
    for (start, len) in [(LEN, 1), (LEN - 1, 2), (usize::MAX, 2)] {
        gguf.prefetch(tensor, start..start.saturating_add(len));
        let error = gguf.read(tensor, start, &mut vec![0; len]).unwrap_err().to_string();
        assert!(error.contains("\"first\"") && error.contains("the tensor ends before"), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn what_the_disk_does_not_have_is_an_error_with_its_place() {
    let path = file("cut.gguf");
    let gguf = Gguf::open(&path).unwrap();
    let tensor = gguf.require("second").unwrap();
    let offset = tensor.offset();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(offset + 5000).unwrap();
    let mut part = [0; 100];
    gguf.read(tensor, 4900, &mut part).unwrap();
    let error = gguf.read(tensor, 4901, &mut part).unwrap_err().to_string();
    let place = format!("100 bytes of tensor \"second\" from offset {}", offset + 4901);
    assert!(error.contains(&place) && error.contains(path.to_str().unwrap()), "{error}");
}
