//! Counts that are kept between runs.

use std::fs;
use std::path::PathBuf;

use crate::residency::{Heat, HeatError};

const MODEL: u64 = 0x0123_4567_89ab_cdef;

/// A folder that is gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bloomery-heat-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn heat() -> Heat {
    Heat { layers: vec![vec![1, 2, 3], vec![], vec![u32::MAX, 0]] }
}

#[test]
fn a_file_is_replaced_as_a_whole_and_read_back() {
    let folder = Folder::new("whole");
    let path = folder.0.join("model.heat");
    heat().write(&path, 1).unwrap();
    heat().write(&path, MODEL).unwrap();
    assert_eq!(Heat::read(&path, MODEL, &[3, 0, 2]).unwrap(), heat());
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing else is left");
    // A failure leaves the old file, and nothing else, behind.
    let below = path.join("below");
    assert!(matches!(heat().write(&below, MODEL), Err(HeatError::Io { .. })));
    assert!(matches!(heat().write(&folder.0, MODEL), Err(HeatError::Io { path, .. }) if path == folder.0));
    assert_eq!(Heat::read(&path, MODEL, &[3, 0, 2]).unwrap(), heat());
    assert_eq!(
        fs::read_dir(folder.0.parent().unwrap())
            .unwrap()
            .filter(|entry| {
                entry
                    .as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .starts_with(&format!("bloomery-heat-whole-{}", std::process::id()))
            })
            .count(),
        1
    );
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let folder = Folder::new("wrong");
    let path = folder.0.join("model.heat");
    assert!(matches!(Heat::read(&path, MODEL, &[3, 0, 2]), Err(HeatError::Io { .. })));
    heat().write(&path, MODEL).unwrap();
    let good = fs::read(&path).unwrap();
    let read = |bytes: &[u8], model: u64, experts: &[usize]| {
        fs::write(&path, bytes).unwrap();
        Heat::read(&path, model, experts)
    };
    let error = read(&good, 5, &[3, 0, 2]).unwrap_err();
    assert!(matches!(error, HeatError::OtherModel { found: MODEL, expected: 5, .. }));
    let text = error.to_string();
    assert!(text.contains("model.heat") && text.contains("0123456789abcdef"), "{text}");
    let error = read(&good, MODEL, &[3, 1, 1]).unwrap_err();
    assert!(matches!(error, HeatError::Experts { layer: 1, found: 0, expected: 1, .. }), "{error}");
    let error = read(&good, MODEL, &[3, 0, 3]).unwrap_err();
    assert!(matches!(error, HeatError::Length { found: 64, expected: 68, .. }), "{error}");
    // Cut off anywhere, or with something behind.
    for len in 0..good.len() {
        let error = read(&good[..len], MODEL, &[3, 0, 2]).unwrap_err();
        assert!(matches!(error, HeatError::NotHeat { .. } | HeatError::Length { .. }), "{len}: {error}");
    }
    let longer = [&good[..], &[0]].concat();
    assert!(matches!(read(&longer, MODEL, &[3, 0, 2]), Err(HeatError::Length { found: 65, .. })));
    // Any changed bit.
    for bit in 0..8 * good.len() {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let error = read(&bad, MODEL, &[3, 0, 2]).unwrap_err();
        let expected = match bit / 8 {
            0..8 => matches!(error, HeatError::NotHeat { .. }),
            8..12 => matches!(error, HeatError::Version { supported: 1, .. }),
            16..24 => matches!(error, HeatError::OtherModel { .. }),
            _ => matches!(error, HeatError::Checksum { .. }),
        };
        assert!(expected, "bit {bit}: {error}");
    }
}
