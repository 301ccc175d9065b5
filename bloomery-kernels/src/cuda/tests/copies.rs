//! Memory of the host, and streams that wait for each other: on a card only.

use std::sync::Arc;

use super::super::testing::card;
use super::super::{CudaError, HostSource};
use crate::cpu::testing::Rng;

#[test]
fn registered_memory_is_copied_while_another_stream_waits() {
    let Some(device) = card() else { return };
    let mut rng = Rng::new(3);
    let bytes: Vec<u8> = (0..3 << 20).map(|_| rng.below(256) as u8).collect();
    let owner = Arc::new(bytes.clone());
    // The last pages alone: where the part starts does not matter.
    let source = HostSource::registered(&device, owner, |owner| vec![&owner[4100..]]).unwrap();
    let all = &source.owner()[4100..];
    let (mut copies, mut work) = (device.stream().unwrap(), device.stream().unwrap());
    let (first, second) = (device.alloc::<u8>(1 << 20).unwrap(), device.alloc::<u8>(1 << 20).unwrap());
    let mut mark = copies.mark().unwrap();
    for start in [0, 17, 1 << 20] {
        source.copy(&mut copies, &all[start..start + (1 << 20)], &first.span()).unwrap();
        copies.mark_again(&mut mark).unwrap();
        work.wait(&mark).unwrap();
        work.copy(&first.span(), &second.span()).unwrap();
        let mut read = vec![0; 1 << 20];
        work.download(&second.span(), &mut read).unwrap();
        assert!(mark.is_over().unwrap());
        assert!(read == bytes[4100 + start..][..1 << 20], "from {start} on");
        // The next copy goes over what this one has read.
        let read = work.mark().unwrap();
        copies.wait(&read).unwrap();
    }
    let two = first.slice(0..2).unwrap();
    for elsewhere in [&source.owner()[4099..4101], &bytes[..2]] {
        let error = source.copy(&mut copies, elsewhere, &two).unwrap_err().to_string();
        assert!(error.ends_with("must be an address of the source"), "{error}");
    }
    assert!(source.copy(&mut copies, &all[..3], &two).is_err());
    let error = copies.capture(|stream| source.copy(stream, &all[..2], &two));
    assert!(matches!(error, Err(CudaError::Contract { what: "captures under way", .. })), "{error:?}");
}

#[test]
fn words_are_filled() {
    let Some(device) = card() else { return };
    let mut stream = device.stream().unwrap();
    let words = device.alloc::<u32>(5).unwrap();
    stream.fill_words(&words.slice(1..4).unwrap(), 0x1234_5678).unwrap();
    let mut read = [0; 5];
    stream.download(&words.span(), &mut read).unwrap();
    assert_eq!(read, [0, 0x1234_5678, 0x1234_5678, 0x1234_5678, 0]);
}

#[test]
fn places_are_gathered_and_scattered() {
    let Some(device) = card() else { return };
    let mut stream = device.stream().unwrap();
    let mut rng = Rng::new(5);
    let bytes: Vec<u8> = (0..1 << 20).map(|_| rng.below(256) as u8).collect();
    let memory = device.alloc::<u8>(1 << 20).unwrap();
    stream.upload(&bytes, &memory.span()).unwrap();
    let parts = [(70_001, 30_000), (3, 1), (500_000, 500_000), (0, 0)];
    let places: Vec<_> =
        parts.iter().map(|&(start, len)| memory.slice(start..start + len).unwrap()).collect();
    let wanted: Vec<u8> =
        parts.iter().flat_map(|&(start, len)| &bytes[start..start + len]).copied().collect();
    let mut pinned = device.pinned::<u8>(wanted.len()).unwrap();
    stream.gather(&places, pinned.values_mut()).unwrap();
    assert!(pinned.values() == wanted);
    assert!(stream.gather(&places, &mut [0; 7]).is_err() && stream.scatter(&[0; 7], &places).is_err());

    stream.fill(&memory.span(), 0).unwrap();
    stream.scatter(pinned.values(), &places).unwrap();
    let mut read = vec![0; 1 << 20];
    stream.download(&memory.span(), &mut read).unwrap();
    let inside = |at: usize| parts.iter().any(|&(start, len)| (start..start + len).contains(&at));
    assert!((0..read.len()).all(|at| read[at] == if inside(at) { bytes[at] } else { 0 }));
}
