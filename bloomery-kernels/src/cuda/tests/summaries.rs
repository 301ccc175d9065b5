//! Rows that stand for groups: the CPU's, whatever a step is cut into, and at their places in a cache.

use std::num::NonZeroUsize;

use super::super::testing::{Place, places};
use super::super::{Buffer, GroupCache, GroupRows, KvCache, Rope, RopeAngles, Summarise, SummaryAppend};
use super::paged::Sequences;
use super::rope::near;
use crate::abi::attention::PAGE;
use crate::cpu::testing::{Rng, bits};
use crate::cpu::{
    Cpu, GroupInput, GroupShape, GroupSpec, Isa, KvType, Norm, Numerics, Pairs, Pool, RopeSpec, RopeTable,
    RowSlot, RowView,
};

const P: usize = PAGE as usize;
const EPS: f32 = 1e-6;

/// Groups of some sequences, whose pages are shuffled.
struct Case {
    shape: GroupShape,
    width: usize,
    positions: usize,
    overlap: bool,
    places: Option<Vec<f32>>,
    gain: Vec<f32>,
    stride: usize,
    table: Vec<u32>,
    pages: usize,
    /// Of every sequence, of all positions.
    values: Vec<Vec<f32>>,
    gates: Vec<Vec<f32>>,
}

/// Rows of a step: sequence and position.
type Rows = [(usize, usize)];

impl Case {
    fn new(
        rng: &mut Rng,
        (width, positions, overlap): (usize, usize, bool),
        places: bool,
        lens: &[usize],
    ) -> Self {
        let shape = GroupShape::new(width, positions, overlap).unwrap();
        let stride = lens.iter().max().unwrap().div_ceil(P) + 1;
        let pages = lens.iter().map(|len| len.div_ceil(P)).sum::<usize>() + 1;
        let mut free: Vec<u32> = (0..pages as u32).collect();
        let mut table = vec![u32::MAX; lens.len() * stride];
        for (s, len) in lens.iter().enumerate() {
            for i in 0..len.div_ceil(P) {
                table[s * stride + i] = free.swap_remove(rng.below(free.len()));
            }
        }
        let channels = shape.channels();
        let places = places.then(|| rng.normals(positions * channels));
        let mut all = |factor: f32| {
            let of = |len: &usize| rng.normals(len * channels).iter().map(|x| factor * x).collect();
            lens.iter().map(of).collect::<Vec<Vec<f32>>>()
        };
        let (values, gates) = (all(1.0), all(2.0));
        let gain = rng.normals(width);
        Self { shape, width, positions, overlap, places, gain, stride, table, pages, values, gates }
    }

    fn memory(&self) -> Vec<f32> {
        vec![f32::NAN; self.pages * self.shape.page_len()]
    }

    fn input(&self, of: &[Vec<f32>], rows: &Rows) -> Vec<f32> {
        let channels = self.shape.channels();
        rows.iter().flat_map(|&(s, p)| of[s][p * channels..][..channels].to_vec()).collect()
    }

    fn has_gates(&self) -> bool {
        self.positions > 1 || self.overlap
    }

    fn on_cpu(&self, memory: &mut [f32], rows: &Rows) -> Vec<f32> {
        let cpu = Cpu::new(Pool::new(NonZeroUsize::MIN), Isa::detect(), Numerics::Fast);
        let line = |s: usize| &self.table[s * self.stride..][..self.stride - 1];
        // Pages that a sequence has not, no row of it needs.
        let pages: Vec<Vec<u32>> = rows
            .iter()
            .map(|&(s, _)| line(s).iter().copied().filter(|&page| page != u32::MAX).collect())
            .collect();
        let slot = |&(s, p): &(usize, usize)| RowSlot { page: line(s)[p / P], offset: (p % P) as u32 };
        let slots: Vec<RowSlot> = rows.iter().map(slot).collect();
        let view = |(pages, row): (&'_ Vec<u32>, &(usize, usize))| (pages.clone(), row.1 as u32 + 1);
        let owned: Vec<(Vec<u32>, u32)> = pages.iter().zip(rows).map(view).collect();
        let views: Vec<RowView<'_>> =
            owned.iter().map(|(pages, len)| RowView { pages, len: *len, mask: None }).collect();
        let (values, gates) = (self.input(&self.values, rows), self.input(&self.gates, rows));
        let input = GroupInput { values: &values, gates: self.has_gates().then_some(&gates) };
        let spec = GroupSpec { places: self.places.as_deref(), norm: Norm { gain: &self.gain, eps: EPS } };
        let mut out = vec![f32::NAN; rows.len() * self.width];
        cpu.group_rows(self.shape, (input, &spec), memory, (&views, &slots), &mut out).unwrap();
        out
    }

    fn op(&self, place: &mut Place, memory: &Buffer<f32>, rows: &Rows, out: &Buffer<f32>) -> Summarise {
        let positions: Vec<u32> = rows.iter().map(|row| row.1 as u32).collect();
        let sequences: Vec<u32> = rows.iter().map(|row| row.0 as u32).collect();
        let mut buffer = |values: &[f32]| place.buffer(values).span();
        let (values, gates) =
            (buffer(&self.input(&self.values, rows)), buffer(&self.input(&self.gates, rows)));
        let (places, gain) = (self.places.as_deref().map(&mut buffer), buffer(&self.gain));
        Summarise {
            values,
            gates: self.has_gates().then_some(gates),
            places,
            norm: (gain, EPS),
            groups: GroupRows {
                shape: GroupCache::new(self.width, self.positions, self.overlap).unwrap(),
                pages: (self.shape.page_len() > 0).then(|| memory.span()),
                table: place.buffer(&self.table).span(),
                stride: self.stride,
                positions: place.buffer(&positions).span(),
                sequences: place.buffer(&sequences).span(),
            },
            out: out.span(),
        }
    }

    fn run(&self, place: &mut Place, memory: &Buffer<f32>, rows: &Rows) -> Vec<f32> {
        let out = place.poison::<f32>(rows.len() * self.width);
        let launch = self.op(place, memory, rows, &out).launch(place.info()).unwrap();
        place.run(&launch);
        place.read(&out)
    }
}

#[track_caller]
fn close(found: &[f32], expected: &[f32], name: &str) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        // Weights of up to 128 members, their sums, and a norm: some hundred roundings of values around 1.
        assert!((a - b).abs() <= 2e-5 * b.abs().max(1.0), "{name}: value {i} is {a}, not {b}");
    }
}

/// Rows of positions of some sequences, one sequence after the other.
fn rows(parts: &[(usize, std::ops::Range<usize>)]) -> Vec<(usize, usize)> {
    parts.iter().flat_map(|(s, range)| range.clone().map(|p| (*s, p))).collect()
}

#[test]
fn rows_are_the_cpus_in_pieces_of_any_size() {
    for mut place in places() {
        for (shape, places) in [
            ((16, 1, false), false),
            ((8, 2, false), false),
            ((132, 2, false), true),
            ((20, 4, true), true),
            ((128, 4, true), false),
            ((512, 4, true), true),
            ((4, 64, false), true),
            ((36, 128, false), true),
        ] {
            let mut rng = Rng::new(shape.0 as u64);
            let case = Case::new(&mut rng, shape, places, &[270, 33]);
            let groups = GroupCache::new(shape.0, shape.1, shape.2).unwrap();
            assert_eq!(groups.page_len(), case.shape.page_len(), "{shape:?}");
            let memory = place.buffer(&case.memory());
            let mut kept = case.memory();
            let pieces = [
                rows(&[(0, 0..1), (1, 0..3)]),
                rows(&[(0, 1..9), (1, 3..4)]),
                rows(&[(0, 9..40)]),
                rows(&[(1, 4..31), (0, 40..129)]),
                rows(&[(0, 129..130), (1, 31..33)]),
                rows(&[(0, 130..255)]),
                rows(&[(0, 255..256)]),
                // From the middle of a group again.
                rows(&[(0, 254..270)]),
            ];
            for piece in &pieces {
                let name = format!("{shape:?}, rows from {:?}", piece[0]);
                let expected = case.on_cpu(&mut kept, piece);
                close(&case.run(&mut place, &memory, piece), &expected, &name);
                if shape.1 > 1 {
                    assert_eq!(bits(&place.read(&memory)), bits(&kept), "{name}: pages");
                }
            }
        }
    }
}

#[test]
fn rows_together_are_rows_alone() {
    let mut place = places().remove(0);
    for shape in [(24, 4, true), (8, 2, false), (12, 128, false)] {
        let case = Case::new(&mut Rng::new(5), shape, true, &[256, 140]);
        let all = rows(&[(0, 0..256), (1, 0..140)]);
        let memory = place.buffer(&case.memory());
        let together = case.run(&mut place, &memory, &all);
        let memory = place.buffer(&case.memory());
        for (row, at) in all.iter().enumerate() {
            let alone = case.run(&mut place, &memory, &[*at]);
            assert_eq!(bits(&alone), bits(&together[row * shape.0..][..shape.0]), "{shape:?}, {at:?}");
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().remove(0);
    let case = Case::new(&mut Rng::new(5), (8, 2, false), true, &[70]);
    let (memory, out) = (place.buffer(&case.memory()), place.poison::<f32>(24));
    let op = case.op(&mut place, &memory, &rows(&[(0, 3..6)]), &out);
    assert!(op.launch(place.info()).is_ok());
    let refused = |op: Summarise| op.launch(place.info()).unwrap_err().to_string();
    assert_eq!(
        refused(Summarise { gates: None, ..op.clone() }),
        "summarise: gates of a position is 0, must be 1"
    );
    let short = out.slice(0..16).unwrap();
    assert!(
        refused(Summarise { out: short, ..op.clone() }).contains("values of the output is 16, must be 24")
    );
    let groups = GroupRows { pages: None, ..op.groups.clone() };
    assert!(refused(Summarise { groups, ..op.clone() }).contains("memory of groups"));
    let groups = GroupRows { stride: 0, ..op.groups.clone() };
    assert!(refused(Summarise { groups, ..op }).contains("entries of a sequence"));
    let message = |shape: (usize, usize)| GroupCache::new(shape.0, shape.1, false).unwrap_err().to_string();
    assert_eq!(message((6, 2)), "groups: the width of a row is 6, must be a multiple of 4 up to 1024");
    assert!(message((8, 3)).contains("positions of a group is 3"));
}

#[test]
fn rows_turn_as_at_the_first_position_and_are_put_at_the_last() {
    for mut place in places() {
        for (kind, dim, rotary, positions) in [
            (KvType::F16, 512, 64, 2),
            (KvType::F32, 80, 16, 4),
            (KvType::Q8_0, 96, 32, 1),
            (KvType::F16, 128, 128, 128),
            (KvType::F32, 64, 0, 4),
        ] {
            let shape = KvCache::new(1, dim, dim, kind).unwrap();
            let mut rng = Rng::new(dim as u64);
            let mut sequences = Sequences::new(&mut rng, shape, &[3, 66, 300]);
            let rows = [(0, 1), (0, 2), (1, 62), (1, 63), (1, 64), (2, 255), (2, 299)];
            let x = rng.normals(rows.len() * dim);
            let spec = (rotary > 0).then(|| RopeSpec::new(Pairs::Norm, rotary, 1e4));
            let rope = spec.as_ref().map(|spec| {
                let angles = RopeAngles::new(spec, 512).unwrap();
                let (low, high) = (place.buffer(&angles.low).span(), place.buffer(&angles.high).span());
                Rope { pairs: angles.pairs, half: angles.half, first: dim - rotary, low, high }
            });
            let (cache, pages) = sequences.buffers(&mut place, &rows);
            let x_buffer = place.buffer(&x);
            let op = SummaryAppend { x: x_buffer.span(), rows: rows.len(), positions, rope, cache };
            place.run(&op.launch(place.info()).unwrap());
            for (i, (s, position)) in rows.into_iter().enumerate() {
                if (position + 1) % positions != 0 {
                    continue;
                }
                let mut row = x[i * dim..][..dim].to_vec();
                if let Some(spec) = &spec {
                    let table = RopeTable::new(spec, &[(position + 1 - positions) as u32]).unwrap();
                    let (cosines, sines) = table.turns(0);
                    let pairs = row[dim - rotary..].chunks_exact_mut(2);
                    for (pair, (c, s)) in pairs.zip(cosines.iter().zip(sines)) {
                        let [a, b, c, s] = [pair[0], pair[1], *c, *s].map(f64::from);
                        pair.copy_from_slice(&[(a * c - b * s) as f32, (b * c + a * s) as f32]);
                    }
                }
                sequences.k[s][position * dim..][..dim].copy_from_slice(&row);
                sequences.v[s][position * dim..][..dim].copy_from_slice(&row);
            }
            let [keys, values] = sequences.packed();
            let name = format!("{shape:?}, groups of {positions}");
            near(shape, &place.read(&pages[0]), &keys, &format!("{name} keys"));
            near(shape, &place.read(&pages[1]), &values, &format!("{name} values"));
        }
    }
    let mut place = places().remove(0);
    let shape = KvCache::new(1, 64, 32, KvType::F32).unwrap();
    let sequences = Sequences::new(&mut Rng::new(1), shape, &[3]);
    let (cache, _) = sequences.buffers(&mut place, &[(0, 1)]);
    let x = place.poison::<f32>(64).span();
    let op = SummaryAppend { x, rows: 1, positions: 2, rope: None, cache };
    let error = op.launch(place.info()).unwrap_err().to_string();
    assert_eq!(error, "summary_append: the width of a key is 64, must be 32");
}
