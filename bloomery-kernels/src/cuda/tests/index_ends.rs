//! Keys of blocks that come as such, choices of their ends, and spans that limit these, against the CPU's.

use super::super::testing::{Place, places};
use super::super::{
    Buffer, Chosen, IndexAppend, IndexCache, IndexPooling, IndexRows, Limits, Rope, RopeAngles, Select, Spans,
};
use crate::abi::attention::PAGE;
use crate::cpu::testing::{Rng, cpus};
use crate::cpu::{
    Candidates, HeadSpec, IndexLayer, IndexLayerMut, IndexQuery, IndexShape, Masks, Norm, Pairs, Pooling,
    RopeSpec, RopeTable, RowSlot, RowView, Seen,
};

const P: usize = PAGE as usize;
const EPS: f32 = 1e-6;

/// One sequence whose pages are in reverse order.
struct Case {
    width: usize,
    block: usize,
    heads: usize,
    keep: usize,
    normed: bool,
    len: usize,
    spec: RopeSpec,
    gain: Vec<f32>,
    table: Vec<u32>,
}

impl Case {
    fn new(rng: &mut Rng, (width, block): (usize, usize), (heads, keep): (usize, usize), len: usize) -> Self {
        let gain = rng.normals(width).iter().map(|x| 1.0 + 0.1 * x).collect();
        let spec = RopeSpec::new(Pairs::Norm, width / 2, 10_000.0);
        let table = (0..len.div_ceil(P) as u32).rev().collect();
        Self { width, block, heads, keep, normed: block < 4, len, spec, gain, table }
    }

    fn shape(&self) -> IndexShape {
        IndexShape::of_blocks(self.width, self.block).unwrap()
    }

    fn rope(&self, place: &mut Place) -> Rope {
        let angles = RopeAngles::new(&self.spec, self.len as u32).unwrap();
        let (low, high) = (place.buffer(&angles.low).span(), place.buffer(&angles.high).span());
        Rope { pairs: angles.pairs, half: angles.half, first: self.width / 2, low, high }
    }

    fn rows(&self, place: &mut Place, pages: &Buffer<f32>, positions: &[u32]) -> IndexRows {
        IndexRows {
            shape: IndexCache::of_blocks(self.width, self.block).unwrap(),
            pages: pages.span(),
            table: place.buffer(&self.table).span(),
            stride: self.table.len(),
            positions: place.buffer(positions).span(),
            sequences: place.buffer(&vec![0_u32; positions.len()]).span(),
        }
    }

    fn append_on_cpu(&self, values: &mut [f32], keys: &[f32], positions: &[u32]) {
        let slot = |&p: &u32| RowSlot { page: self.table[p as usize / P], offset: p % PAGE };
        let slots: Vec<RowSlot> = positions.iter().map(slot).collect();
        let norm = self.normed.then_some(Norm { gain: &self.gain, eps: EPS });
        let pooling = Pooling::Made { norm, rope: &self.spec, rope_first: self.width / 2 };
        let mut cache = IndexLayerMut::new(self.shape(), values).unwrap();
        let mut keys = keys.to_vec();
        cpus().remove(0).index_append((&mut keys, None), &pooling, &mut cache, &slots, positions).unwrap();
    }
}

#[test]
fn keys_of_blocks_are_where_they_belong() {
    let mut place = places().remove(0);
    for shape in [(128, 1), (128, 2), (128, 4), (32, 64), (240, 8)] {
        let mut rng = Rng::new(shape.0 as u64);
        let case = Case::new(&mut rng, shape, (1, 1), 150);
        let mut expected = vec![f32::NAN; case.table.len() * case.shape().page_len()];
        let pages = place.buffer(&expected);
        for range in [0..66, 66..67, 67..150] {
            let positions: Vec<u32> = range.collect();
            let keys = rng.normals(positions.len() * shape.0);
            case.append_on_cpu(&mut expected, &keys, &positions);
            let norm = case.normed.then(|| (place.buffer(&case.gain).span(), EPS));
            let op = IndexAppend {
                keys: place.buffer(&keys).span(),
                rows: positions.len(),
                pooling: IndexPooling::Made { norm, rope: case.rope(&mut place) },
                cache: case.rows(&mut place, &pages, &positions),
            };
            let launch = op.launch(place.info()).unwrap();
            place.run(&launch);
        }
        for (i, (got, expected)) in place.read(&pages).iter().zip(&expected).enumerate() {
            assert_eq!(got.is_nan(), expected.is_nan(), "{shape:?}, {i}: {got} {expected}");
            let bound = 4e-6 * expected.abs().max(1.0);
            assert!(got.is_nan() || (got - expected).abs() <= bound, "{shape:?}, {i}: {got} {expected}");
        }
    }
}

/// Two choices, of which the first makes spans and the second is limited to them.
fn verify(place: &mut Place, case: &Case, positions: &[u32], (size, spans_kept): (usize, usize)) {
    let mut rng = Rng::new((case.width + positions.len()) as u64);
    let mut values = vec![f32::NAN; case.table.len() * case.shape().page_len()];
    let all: Vec<u32> = (0..case.len as u32).collect();
    case.append_on_cpu(&mut values, &rng.normals(case.len * case.width), &all);
    let pages = place.buffer(&values);
    let rows = positions.len();
    let cache = case.rows(place, &pages, positions);
    let line = Spans::line(&cache.shape, cache.stride, size);
    let words = place.poison::<u32>(rows * line);
    let (mut spans, mut masks) = (Masks::default(), Masks::default());
    for second in [false, true] {
        let q = rng.normals(rows * case.heads * case.width);
        let weights = rng.normals(rows * case.heads);
        let of_spans = Spans { words: words.span(), size };
        let line = Chosen::line(case.keep, true);
        let places = place.poison::<u32>(rows * line);
        let scratch = Select::scratch_len(&cache.shape, rows, cache.stride);
        let select = Select {
            q: place.buffer(&q).span(),
            rows,
            heads: case.heads,
            norm: None,
            rope: Some(case.rope(place)),
            weights: Some((place.buffer(&weights).span(), 0.1)),
            cache: cache.clone(),
            scratch: place.poison::<f32>(scratch).span(),
            chosen: Chosen { places: places.span(), keep: case.keep, block: case.block, ends: true },
            limits: if second { Limits::Use(of_spans) } else { Limits::Make(of_spans, spans_kept) },
        };
        select.launches(place.info()).unwrap().iter().for_each(|launch| place.run(launch));
        let got = place.read(&places);

        let table = RopeTable::new(&case.spec, positions).unwrap();
        let mut spec = HeadSpec::rope(&table);
        spec.rope_first = case.width / 2;
        let mut turned = q.clone();
        cpus().remove(0).turn_heads(&mut turned, (rows, case.width), &spec).unwrap();
        let query = IndexQuery {
            q: &turned,
            heads: case.heads,
            weights: Some(&weights),
            scale: 0.1,
            keep: case.keep,
            seen: Seen::Ends,
        };
        let view = |&p: &u32| RowView { pages: &case.table, len: p + 1, mask: None };
        let views: Vec<RowView<'_>> = positions.iter().map(view).collect();
        let candidates = match second {
            false => Candidates::Make { spans: &mut spans, size, keep: spans_kept },
            true => Candidates::Use { spans: &spans, size },
        };
        let layer = IndexLayer::new(case.shape(), &values).unwrap();
        cpus().remove(0).index_select(&query, &layer, &views, &mut masks, candidates).unwrap();
        let mut others = 0;
        for (i, &position) in positions.iter().enumerate() {
            let mask = masks.row(i);
            let sees = |p: usize| mask.is_none_or(|mask| mask[p / P] >> (p % P) & 1 == 1);
            let ends = (0..=position as usize).filter(|p| (p + 1) % case.block == 0 && sees(*p));
            let expected: Vec<u32> = ends.map(|p| case.table[p / P] * PAGE + (p % P) as u32).collect();
            let got = &got[i * line..][..expected.len()];
            // Rarely are two scores so close that the order of a sum decides.
            others += usize::from(got != expected);
            let strange = got.iter().filter(|place| !expected.contains(place)).count();
            assert!(strange <= 1, "{second}, position {position}: {got:?} {expected:?}");
        }
        assert!(others * 20 <= rows, "{} heads of {}: {others} of {rows}", case.heads, case.width);
    }
}

#[test]
fn ends_of_blocks_are_chosen_within_spans() {
    let mut place = places().remove(0);
    for (shape, heads, keep, spans) in [
        ((128, 1), 32, 12, (8, 5)),
        ((128, 4), 64, 9, (2, 8)),
        ((64, 2), 33, 20, (3, 7)),
        ((32, 1), 4, 3, (8, 40)),
    ] {
        let mut rng = Rng::new(heads as u64);
        let case = Case::new(&mut rng, shape, (heads, keep), 330);
        verify(&mut place, &case, &[0, 1, 8, 60, 63, 64, 200, 201, 202, 323, 327, 328, 329], spans);
        if heads < 64 {
            verify(&mut place, &case, &(100..133).collect::<Vec<u32>>(), spans);
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    for (width, block) in [(24, 4), (272, 1), (16, 0), (16, 3), (16, 128)] {
        assert!(IndexCache::of_blocks(width, block).is_err(), "{width} {block}");
    }
    let mut place = places().remove(0);
    let case = Case::new(&mut Rng::new(6), (16, 2), (2, 3), 64);
    let pages = place.poison::<f32>(case.table.len() * case.shape().page_len());
    let cache = case.rows(&mut place, &pages, &[40]);
    let x = place.poison::<f32>(64).span();
    let rope = case.rope(&mut place);
    let append = IndexAppend {
        keys: x.slice(0..16).unwrap(),
        rows: 1,
        pooling: IndexPooling::Mean { norm: (x.slice(0..16).unwrap(), EPS), rope },
        cache: cache.clone(),
    };
    let text = append.launch(place.info()).unwrap_err().to_string();
    assert!(text.contains("keys of a position is 1, must be 0"), "{text}");
    let words = place.poison::<u32>(4).span();
    let select = Select {
        q: x.slice(0..32).unwrap(),
        rows: 1,
        heads: 2,
        norm: None,
        rope: None,
        weights: None,
        cache,
        scratch: x.clone(),
        chosen: Chosen { places: words.clone(), keep: 3, block: 2, ends: true },
        limits: Limits::Use(Spans { words: words.clone(), size: 8 }),
    };
    let text = select.launches(place.info()).unwrap_err().to_string();
    assert!(text.contains("words of spans is 4, must be 2"), "{text}");
    let limits = Limits::Make(Spans { words: words.slice(0..2).unwrap(), size: 8 }, 0);
    let text = Select { limits, ..select }.launches(place.info()).unwrap_err().to_string();
    assert!(text.contains("spans of a row is 0"), "{text}");
}
