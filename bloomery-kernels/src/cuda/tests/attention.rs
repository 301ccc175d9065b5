//! Attention against double precision, and rows together against rows alone.

use super::super::testing::{Place, places};
use super::super::{Attend, AttendScratch, AttendTiles, Buffer, KvCache, Sight};
use super::paged::Sequences;
use crate::cpu::KvType;
use crate::cpu::testing::{Rng, bits};

struct Case {
    kind: KvType,
    kv_heads: usize,
    group: usize,
    key_dim: usize,
    value_dim: usize,
    window: Option<usize>,
}

impl Case {
    fn new(kind: KvType, kv_heads: usize, group: usize, dim: usize) -> Self {
        Self { kind, kv_heads, group, key_dim: dim, value_dim: dim, window: None }
    }

    fn of(kind: KvType, group: usize, (key_dim, value_dim): (usize, usize)) -> Self {
        Self { key_dim, value_dim, ..Self::new(kind, 1, group, 0) }
    }

    fn seeing(self, window: usize) -> Self {
        Self { window: Some(window), ..self }
    }

    fn shape(&self) -> KvCache {
        KvCache::new(self.kv_heads, self.key_dim, self.value_dim, self.kind).unwrap()
    }

    fn name(&self) -> String {
        let Self { kind, kv_heads, group, key_dim, value_dim, window } = self;
        format!("{kind:?} {kv_heads} x {group} heads of {key_dim}, {value_dim}, window {window:?}")
    }
}

/// One place is enough: the kernels copy nothing in bulk.
fn place() -> Place {
    places().remove(0)
}

struct Pages<'a> {
    sequences: &'a Sequences,
    window: Option<usize>,
    keys: Buffer<u8>,
    values: Buffer<u8>,
    partials: Buffer<f32>,
    tickets: Buffer<u32>,
}

impl<'a> Pages<'a> {
    fn new(place: &mut Place, sequences: &'a Sequences, heads: usize) -> Self {
        let [keys, values] = sequences.packed().map(|bytes| place.buffer(&bytes));
        let shape = sequences.shape;
        let partials = place.poison::<f32>(AttendScratch::floats(&shape, heads, Attend::FEW));
        let tickets = place.buffer(&vec![0_u32; AttendScratch::tickets(&shape, heads, Attend::FEW)]);
        Self { sequences, window: None, keys, values, partials, tickets }
    }

    fn attend(&self, place: &mut Place, rows: &[(usize, usize)], heads: usize, q: &[f32]) -> Vec<f32> {
        let shape = self.sequences.shape;
        let cache = self.sequences.rows(place, rows, &self.keys, &self.values);
        let positions: Vec<u32> = rows.iter().map(|row| row.1 as u32).collect();
        let sequences: Vec<u32> = rows.iter().map(|row| row.0 as u32).collect();
        let tiling = AttendTiles::new(place.info(), &shape, heads).unwrap();
        let tiles = place.buffer(&tiling.list(&positions, &sequences));
        let (q, out) = (place.buffer(q), place.poison::<f32>(rows.len() * heads * shape.value_dim()));
        let op = Attend {
            q: q.span(),
            cache,
            out: out.span(),
            rows: rows.len(),
            heads,
            scale: scale(&shape),
            window: self.window,
            sight: Sight::All,
            sums: None,
            scratch: AttendScratch { partials: self.partials.span(), tickets: self.tickets.span() },
            tiles: Some(tiles.span()),
        };
        op.launches(place.info()).unwrap().iter().for_each(|launch| place.run(launch));
        assert!(place.read(&self.tickets).iter().all(|ticket| *ticket == 0), "tickets are left");
        place.read(&out)
    }
}

fn scale(shape: &KvCache) -> f32 {
    (shape.key_dim() as f32).sqrt().recip()
}

/// Rows against double precision; every `alone`th row once more without the others.
fn verify(place: &mut Place, case: &Case, lens: &[usize], rows: &[(usize, usize)], alone: usize) {
    let shape = case.shape();
    let mut rng = Rng::new((case.key_dim + case.group + rows.len()) as u64);
    let sequences = Sequences::new(&mut rng, shape, lens);
    let heads = case.kv_heads * case.group;
    let q = rng.normals(rows.len() * heads * shape.key_dim());
    let pages = Pages { window: case.window, ..Pages::new(place, &sequences, heads) };
    let out = pages.attend(place, rows, heads, &q);
    let rounds = rows.len() > Attend::FEW && case.kind != KvType::F32;
    let weight_bits = if rounds { 11 } else { 22 };
    let mut worst = 0.0_f64;
    for (i, row) in rows.iter().enumerate() {
        for head in 0..heads {
            let q = &q[(i * heads + head) * shape.key_dim()..][..shape.key_dim()];
            let got = &out[(i * heads + head) * shape.value_dim()..][..shape.value_dim()];
            let (exact, bound) =
                sequences.attention(q, *row, head / case.group, (scale(&shape), case.window), weight_bits);
            for ((got, exact), bound) in got.iter().zip(exact).zip(bound) {
                let off = (f64::from(*got) - exact).abs();
                assert!(
                    off <= bound,
                    "{}, row {i} {row:?}, head {head}: {got} {exact} > {bound}",
                    case.name()
                );
                worst = worst.max(off / bound);
            }
        }
    }
    println!("{}, {} rows: {worst:.3} of the bound", case.name(), rows.len());
    for i in (0..rows.len()).step_by(alone) {
        let (width, dim) = (heads * shape.key_dim(), heads * shape.value_dim());
        let solo = pages.attend(place, &rows[i..=i], heads, &q[i * width..(i + 1) * width]);
        if !rounds {
            assert_eq!(bits(&solo), bits(&out[i * dim..(i + 1) * dim]), "{}, row {i} alone", case.name());
        }
    }
}

/// The last row of every sequence.
fn last(lens: &[usize]) -> Vec<(usize, usize)> {
    lens.iter().enumerate().map(|(s, len)| (s, len - 1)).collect()
}

#[test]
fn few_rows_of_every_type_and_width() {
    let mut place = place();
    for kind in [KvType::F16, KvType::Q8_0, KvType::F32] {
        for (kv_heads, group, dim) in
            [(1, 8, 64), (2, 1, 128), (1, 7, 80), (1, 2, 256), (1, 10, 128), (3, 2, 16)]
        {
            if kind == KvType::Q8_0 && dim % 32 != 0 {
                continue;
            }
            let case = Case::new(kind, kv_heads, group, dim);
            let lens = [1, 63, 64, 65, 255, 256, 257, 1000];
            verify(&mut place, &case, &lens, &last(&lens), lens.len() - 1);
        }
    }
}

#[test]
fn few_rows_of_every_length() {
    let mut place = place();
    let case = Case::new(KvType::F16, 1, 2, 64);
    let lens = [1, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000];
    verify(&mut place, &case, &lens, &last(&lens), 3);
    if place.is_card() {
        // Pieces of one chunk, of two, and of several.
        let lens = [4095, 4096, 4097, 5000, 8192, 8193, 20_000];
        verify(&mut place, &Case::new(KvType::F16, 2, 8, 128), &lens, &last(&lens), 2);
        verify(&mut place, &Case::new(KvType::Q8_0, 1, 4, 64), &lens, &last(&lens), 2);
    }
}

#[test]
fn any_number_of_few_rows() {
    let mut place = place();
    for count in [1, 2, 3, 8, 9, 31, 32] {
        // A third of the rows are one sequence's.
        let run = count / 3 + 1;
        let mut lens = vec![60 + run];
        let mut rows: Vec<(usize, usize)> = (0..run).map(|i| (0, 60 + i)).collect();
        for s in 1..=count - run {
            lens.push(5 * s);
            rows.push((s, 5 * s - 1));
        }
        verify(&mut place, &Case::new(KvType::F16, 1, 2, 64), &lens, &rows, 9);
    }
}

#[test]
fn many_rows() {
    let mut place = place();
    // A prompt from its start, a chunk behind a prefix, and others' single rows.
    let rows = |prompt: usize, chunk: usize, others: usize| {
        let mut rows: Vec<(usize, usize)> = (0..prompt).map(|i| (0, i)).collect();
        rows.extend((0..chunk).map(|i| (1, 60 + i)));
        rows.extend((0..others).map(|i| (2 + i, 3 * i)));
        let lens: Vec<usize> =
            [prompt, 60 + chunk].into_iter().chain((0..others).map(|i| 3 * i + 1)).collect();
        (lens, rows)
    };
    for (kind, group, dim, (lens, rows)) in [
        (KvType::F16, 2, 64, rows(20, 10, 3)),
        (KvType::F16, 7, 80, rows(30, 8, 1)),
        (KvType::F16, 1, 256, rows(17, 18, 1)),
        (KvType::Q8_0, 8, 128, rows(9, 22, 2)),
        (KvType::Q8_0, 2, 64, rows(70, 30, 0)),
        (KvType::F32, 2, 64, rows(20, 10, 3)),
    ] {
        verify(&mut place, &Case::new(kind, 1, group, dim), &lens, &rows, 1000);
    }
    if place.is_card() {
        for kind in [KvType::F16, KvType::Q8_0] {
            for (group, dim) in [(1, 64), (8, 128), (7, 96), (2, 256), (8, 32)] {
                for (prompt, chunk, others) in [(100, 0, 0), (33, 300, 9), (700, 128, 40)] {
                    let (lens, rows) = rows(prompt, chunk, others);
                    verify(&mut place, &Case::new(kind, 2, group, dim), &lens, &rows, 1000);
                }
            }
        }
    }
}

#[test]
fn many_rows_do_not_know_their_company() {
    let mut place = place();
    for case in [Case::new(KvType::F16, 1, 2, 64), Case::of(KvType::F16, 2, (272, 16)).seeing(50)] {
        company(&mut place, &case);
    }
}

fn company(place: &mut Place, case: &Case) {
    let shape = case.shape();
    let (key, value) = (2 * case.key_dim, 2 * case.value_dim);
    let mut rng = Rng::new(77);
    let sequences = Sequences::new(&mut rng, shape, &[120, 40, 7]);
    let pages = Pages { window: case.window, ..Pages::new(place, &sequences, 2) };
    // 33 rows in the middle of a sequence, and the same in a longer chunk that starts elsewhere, behind others.
    let few: Vec<(usize, usize)> = (70..103).map(|p| (0, p)).collect();
    let mut many: Vec<(usize, usize)> = (0..40).map(|p| (1, p)).chain([(2, 6)]).collect();
    many.extend((65..110).map(|p| (0, p)));
    let q = rng.normals(many.len() * key);
    let all = pages.attend(place, &many, 2, &q);
    let start = many.iter().position(|row| *row == few[0]).unwrap();
    let alone = pages.attend(place, &few, 2, &q[start * key..][..33 * key]);
    assert_eq!(bits(&alone), bits(&all[start * value..][..33 * value]), "{}", case.name());
}

#[test]
fn tiles_hold_every_row_once_and_no_two_sequences() {
    let shape = KvCache::new(1, 128, 128, KvType::F16).unwrap();
    let info = super::super::DeviceInfo::emulated((9, 0));
    let tiling = AttendTiles::new(&info, &shape, 8).unwrap();
    let sequences: Vec<u32> = [(0, 40), (3, 1), (1, 17)].iter().flat_map(|(s, n)| vec![*s; *n]).collect();
    let positions: Vec<u32> = (0..40).chain([9]).chain(100..117).collect();
    let list = tiling.list(&positions, &sequences);
    assert_eq!(list, [57, 1, 41, 16, 32, 8, 16, 16, 0, 16, 40, 1]);
    assert!(AttendTiles::new(&info, &shape, 129).is_err());
}

#[test]
fn keys_and_values_of_different_widths() {
    let mut place = place();
    for kind in [KvType::F16, KvType::Q8_0] {
        verify(&mut place, &Case::of(kind, 3, (96, 64)), &[70], &[(0, 69)], 1);
        verify(&mut place, &Case::of(kind, 3, (32, 160)), &[70], &[(0, 69)], 1);
    }
}

#[test]
fn latents() {
    let mut place = place();
    let lens = [1, 64, 65, 129, 300];
    // Those of V2-Lite and of smaller models.
    for (kind, group, dims) in [
        (KvType::F16, 16, (576, 512)),
        (KvType::Q8_0, 3, (576, 512)),
        (KvType::F32, 4, (576, 512)),
        (KvType::F16, 4, (288, 256)),
        (KvType::Q8_0, 4, (288, 256)),
        (KvType::F16, 4, (40, 32)),
        (KvType::F32, 4, (40, 32)),
    ] {
        verify(&mut place, &Case::of(kind, group, dims), &lens, &last(&lens), 2);
    }
    // A prompt's start and others' rows: whole rows in a tile, a part of a row's heads, and windows.
    for (kind, group, dims, window) in [
        (KvType::F16, 4, (288, 256), None),
        (KvType::Q8_0, 2, (288, 256), Some(9)),
        (KvType::F16, 40, (272, 16), None),
        (KvType::F16, 2, (272, 32), Some(40)),
        (KvType::F16, 2, (576, 512), None),
    ] {
        let mut rows: Vec<(usize, usize)> = (0..30).map(|i| (0, i)).collect();
        rows.extend([(1, 140), (1, 141), (2, 0), (3, 64)]);
        let case = Case { window, ..Case::of(kind, group, dims) };
        verify(&mut place, &case, &[30, 142, 1, 65], &rows, 1000);
    }
    // With so many heads, two launches.
    let rows: Vec<(usize, usize)> = (0..4).map(|i| (0, 3 + i)).collect();
    verify(&mut place, &Case::of(KvType::F16, 256, (272, 16)), &[7], &rows, 3);
    if place.is_card() {
        let lens = [4097, 5000, 20_000];
        for kind in [KvType::F16, KvType::Q8_0] {
            verify(&mut place, &Case::of(kind, 128, (576, 512)), &lens, &last(&lens), 1);
            let rows: Vec<(usize, usize)> = (0..100).map(|i| (1, 4000 + i)).collect();
            verify(&mut place, &Case::of(kind, 16, (576, 512)), &lens, &rows, 33);
        }
    }
}

#[test]
fn windows() {
    let mut place = place();
    // Lengths around pages, pieces and the window.
    let lens = [1, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 160, 192, 257, 700];
    for (kind, dim, window) in
        [(KvType::F16, 64, 32), (KvType::Q8_0, 32, 33), (KvType::F32, 32, 32), (KvType::F16, 256, 64)]
    {
        verify(&mut place, &Case::new(kind, 1, 4, dim).seeing(window), &lens, &last(&lens), 4);
    }
    verify(&mut place, &Case::new(KvType::F16, 2, 1, 64).seeing(1), &lens, &last(&lens), 4);
    verify(&mut place, &Case::of(KvType::F16, 2, (288, 256)).seeing(100), &lens, &last(&lens), 4);
    // Pieces of one window.
    verify(
        &mut place,
        &Case::new(KvType::F16, 1, 2, 64).seeing(300),
        &[1000, 1023],
        &[(0, 999), (1, 1022)],
        1,
    );
    for (kind, dim, window) in [
        (KvType::F16, 64, 32),
        (KvType::Q8_0, 32, 7),
        (KvType::F32, 32, 32),
        (KvType::F16, 256, 40),
        (KvType::F16, 64, 1),
    ] {
        let mut rows: Vec<(usize, usize)> = (0..70).map(|i| (0, i)).collect();
        rows.extend((0..40).map(|i| (1, 150 + i)));
        rows.extend([(2, 299), (3, 63)]);
        verify(&mut place, &Case::new(kind, 1, 2, dim).seeing(window), &[70, 190, 300, 64], &rows, 1000);
    }
    if place.is_card() {
        let lens = [4096, 5000, 8193, 20_000];
        for window in [512, 1024, 4096, 5000] {
            verify(&mut place, &Case::new(KvType::F16, 2, 2, 256).seeing(window), &lens, &last(&lens), 1);
            let rows: Vec<(usize, usize)> = (0..700).map(|i| (1, 4300 + i)).collect();
            verify(&mut place, &Case::new(KvType::F16, 2, 2, 256).seeing(window), &lens, &rows, 1000);
            verify(&mut place, &Case::new(KvType::Q8_0, 1, 4, 128).seeing(window), &lens, &rows, 1000);
        }
    }
}

#[test]
fn what_is_before_a_window_is_not_read() {
    let mut place = place();
    for (kind, count) in [(KvType::F16, 1), (KvType::F16, 40), (KvType::F32, 2)] {
        let case = Case::new(kind, 1, 2, 64).seeing(70);
        let mut rng = Rng::new(5);
        let mut sequences = Sequences::new(&mut rng, case.shape(), &[400]);
        let rows: Vec<(usize, usize)> = (400 - count..400).map(|p| (0, p)).collect();
        let q = rng.normals(count * 2 * 64);
        let attend = |place: &mut Place, sequences: &Sequences| {
            let pages = Pages { window: case.window, ..Pages::new(place, sequences, 2) };
            pages.attend(place, &rows, 2, &q)
        };
        let sound = attend(&mut place, &sequences);
        let visible = (401 - count - 70) / 64 * 64;
        sequences.k[0][..visible * 64].fill(f32::NAN);
        sequences.v[0][..visible * 64].fill(f32::NAN);
        assert_eq!(bits(&attend(&mut place, &sequences)), bits(&sound));
    }
}

#[test]
fn long_rows_are_merged_from_pieces_in_order() {
    use crate::abi::attention::{CHUNK, SPLITS, split};

    for len in (1..300_000_u32).step_by(77) {
        let span = split(len, u32::MAX);
        let pieces = len.div_ceil(span);
        assert!(span.is_multiple_of(CHUNK) && pieces <= SPLITS, "{len}");
        assert!(len < CHUNK * SPLITS || pieces > SPLITS / 2, "{len}: {pieces}");
        for window in [1, 127, 128, 512, 3968, 3969, 4096, 5000, 100_000] {
            let span = split(len, window);
            let pieces = len.div_ceil(span) - len.saturating_sub(window) / span;
            assert!(span.is_multiple_of(CHUNK) && pieces <= SPLITS, "{len}, {window}: {pieces}");
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = place();
    let shape = KvCache::new(2, 64, 64, KvType::F16).unwrap();
    let sequences = Sequences::new(&mut Rng::new(1), shape, &[70]);
    let (cache, _pages) = sequences.buffers(&mut place, &[(0, 69)]);
    let (x, tickets) = (place.poison::<f32>(256), place.buffer(&[0_u32; 2]));
    let partials = place.poison::<f32>(AttendScratch::floats(&shape, 4, 1));
    let op = Attend {
        q: x.span(),
        cache,
        out: x.span(),
        rows: 1,
        heads: 4,
        scale: 0.125,
        window: None,
        sight: Sight::All,
        sums: None,
        scratch: AttendScratch { partials: partials.span(), tickets: tickets.span() },
        tiles: None,
    };
    assert!(op.launches(place.info()).is_ok());
    let refused =
        |op: Attend| op.launches(&super::super::DeviceInfo::emulated((9, 0))).unwrap_err().to_string();
    assert_eq!(
        refused(Attend { heads: 3, ..op.clone() }),
        "attend: query heads is 3, must be a multiple of 2 up to 2^16"
    );
    assert!(refused(Attend { rows: 2, ..op.clone() }).starts_with("attend: positions is 1"));
    assert!(refused(Attend { scale: -1.0, ..op.clone() }).contains("scale"));
    assert!(refused(Attend { window: Some(0), ..op.clone() }).contains("window"));
    assert!(refused(Attend { q: x.slice(0..252).unwrap(), ..op.clone() }).contains("queries"));
    let scratch = AttendScratch { partials: x.span(), tickets: tickets.span() };
    assert!(refused(Attend { scratch, ..op.clone() }).contains("scratch"));
    let mut cache = op.cache.clone();
    cache.values = cache.values.slice(0..cache.values.len() - 1).unwrap();
    assert!(refused(Attend { cache, ..op }).contains("bytes of values"));
    for (heads, dim, kind) in
        [(0, 64, KvType::F16), (1, 24, KvType::F16), (1, 528, KvType::F32), (1, 80, KvType::Q8_0)]
    {
        assert!(KvCache::new(heads, dim, dim, kind).is_err());
    }
}
