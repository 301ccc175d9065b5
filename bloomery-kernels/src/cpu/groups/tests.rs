//! Groups of positions against the definition in double precision, in pieces of any size and pages in any order.

use super::super::testing::{Rng, bits, cpus};
use super::*;

struct Sequence {
    shape: GroupShape,
    pages: Vec<u32>,
    values: Vec<f32>,
    gates: Vec<f32>,
    places: Option<Vec<f32>>,
    gain: Vec<f32>,
}

impl Sequence {
    fn new(rng: &mut Rng, shape: GroupShape, places: bool, len: usize) -> Self {
        let channels = shape.channels();
        Self {
            shape,
            pages: (0..len.div_ceil(PAGE) as u32).rev().collect(),
            values: rng.normals(len * channels),
            gates: rng.normals(len * channels).iter().map(|gate| 2.0 * gate).collect(),
            places: places.then(|| rng.normals(shape.positions * channels)),
            gain: rng.normals(shape.width),
        }
    }

    fn spec(&self) -> GroupSpec<'_> {
        GroupSpec { places: self.places.as_deref(), norm: Norm { gain: &self.gain, eps: 1e-6 } }
    }

    /// Rows of all positions, `piece` at a time, with memory that held something else.
    fn rows(&self, cpu: &Cpu, piece: usize) -> Vec<f32> {
        let (channels, width) = (self.shape.channels(), self.shape.width);
        let len = self.values.len() / channels;
        let mut memory = vec![f32::NAN; self.pages.len() * self.shape.page_len()];
        let mut out = Vec::new();
        for start in (0..len).step_by(piece) {
            let rows = start..len.min(start + piece);
            let slot = |at: usize| RowSlot { page: self.pages[at / PAGE], offset: (at % PAGE) as u32 };
            let slots: Vec<RowSlot> = rows.clone().map(slot).collect();
            let view = |at: usize| RowView { pages: &self.pages, len: at as u32 + 1, mask: None };
            let views: Vec<RowView<'_>> = rows.clone().map(view).collect();
            let part = rows.start * channels..rows.end * channels;
            let gates = (self.shape.positions > 1).then(|| &self.gates[part.clone()]);
            let input = GroupInput { values: &self.values[part], gates };
            let mut now = vec![f32::NAN; rows.len() * width];
            cpu.group_rows(self.shape, (input, &self.spec()), &mut memory, (&views, &slots), &mut now)
                .unwrap();
            out.extend(now);
        }
        out
    }

    /// The row of the group that ends before `len`.
    fn exact(&self, len: usize) -> Vec<f64> {
        let GroupShape { width, positions, overlap } = self.shape;
        let channels = self.shape.channels();
        let (first, own) = (len - positions, if overlap { width } else { 0 });
        let before = first.saturating_sub(if overlap { positions } else { 0 });
        let column = |column: usize| {
            let member = |at: usize| {
                let channel = column + if at < first { 0 } else { own };
                let place = self.places.as_ref().map_or(0.0, |p| p[at % positions * channels + channel]);
                let gate = f64::from(self.gates[at * channels + channel]) + f64::from(place);
                (gate.exp(), f64::from(self.values[at * channels + channel]))
            };
            let total: f64 = (before..len).map(|at| member(at).0).sum();
            let plain = f64::from(self.values[(len - 1) * channels + column]);
            if positions == 1 {
                plain
            } else {
                (before..len).map(|at| member(at).0 / total * member(at).1).sum()
            }
        };
        let row: Vec<f64> = (0..width).map(column).collect();
        let size = (row.iter().map(|x| x * x).sum::<f64>() / width as f64 + 1e-6).sqrt();
        row.iter().zip(&self.gain).map(|(x, gain)| x / size * f64::from(*gain)).collect()
    }
}

#[test]
fn rows_are_those_of_the_definition() {
    let mut rng = Rng::new(6);
    for (positions, overlap, places) in
        [(1, false, false), (2, false, false), (2, false, true), (4, true, true), (128, false, true)]
    {
        let shape = GroupShape::new(24, positions, overlap).unwrap();
        let sequence = Sequence::new(&mut rng, shape, places, 300);
        let mut first: Option<Vec<f32>> = None;
        for cpu in cpus() {
            for piece in [300, 1, 3, 65] {
                let rows = sequence.rows(&cpu, piece);
                let first = first.get_or_insert_with(|| rows.clone());
                assert_eq!(bits(&rows), bits(first), "{shape:?} in pieces of {piece} on {cpu:?}");
            }
        }
        for (at, row) in first.unwrap().chunks(24).enumerate() {
            if (at + 1) % positions > 0 {
                assert!(row.iter().all(|&x| x == 0.0), "{shape:?}: position {at} ends no group");
                continue;
            }
            for (found, exact) in row.iter().zip(sequence.exact(at + 1)) {
                // Weights of up to 128 members, each with a few roundings, of values up to 4.
                assert!((f64::from(*found) - exact).abs() < 2e-5, "{shape:?} {at}: {found} {exact}");
            }
        }
    }
}

/// The weights of the published pairs: values (1, 2) and (3, 4), gates (0.5, -1) and (1.5, 1).
#[test]
fn a_pair() {
    let shape = GroupShape::new(2, 2, false).unwrap();
    let mut memory = vec![0.0; shape.page_len()];
    assert_eq!(memory.len(), 2 * 32 * 2, "the second of a pair is not kept");
    let gain = [1.0, 1.0];
    let spec = GroupSpec { places: None, norm: Norm { gain: &gain, eps: 0.0 } };
    let input = GroupInput { values: &[1.0, 2.0, 3.0, 4.0], gates: Some(&[0.5, -1.0, 1.5, 1.0]) };
    let slots = [0, 1].map(|offset| RowSlot { page: 0, offset });
    let views = [1, 2].map(|len| RowView { pages: &[0], len, mask: None });
    let mut out = [0.0; 4];
    cpus()[0].group_rows(shape, (input, &spec), &mut memory, (&views, &slots), &mut out).unwrap();
    let size = ((2.462_117_2_f32.powi(2) + 3.761_594_2_f32.powi(2)) / 2.0).sqrt();
    assert!(
        (out[2] * size - 2.462_117_2).abs() < 1e-6 && (out[3] * size - 3.761_594_2).abs() < 1e-6,
        "{out:?}"
    );
}

#[test]
fn bad_calls_are_refused() {
    for (width, positions) in [(0, 2), (4, 0), (4, 3), (4, 96)] {
        assert!(GroupShape::new(width, positions, false).is_err(), "{width} {positions}");
    }
    let shape = GroupShape::new(2, 2, false).unwrap();
    let gain = [1.0, 1.0];
    let spec = GroupSpec { places: None, norm: Norm { gain: &gain, eps: 0.0 } };
    let (slot, view) = (RowSlot { page: 0, offset: 1 }, RowView { pages: &[0], len: 2, mask: None });
    let input = GroupInput { values: &[1.0; 2], gates: Some(&[1.0; 2]) };
    let call = |input, spec: &GroupSpec<'_>, slot, view| {
        let mut memory = vec![0.0; shape.page_len()];
        cpus()[0].group_rows(shape, (input, spec), &mut memory, (&[view], &[slot]), &mut [0.0; 2])
    };
    assert!(call(input, &spec, slot, view).is_ok());
    assert!(call(GroupInput { gates: None, ..input }, &spec, slot, view).is_err());
    assert!(call(GroupInput { values: &[1.0], ..input }, &spec, slot, view).is_err());
    assert!(call(input, &GroupSpec { places: Some(&[0.0; 3]), ..spec }, slot, view).is_err());
    assert!(call(input, &spec, RowSlot { page: 1, ..slot }, view).is_err());
    assert!(call(input, &spec, slot, RowView { pages: &[7], ..view }).is_err());
    assert!(call(input, &spec, slot, RowView { len: 65, ..view }).is_err());
}
