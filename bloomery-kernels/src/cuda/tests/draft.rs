//! Rows that come one later, against the CPU's way, and pairs of norms, against a norm each.

use super::super::testing::{Place, places};
use super::super::{Carry, NormQuantize, Pair};
use crate::cpu::testing::{Rng, bits};

const NONE: u32 = u32::MAX;
const SLOTS: usize = 5;

/// A step: how many rows each sequence has, where it starts from, and which rows go where.
struct Step<'a> {
    lens: &'a [usize],
    from: &'a [u32],
    saves: &'a [(usize, u32)],
}

impl Step<'_> {
    fn rows(&self) -> usize {
        self.lens.iter().sum()
    }

    fn starts(&self) -> Vec<u32> {
        (0..=self.lens.len()).map(|s| self.lens[..s].iter().sum::<usize>() as u32).collect()
    }

    fn saved(&self) -> Vec<u32> {
        let mut saves = vec![NONE; self.rows()];
        self.saves.iter().for_each(|&(row, slot)| saves[row] = slot);
        saves
    }

    fn sequence(&self) -> Vec<u32> {
        self.lens.iter().zip(0..).flat_map(|(&len, s)| vec![s; len]).collect()
    }

    /// Rows one later, and what the slots have then.
    fn expected(&self, x: &[f32], states: &[f32], cols: usize) -> (Vec<f32>, Vec<f32>) {
        let (mut out, mut after) = (Vec::new(), states.to_vec());
        for (s, &len) in self.lens.iter().enumerate() {
            let (first, slot) = (self.starts()[s] as usize, self.from[s] as usize);
            for row in first..first + len {
                match row == first {
                    true if slot < SLOTS => out.extend_from_slice(&states[slot * cols..][..cols]),
                    true => out.extend(vec![0.0; cols]),
                    false => out.extend_from_slice(&x[(row - 1) * cols..][..cols]),
                }
            }
        }
        for &(row, slot) in self.saves.iter().filter(|(_, slot)| *slot < SLOTS as u32) {
            after[slot as usize * cols..][..cols].copy_from_slice(&x[row * cols..][..cols]);
        }
        (out, after)
    }
}

fn carried(place: &mut Place, step: &Step<'_>, cols: usize, shifts: bool) {
    let rows = step.rows();
    let mut rng = Rng::new((rows + cols) as u64);
    let (x, states) = (rng.normals(rows * cols), rng.normals(SLOTS * cols));
    let (xs, slots, out) = (place.buffer(&x), place.buffer(&states), place.poison::<f32>(rows * cols));
    let op = Carry {
        x: shifts.then(|| xs.span()),
        cols,
        out: out.span(),
        states: slots.span(),
        sequence: place.buffer(&step.sequence()).span(),
        from: place.buffer(step.from).span(),
        starts: place.buffer(&step.starts()).span(),
        saves: place.buffer(&step.saved()).span(),
    };
    place.run(&op.launch(place.info()).unwrap());
    let (mut expected, mut after) = step.expected(&x, &states, cols);
    if !shifts {
        let sequence = step.sequence();
        let rows = sequence.iter().map(|&s| match step.from[s as usize] as usize {
            slot if slot < SLOTS => states[slot * cols..][..cols].to_vec(),
            _ => vec![0.0; cols],
        });
        expected = rows.flatten().collect();
        after = states;
    }
    let name = format!("{:?} from {:?}, {cols} columns", step.lens, step.from);
    assert_eq!(bits(&place.read(&out)), bits(&expected), "{name}");
    assert_eq!(bits(&place.read(&slots)), bits(&after), "{name}: slots");
}

#[test]
fn rows_come_one_later() {
    let steps = [
        Step { lens: &[1], from: &[NONE], saves: &[(0, 3)] },
        Step { lens: &[1], from: &[3], saves: &[(0, 3)] },
        Step { lens: &[1], from: &[2], saves: &[] },
        // The last row where the sequence starts from, others in the middle.
        Step { lens: &[7], from: &[1], saves: &[(0, 0), (3, 4), (6, 1)] },
        Step { lens: &[2], from: &[0], saves: &[(1, 0)] },
        Step {
            lens: &[3, 1, 0, 5],
            from: &[2, 0, NONE, SLOTS as u32],
            saves: &[(2, 2), (3, 1), (6, 3), (8, 4)],
        },
        Step { lens: &[1, 1, 2, 0], from: &[4, 2, NONE, NONE], saves: &[(0, 4), (1, 0), (3, 3)] },
        Step { lens: &[40, 33], from: &[NONE, 1], saves: &[(39, 0), (50, 3), (72, 1)] },
    ];
    for mut place in places() {
        for step in &steps {
            for cols in [4, 132, 2052] {
                carried(&mut place, step, cols, true);
                carried(&mut place, step, cols, false);
            }
        }
    }
}

#[test]
fn pairs_have_the_bits_of_norms() {
    for mut place in places() {
        for (rows, cols) in [(1, 8), (3, 96), (2, 2048), (33, 320)] {
            let mut rng = Rng::new(cols as u64);
            let gains = [(); 2].map(|()| place.buffer(&rng.normals(cols)));
            let halves = [(); 2].map(|()| place.buffer(&rng.normals(rows * cols)));
            let eps = [1e-6, 1e-3];
            let mut normed = Vec::new();
            for i in 0..2 {
                let out = place.poison::<f32>(rows * cols);
                let norm = NormQuantize {
                    x: halves[i].span(),
                    rows,
                    cols,
                    norm: Some((gains[i].span(), eps[i])),
                    normed: Some(out.span()),
                    rounded: None,
                };
                place.run(&norm.launch(place.info()).unwrap());
                normed.push(place.read(&out));
            }
            let expected: Vec<f32> =
                (0..2 * rows).flat_map(|half| normed[half % 2][half / 2 * cols..][..cols].to_vec()).collect();
            let out = place.poison::<f32>(2 * rows * cols);
            let (x, norms) = ([0, 1].map(|i| halves[i].span()), [0, 1].map(|i| (gains[i].span(), eps[i])));
            let op = Pair { x, norms, cols, streams: 1, out: out.span() };
            place.run(&op.launch(place.info()).unwrap());
            assert_eq!(bits(&place.read(&out)), bits(&expected), "{rows} of {cols}");
        }
    }
}

#[test]
fn streams_have_the_bits_of_pairs() {
    const STREAMS: usize = 3;
    for mut place in places() {
        for (rows, cols) in [(1, 8), (2, 96), (5, 320)] {
            let mut rng = Rng::new(cols as u64);
            let (first, second) = (rng.normals(rows * cols), rng.normals(rows * STREAMS * cols));
            let gains = [rng.normals(cols), rng.normals(STREAMS * cols)];
            let norms = [0, 1].map(|i| (place.buffer(&gains[i]).span(), [1e-6, 1e-3][i]));
            let out = place.poison::<f32>(2 * second.len());
            let x = [&first, &second].map(|values| place.buffer(values).span());
            let op = Pair { x, norms: norms.clone(), cols, streams: STREAMS, out: out.span() };
            place.run(&op.launch(place.info()).unwrap());
            let found = place.read(&out);
            for stream in 0..STREAMS {
                let of = |values: &[f32], count| -> Vec<f32> {
                    values.chunks(cols).skip(stream).step_by(count).flatten().copied().collect()
                };
                let (own, alone) = (of(&second, STREAMS), place.poison::<f32>(2 * rows * cols));
                let gain = place.buffer(&gains[1][stream * cols..][..cols]).span();
                let x = [&first, &own].map(|values| place.buffer(values).span());
                let norms = [norms[0].clone(), (gain, 1e-3)];
                let op = Pair { x, norms, cols, streams: 1, out: alone.span() };
                place.run(&op.launch(place.info()).unwrap());
                let pairs = found.chunks(2 * cols).skip(stream).step_by(STREAMS);
                let pairs: Vec<f32> = pairs.flatten().copied().collect();
                assert_eq!(bits(&pairs), bits(&place.read(&alone)), "stream {stream}, {rows} of {cols}");
            }
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().remove(0);
    let (x, words) = (place.buffer(&[0.0_f32; 64]), place.buffer(&[0_u32; 16]));
    let part = |range| x.slice(range).unwrap();
    let word = |len| words.slice(0..len).unwrap();
    let op = Carry {
        x: Some(part(0..16)),
        cols: 8,
        out: part(16..32),
        states: part(32..48),
        sequence: word(2),
        from: word(1),
        starts: word(2),
        saves: word(2),
    };
    assert!(op.launch(place.info()).is_ok());
    let refused = |op: Carry| op.launch(place.info()).unwrap_err().to_string();
    assert_eq!(refused(Carry { cols: 6, ..op.clone() }), "carry: columns is 6, must be a multiple of 4");
    assert_eq!(refused(Carry { from: word(3), ..op.clone() }), "carry: sequences is 3, must be 1 to 2");
    assert!(refused(Carry { out: part(0..16), ..op.clone() }).ends_with("must be apart from x"));
    assert!(refused(Carry { starts: word(3), ..op.clone() }).contains("starts of sequences"));
    assert!(refused(Carry { states: part(33..49), ..op }).contains("an address"));
    let norms = [1e-6, 1e-5].map(|eps| (part(0..8), eps));
    let op = Pair { x: [part(0..8), part(8..16)], norms, cols: 8, streams: 1, out: part(16..32) };
    assert!(op.launch(place.info()).is_ok());
    let refused = |op: Pair| op.launch(place.info()).unwrap_err().to_string();
    assert_eq!(refused(Pair { cols: 4, ..op.clone() }), "pair: columns is 4, must be a multiple of 8");
    assert!(refused(Pair { x: [part(0..8), part(8..24)], ..op.clone() }).contains("values of a half"));
    assert!(refused(Pair { x: [part(0..8), part(16..24)], ..op }).ends_with("apart from the halves"));
}
