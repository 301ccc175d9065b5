//! Keys in an index and choices from it against the CPU's.

use super::super::testing::{Place, places};
use super::super::{
    Buffer, Chosen, IndexAppend, IndexCache, IndexPooling, IndexRows, Limits, Rope, RopeAngles, Select,
};
use crate::abi::attention::PAGE;
use crate::cpu::testing::{Rng, bits};
use crate::cpu::{
    Candidates, Cpu, HeadSpec, IndexLayer, IndexLayerMut, IndexQuery, IndexShape, LayerNorm, Masks, Norm,
    Pairs, Pooling, RopeSpec, RopeTable, RowSlot, RowView, Seen,
};

const P: usize = PAGE as usize;
const EPS: f32 = 1e-6;

/// An index of several sequences, whose pages are shuffled, and its small tensors.
struct Case {
    width: usize,
    gates: bool,
    block: usize,
    heads: usize,
    keep: usize,
    spec: RopeSpec,
    gain: Vec<f32>,
    bias: Vec<f32>,
    gate_bias: Vec<f32>,
    stride: usize,
    table: Vec<u32>,
    pages: usize,
}

/// Rows of a step: sequence and position.
type Rows = [(usize, usize)];

impl Case {
    fn new(
        rng: &mut Rng,
        (width, gates, block): (usize, bool, usize),
        (heads, keep): (usize, usize),
        lens: &[usize],
    ) -> Self {
        let stride = lens.iter().max().unwrap().div_ceil(P) + 1;
        let pages = lens.iter().map(|len| len.div_ceil(P)).sum::<usize>() + 1;
        let mut free: Vec<u32> = (0..pages as u32).collect();
        let mut table = vec![u32::MAX; lens.len() * stride];
        for (s, len) in lens.iter().enumerate() {
            for i in 0..len.div_ceil(P) {
                table[s * stride + i] = free.swap_remove(rng.below(free.len()));
            }
        }
        let gain = rng.normals(width).iter().map(|x| 1.0 + 0.1 * x).collect();
        let spec = RopeSpec::new(Pairs::Neox, width / 2, 10_000.0);
        let (bias, gate_bias) = (rng.normals(width), rng.normals(block * width));
        Self { width, gates, block, heads, keep, spec, gain, bias, gate_bias, stride, table, pages }
    }

    fn shape(&self) -> IndexShape {
        IndexShape::new(self.width, self.gates, self.block).unwrap()
    }

    fn line(&self, sequence: usize) -> &[u32] {
        &self.table[sequence * self.stride..][..self.stride]
    }

    fn pooling(&self) -> Pooling<'_> {
        match self.gates {
            false => Pooling::Mean { norm: Norm { gain: &self.gain, eps: EPS }, rope: &self.spec },
            true => {
                let norm = LayerNorm { gain: &self.gain, bias: &self.bias, eps: EPS };
                Pooling::Softmax { norm, bias: &self.gate_bias }
            }
        }
    }

    fn append_on_cpu(&self, values: &mut [f32], rows: &Rows, [keys, gates]: [&[f32]; 2]) {
        let slot = |&(s, p): &(usize, usize)| RowSlot { page: self.line(s)[p / P], offset: (p % P) as u32 };
        let slots: Vec<RowSlot> = rows.iter().map(slot).collect();
        let positions: Vec<u32> = rows.iter().map(|row| row.1 as u32).collect();
        let mut cache = IndexLayerMut::new(self.shape(), values).unwrap();
        let gates = self.gates.then_some(gates);
        let mut keys = keys.to_vec();
        cpu().index_append((&mut keys, gates), &self.pooling(), &mut cache, &slots, &positions).unwrap();
    }

    fn rope(&self, place: &mut Place) -> Rope {
        let angles = RopeAngles::new(&self.spec, (self.stride * P) as u32).unwrap();
        let (low, high) = (place.buffer(&angles.low).span(), place.buffer(&angles.high).span());
        Rope { pairs: angles.pairs, half: angles.half, first: 0, low, high }
    }

    fn rows(&self, place: &mut Place, pages: &Buffer<f32>, rows: &Rows) -> IndexRows {
        let positions: Vec<u32> = rows.iter().map(|row| row.1 as u32).collect();
        let sequences: Vec<u32> = rows.iter().map(|row| row.0 as u32).collect();
        IndexRows {
            shape: IndexCache::new(self.width, self.gates, self.block).unwrap(),
            pages: pages.span(),
            table: place.buffer(&self.table).span(),
            stride: self.stride,
            positions: place.buffer(&positions).span(),
            sequences: place.buffer(&sequences).span(),
        }
    }

    fn append_op(
        &self,
        place: &mut Place,
        pages: &Buffer<f32>,
        rows: &Rows,
        inputs: [&[f32]; 2],
    ) -> IndexAppend {
        let [keys, gates] = inputs.map(|x| place.buffer(x).span());
        let gain = place.buffer(&self.gain).span();
        let pooling = match self.gates {
            false => IndexPooling::Mean { norm: (gain, EPS), rope: self.rope(place) },
            true => {
                let norm = (gain, place.buffer(&self.bias).span(), EPS);
                IndexPooling::Softmax { gates, norm, bias: place.buffer(&self.gate_bias).span() }
            }
        };
        IndexAppend { keys, rows: rows.len(), pooling, cache: self.rows(place, pages, rows) }
    }

    fn select_op(
        &self,
        place: &mut Place,
        pages: &Buffer<f32>,
        rows: &Rows,
        [q, weights]: [&[f32]; 2],
    ) -> (Select, Buffer<u32>) {
        let cache = self.rows(place, pages, rows);
        let scratch = Select::scratch_len(&cache.shape, rows.len(), self.stride);
        let places = place.poison::<u32>(rows.len() * (self.keep + 1));
        let norm = (!self.gates).then(|| (place.buffer(&self.gain).span(), EPS));
        let rope = (!self.gates).then(|| self.rope(place));
        let select = Select {
            q: place.buffer(q).span(),
            rows: rows.len(),
            heads: self.heads,
            norm,
            rope,
            weights: self.gates.then(|| (place.buffer(weights).span(), 0.1)),
            cache,
            scratch: place.poison::<f32>(scratch).span(),
            chosen: Chosen { places: places.span(), keep: self.keep, block: self.block, ends: false },
            limits: Limits::None,
        };
        (select, places)
    }

    fn select(&self, place: &mut Place, pages: &Buffer<f32>, rows: &Rows, inputs: [&[f32]; 2]) -> Vec<u32> {
        let (select, places) = self.select_op(place, pages, rows, inputs);
        select.launches(place.info()).unwrap().iter().for_each(|launch| place.run(launch));
        place.read(&places)
    }

    /// Places in the cache of the positions that a row sees, by a mask.
    fn places(&self, (sequence, position): (usize, usize), mask: Option<&[u64]>) -> Vec<u32> {
        let sees = |p: usize| mask.is_none_or(|mask| mask[p / P] >> (p % P) & 1 == 1);
        let place = |p: usize| self.line(sequence)[p / P] * PAGE + (p % P) as u32;
        (0..=position).filter(|&p| p % self.block == 0 && sees(p)).map(place).collect()
    }
}

fn cpu() -> Cpu {
    crate::cpu::testing::cpus().remove(0)
}

fn place() -> Place {
    places().remove(0)
}

/// Widths, gates and blocks, those of the models first.
const SHAPES: [(usize, bool, usize); 5] =
    [(128, false, 4), (128, true, 4), (32, true, 8), (16, false, 64), (240, false, 16)];

#[test]
fn keys_are_where_they_belong() {
    let mut place = place();
    for shape in SHAPES {
        let mut rng = Rng::new(shape.0 as u64);
        let lens = [150, 70, 1];
        let case = Case::new(&mut rng, shape, (1, 1), &lens);
        let mut expected = vec![f32::NAN; case.pages * case.shape().page_len()];
        let pages = place.buffer(&expected);
        // Whole prompts, single rows, and what begins and ends in the middle of blocks.
        let steps: [Vec<(usize, usize)>; 4] = [
            (0..66).map(|p| (0, p)).chain((0..3).map(|p| (1, p))).collect(),
            vec![(0, 66), (1, 3), (2, 0)],
            (67..150).map(|p| (0, p)).collect(),
            (4..70).map(|p| (1, p)).collect(),
        ];
        for rows in &steps {
            let keys = rng.normals(rows.len() * shape.0);
            let gates = rng.normals(rows.len() * shape.0);
            case.append_on_cpu(&mut expected, rows, [&keys, &gates]);
            let op = case.append_op(&mut place, &pages, rows, [&keys, &gates]);
            let launch = op.launch(place.info()).unwrap();
            place.run(&launch);
        }
        let got = place.read(&pages);
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let at = (i / case.shape().page_len(), i % case.shape().page_len());
            assert_eq!(got.is_nan(), expected.is_nan(), "{shape:?}, {at:?}: {got} {expected}");
            // Norms of up to 240 values of order 1, and sums of up to 64.
            let bound = 4e-6 * expected.abs().max(1.0);
            assert!(got.is_nan() || (got - expected).abs() <= bound, "{shape:?}, {at:?}: {got} {expected}");
        }
    }
}

#[test]
fn keys_do_not_know_how_steps_are_cut() {
    let mut place = place();
    for shape in SHAPES {
        let mut rng = Rng::new(7);
        let case = Case::new(&mut rng, shape, (1, 1), &[72]);
        let keys = rng.normals(72 * shape.0);
        let gates = rng.normals(72 * shape.0);
        let mut run = |piece: usize| {
            let pages = place.poison::<f32>(case.pages * case.shape().page_len());
            for first in (0..72).step_by(piece) {
                let rows: Vec<(usize, usize)> = (first..72.min(first + piece)).map(|p| (0, p)).collect();
                let part = first * shape.0..(first + rows.len()) * shape.0;
                let op =
                    case.append_op(&mut place, &pages, &rows, [&keys[part.clone()], &gates[part.clone()]]);
                let launch = op.launch(place.info()).unwrap();
                place.run(&launch);
            }
            place.read(&pages)
        };
        let whole = run(72);
        for piece in [1, 7, 33] {
            assert_eq!(bits(&run(piece)), bits(&whole), "{shape:?} in pieces of {piece}");
        }
    }
}

/// Choices against the CPU's, of keys that both have the same. Where the CPU's choice is another one, the scores are too close to tell.
fn verify(place: &mut Place, case: &Case, lens: &[usize], rows: &Rows) {
    let mut rng = Rng::new((case.width + rows.len()) as u64);
    let mut values = vec![f32::NAN; case.pages * case.shape().page_len()];
    for (s, len) in lens.iter().enumerate() {
        let all: Vec<(usize, usize)> = (0..*len).map(|p| (s, p)).collect();
        let (keys, gates) = (rng.normals(len * case.width), rng.normals(len * case.width));
        case.append_on_cpu(&mut values, &all, [&keys, &gates]);
    }
    let q = rng.normals(rows.len() * case.heads * case.width);
    let weights = rng.normals(rows.len() * case.heads);
    let pages = place.buffer(&values);
    let got = case.select(place, &pages, rows, [&q, &weights]);

    let mut turned = q.clone();
    if !case.gates {
        let positions: Vec<u32> = rows.iter().map(|row| row.1 as u32).collect();
        let table = RopeTable::new(&case.spec, &positions).unwrap();
        let mut spec = HeadSpec::rope(&table);
        spec.q_norm = Some(Norm { gain: &case.gain, eps: EPS });
        cpu().turn_heads(&mut turned, (rows.len(), case.width), &spec).unwrap();
    }
    let query = IndexQuery {
        q: &turned,
        heads: case.heads,
        weights: case.gates.then_some(&weights[..]),
        scale: 0.1,
        keep: case.keep,
        seen: Seen::Positions,
    };
    let views: Vec<RowView<'_>> =
        rows.iter().map(|&(s, p)| RowView { pages: case.line(s), len: p as u32 + 1, mask: None }).collect();
    let mut masks = Masks::default();
    let layer = IndexLayer::new(case.shape(), &values).unwrap();
    cpu().index_select(&query, &layer, &views, &mut masks, Candidates::None).unwrap();
    let words = case.keep + 1;
    let mut others = 0;
    for (i, row) in rows.iter().enumerate() {
        let expected = case.places(*row, masks.row(i));
        let got = &got[i * words..][..expected.len()];
        // Products of random numbers: rarely are two scores so close that the order of a sum decides.
        others += usize::from(got != expected);
        assert!(got.iter().filter(|place| !expected.contains(place)).count() <= 1, "row {row:?}");
    }
    assert!(others * 50 <= rows.len(), "{} heads of {}: {others} of {}", case.heads, case.width, rows.len());
    for i in (0..rows.len()).step_by(rows.len().div_ceil(3)) {
        let of = |x: &[f32], each: usize| x[i * each..(i + 1) * each].to_vec();
        let (q, weights) = (of(&q, case.heads * case.width), of(&weights, case.heads));
        let alone = case.select(place, &pages, &rows[i..=i], [&q, &weights]);
        let count = case.places(rows[i], masks.row(i)).len();
        assert_eq!(alone[..count], got[i * words..][..count], "row {i} alone");
    }
}

#[test]
fn few_rows_choose() {
    let mut place = place();
    for (shape, heads, keep) in
        [((128, false, 4), 4, 9), ((128, true, 4), 32, 5), ((16, false, 64), 1, 2), ((48, true, 8), 9, 3)]
    {
        let lens = [1, 35, 36, 37, 40, 41, 63, 64, 65, 300, 1000];
        let mut rng = Rng::new(heads as u64);
        let case = Case::new(&mut rng, shape, (heads, keep), &lens);
        // The last rows of all, and some neighbours.
        let mut rows: Vec<(usize, usize)> = lens.iter().enumerate().map(|(s, len)| (s, len - 1)).collect();
        rows.splice(9..9, (200..205).map(|p| (9, p)));
        verify(&mut place, &case, &lens, &rows);
    }
}

#[test]
fn many_rows_choose() {
    let mut place = place();
    for (shape, heads, keep) in [((128, false, 4), 4, 9), ((32, true, 4), 12, 5), ((16, false, 16), 3, 1)] {
        let lens = [70, 190, 9];
        let mut rng = Rng::new(heads as u64);
        let case = Case::new(&mut rng, shape, (heads, keep), &lens);
        let rows = (20..70).map(|p| (0, p)).chain((180..190).map(|p| (1, p))).chain([(2, 8)]);
        verify(&mut place, &case, &lens, &rows.collect::<Vec<_>>());
    }
}

#[test]
fn of_equal_blocks_the_first_are_chosen() {
    let mut place = place();
    let mut rng = Rng::new(5);
    let case = Case { gates: true, ..Case::new(&mut rng, (16, true, 4), (1, 600), &[9000]) };
    // Keys that no query fits but at every seventh block, and there all alike.
    let mut values = vec![-1.0; case.pages * case.shape().page_len()];
    for block in (0..2250).step_by(7) {
        let start =
            case.line(0)[block / 16] as usize * case.shape().page_len() + 2 * P * 16 + block % 16 * 16;
        values[start..start + 16].fill(1.0);
    }
    let pages = place.buffer(&values);
    let got = case.select(&mut place, &pages, &[(0, 8997)], [&[1.0; 16], &[1.0]]);
    // All of the sevenths, which are 322, and the first of the others.
    let mut others = (0..2249).filter(|block| block % 7 != 0).take(600 - 322).collect::<Vec<usize>>();
    others.extend((0..2249).step_by(7));
    others.sort_unstable();
    others.push(2249);
    let expected: Vec<u32> =
        others.iter().map(|block| case.line(0)[block / 16] * PAGE + (block % 16 * 4) as u32).collect();
    assert_eq!(got, expected);
    // With weights below zero, fits count against blocks.
    let got = case.select(&mut place, &pages, &[(0, 8998)], [&[1.0; 16], &[-1.0]]);
    let others = (0..2249).filter(|block| block % 7 != 0).take(600).chain([2249]);
    let expected: Vec<u32> =
        others.map(|block| case.line(0)[block / 16] * PAGE + (block % 16 * 4) as u32).collect();
    assert_eq!(got, expected);
}

#[test]
fn bad_calls_are_refused() {
    let mut place = place();
    for (width, block) in [(24, 4), (0, 4), (272, 4), (16, 2), (16, 12), (16, 128)] {
        assert!(IndexCache::new(width, false, block).is_err(), "{width} {block}");
    }
    let mut rng = Rng::new(6);
    let case = Case::new(&mut rng, (16, false, 4), (2, 3), &[64]);
    let pages = place.poison::<f32>(case.pages * case.shape().page_len());
    let rows = [(0, 40), (0, 41)];
    let info = place.info().clone();
    let keys = [0.0; 32];
    let append = case.append_op(&mut place, &pages, &rows, [&keys, &keys]);
    let refused = |op: IndexAppend| op.launch(&info).unwrap_err().to_string();
    assert!(refused(IndexAppend { rows: 3, ..append.clone() }).contains("positions is 2, must be 3"));
    let text = refused(IndexAppend { keys: append.keys.slice(0..31).unwrap(), ..append.clone() });
    assert!(text.contains("values of keys is 31, must be 32"), "{text}");
    let cache = IndexRows { pages: pages.span().slice(0..100).unwrap(), ..append.cache.clone() };
    assert!(refused(IndexAppend { cache, ..append.clone() }).contains("pages is 0"));
    let norm = (append.keys.slice(0..16).unwrap(), append.keys.slice(0..16).unwrap(), EPS);
    let pooling = IndexPooling::Softmax { gates: append.keys.clone(), norm, bias: append.keys.clone() };
    assert!(refused(IndexAppend { pooling, ..append.clone() }).contains("gates of a position is 1"));

    let (select, _) = case.select_op(&mut place, &pages, &rows, [&[0.0; 64], &[]]);
    let refused = |op: Select| op.launches(&info).unwrap_err().to_string();
    assert!(refused(Select { heads: 65, ..select.clone() }).contains("heads of an index is 65"));
    assert!(refused(Select { heads: 3, ..select.clone() }).contains("values of queries is 64, must be 96"));
    let text = refused(Select { scratch: select.scratch.slice(0..7).unwrap(), ..select.clone() });
    assert!(text.contains("values of the scratch is 7, must be at least 64"), "{text}");
    let chosen = Chosen { keep: 4, ..select.chosen.clone() };
    assert!(refused(Select { chosen, ..select.clone() }).contains("words of the choice is 8, must be 10"));
    let chosen = Chosen { block: 8, ..select.chosen.clone() };
    assert!(refused(Select { chosen, ..select.clone() }).contains("positions of a chosen block is 8"));
    let weights = Some((select.q.slice(0..3).unwrap(), 1.0));
    assert!(refused(Select { weights, ..select }).contains("weights of heads is 3, must be 4"));
}
