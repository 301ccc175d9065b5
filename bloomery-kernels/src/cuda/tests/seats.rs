//! Seats, and a host that computes what has none.

mod fetch;

use std::time::{Duration, Instant};

use super::super::testing::{Place, places};
use super::super::{Buffer, Collect, Desk, DeskShape, NOWHERE, Numbers, Seat};
use crate::cpu::testing::{Rng, bits};

const LONG: Duration = Duration::from_secs(20);

fn desk(place: &Place, shape: DeskShape) -> Desk {
    match place {
        Place::Host(_) => Desk::on_host(shape).unwrap(),
        Place::Card(stream) => Desk::new(stream.device(), shape).unwrap(),
    }
}

fn begin(place: &mut Place, desk: &mut Desk, step: u32) {
    match place {
        Place::Host(_) => desk.begin_on_host(step),
        Place::Card(stream) => desk.begin(stream, step).unwrap(),
    }
}

/// Waits for what was queued, with the host free to answer meanwhile on a card; on the host everything has run.
fn finish(place: &Place) {
    if let Place::Card(stream) = place {
        stream.synchronize().unwrap();
    }
}

/// Rows, their experts, and where experts sit.
struct Setup {
    rows: usize,
    used: usize,
    cols: usize,
    experts: Vec<u32>,
    weights: Vec<f32>,
    seats: Vec<u32>,
    normed: Vec<f32>,
    before: Vec<f32>,
    sums: Vec<f32>,
}

impl Setup {
    /// `seated` of 16 experts have seats.
    fn new(rows: usize, used: usize, cols: usize, seated: usize) -> Self {
        const COUNT: usize = 16;
        let mut rng = Rng::new((rows * 1000 + used * 100 + cols + seated) as u64);
        let sits = |expert: u32| (7 * expert as usize) % COUNT < seated;
        let mut experts = Vec::new();
        for row in 0..rows {
            // The last of several rows needs nobody, where it can.
            let alone = row > 0 && row + 1 == rows && seated >= used;
            let mut free: Vec<u32> = (0..COUNT as u32).filter(|&expert| !alone || sits(expert)).collect();
            for slot in 0..used {
                let expert = free.swap_remove(rng.below(free.len()));
                // Some pairs have no expert at all.
                let none = row % 3 == 1 && slot == used / 2;
                experts.push(if none { [u32::MAX, COUNT as u32][slot % 2] } else { expert });
            }
        }
        let seats = (0..COUNT as u32).map(|i| if sits(i) { 100 + i } else { NOWHERE });
        Self {
            weights: experts.iter().map(|_| rng.unit() as f32).collect(),
            seats: seats.collect(),
            normed: rng.normals(rows * cols),
            before: rng.normals(rows * cols),
            sums: rng.normals(rows * cols),
            rows,
            used,
            cols,
            experts,
        }
    }

    fn seat(&self, expert: u32) -> u32 {
        self.seats.get(expert as usize).copied().unwrap_or(NOWHERE)
    }

    /// Whether the pair has an expert without a seat.
    fn misses(&self, pair: usize) -> bool {
        let expert = self.experts[pair];
        (expert as usize) < self.seats.len() && self.seat(expert) == NOWHERE
    }

    fn asks(&self, row: usize) -> bool {
        (row * self.used..(row + 1) * self.used).any(|pair| self.misses(pair))
    }

    fn missing(&self) -> usize {
        (0..self.experts.len()).filter(|&pair| self.misses(pair)).count()
    }

    fn shape(&self, layers: usize) -> DeskShape {
        DeskShape { layers, rows: self.rows, used: self.used, cols: self.cols, outputs: self.cols }
    }

    fn seating(&self, place: &mut Place, numbers: Numbers) -> (Seat, Buffer<u32>, Buffer<u32>) {
        let (out, counts) = (place.poison(self.experts.len()), place.buffer(&vec![0_u32; self.seats.len()]));
        let seat = Seat {
            experts: place.buffer(&self.experts).span(),
            weights: place.buffer(&self.weights).span(),
            used: self.used,
            seats: place.buffer(&self.seats).span(),
            out: out.span(),
            numbers,
            counts: Some(counts.span()),
            normed: Some(place.buffer(&self.normed).span()),
        };
        (seat, out, counts)
    }

    fn numbers(&self, numbers: Numbers) -> Vec<u32> {
        let number = |&expert: &u32| match (self.seat(expert), numbers) {
            (NOWHERE, _) => NOWHERE,
            (_, Numbers::Experts) => expert,
            (seat, Numbers::Seats) => seat,
        };
        self.experts.iter().map(number).collect()
    }

    /// `before`, with the sums of the rows that ask.
    fn after(&self) -> Vec<f32> {
        let sum = |i: usize| if self.asks(i / self.cols) { self.sums[i] } else { 0.0 };
        self.before.iter().enumerate().map(|(i, before)| before + sum(i)).collect()
    }

    /// The host's part of a layer: waits to be asked, looks at everything, answers. True if it was asked for anything.
    fn serve(&self, desk: &Desk, layer: usize) -> bool {
        let start = Instant::now();
        let missing = loop {
            match desk.asked(layer) {
                Some(missing) => break missing,
                None => {
                    assert!(start.elapsed() < LONG && desk.failed().is_none(), "layer {layer} does not ask")
                }
            }
            std::hint::spin_loop();
        };
        assert_eq!(missing, self.missing());
        if missing == 0 {
            return false;
        }
        let (mut experts, mut weights) = (vec![0; self.experts.len()], vec![0.0; self.experts.len()]);
        desk.experts(layer, &mut experts).unwrap();
        desk.weights(layer, &mut weights).unwrap();
        assert_eq!(experts, self.experts);
        assert_eq!(bits(&weights), bits(&self.weights));
        let mut row = vec![0.0; self.cols];
        for i in 0..self.rows {
            if self.asks(i) {
                desk.row(i, &mut row).unwrap();
                assert_eq!(bits(&row), bits(&self.normed[i * self.cols..][..self.cols]), "row {i}");
            }
            // Those of other rows are not looked at.
            desk.set_sum(i, &self.sums[i * self.cols..][..self.cols]).unwrap();
        }
        desk.answer(layer).unwrap();
        true
    }
}

#[test]
fn pairs_get_the_numbers_of_seats_or_keep_those_of_experts() {
    for mut place in places() {
        for (rows, used, seated) in [(1, 1, 0), (1, 8, 5), (3, 8, 16), (70, 6, 11)] {
            let setup = Setup::new(rows, used, 4, seated);
            for numbers in [Numbers::Seats, Numbers::Experts] {
                let (seat, out, counts) = setup.seating(&mut place, numbers);
                let launch = seat.launch(place.info(), None).unwrap();
                place.run(&launch);
                place.run(&launch);
                assert_eq!(place.read(&out), setup.numbers(numbers), "{rows} rows of {used}, {numbers:?}");
                let chosen = |expert: u32| 2 * setup.experts.iter().filter(|&&other| other == expert).count();
                let expected: Vec<_> = (0..16).map(|expert| chosen(expert) as u32).collect();
                assert_eq!(place.read(&counts), expected);
            }
        }
    }
}

#[test]
fn the_host_computes_what_has_no_seat() {
    for mut place in places() {
        // Numbers of steps go round.
        let mut step = u32::MAX - 2;
        for (rows, used, cols, seated) in [
            (1, 1, 4, 0),
            (1, 8, 2048, 10),
            (2, 8, 132, 5),
            (5, 6, 1024, 8),
            (9, 8, 7168, 13),
            (3, 8, 64, 16),
        ] {
            let setup = Setup::new(rows, used, cols, seated);
            let layers = 3;
            let mut desk = desk(&place, setup.shape(layers));
            let (seat, numbers, _) = setup.seating(&mut place, Numbers::Seats);
            for _ in 0..3 {
                begin(&mut place, &mut desk, step);
                let outs: Vec<_> = (0..layers).map(|_| place.buffer(&setup.before)).collect();
                let desk = &desk;
                std::thread::scope(|scope| {
                    let setup = &setup;
                    scope.spawn(move || {
                        (0..layers).for_each(|layer| {
                            assert_eq!(setup.serve(desk, layer), setup.missing() > 0);
                        })
                    });
                    for (layer, out) in outs.iter().enumerate() {
                        let collect = Collect { out: out.span(), rows, limit: LONG };
                        place.run(&seat.launch(place.info(), Some((desk, layer))).unwrap());
                        place.run(&collect.launch(place.info(), desk, layer).unwrap());
                    }
                });
                finish(&place);
                for out in &outs {
                    assert_eq!(
                        bits(&place.read(out)),
                        bits(&setup.after()),
                        "{rows} rows of {cols}, step {step}"
                    );
                }
                assert_eq!(place.read(&numbers), setup.numbers(Numbers::Seats));
                assert_eq!(desk.failed(), None);
                // The step has ended: what was chosen is there whether the host was asked or not.
                let mut experts = vec![0; setup.experts.len()];
                desk.experts(layers - 1, &mut experts).unwrap();
                assert_eq!(experts, setup.experts);
                step = step.wrapping_add(1);
            }
        }
    }
}

#[test]
fn nothing_waits_where_all_experts_have_seats() {
    for mut place in places() {
        let setup = Setup::new(2, 8, 256, 16);
        let mut desk = desk(&place, setup.shape(1));
        let (seat, ..) = setup.seating(&mut place, Numbers::Seats);
        let out = place.buffer(&setup.before);
        let collect = Collect { out: out.span(), rows: 2, limit: LONG };
        begin(&mut place, &mut desk, 0);
        assert_eq!(desk.asked(0), None);
        place.run(&seat.launch(place.info(), Some((&desk, 0))).unwrap());
        place.run(&collect.launch(place.info(), &desk, 0).unwrap());
        finish(&place);
        assert_eq!((desk.asked(0), desk.asked(1), desk.failed()), (Some(0), None, None));
        assert_eq!(bits(&place.read(&out)), bits(&setup.before));
        // Nor where nobody was asked in this step.
        begin(&mut place, &mut desk, 1);
        place.run(&collect.launch(place.info(), &desk, 0).unwrap());
        finish(&place);
        assert_eq!((desk.asked(0), desk.failed()), (None, None));
        assert_eq!(bits(&place.read(&out)), bits(&setup.before));
    }
}

#[test]
fn a_host_that_does_not_answer_is_waited_for_once() {
    for mut place in places() {
        let setup = Setup::new(1, 8, 64, 3);
        let mut desk = desk(&place, setup.shape(3));
        let (seat, ..) = setup.seating(&mut place, Numbers::Seats);
        let outs: Vec<_> = (0..3).map(|_| place.buffer(&setup.before)).collect();
        let limit = Duration::from_millis(30);
        for step in [0, 1] {
            begin(&mut place, &mut desk, step);
            assert_eq!(desk.failed(), None);
            let start = Instant::now();
            for (layer, out) in outs.iter().enumerate() {
                // The last layer would wait for longer than the test.
                let limit = if layer == 2 { 100 * LONG } else { limit };
                let collect = Collect { out: out.span(), rows: 1, limit };
                place.run(&seat.launch(place.info(), Some((&desk, layer))).unwrap());
                place.run(&collect.launch(place.info(), &desk, layer).unwrap());
            }
            finish(&place);
            assert!(start.elapsed() >= limit);
            assert_eq!(desk.failed(), Some(0));
            assert_eq!([0, 1, 2].map(|layer| desk.asked(layer).is_some()), [true, false, false]);
            for out in &outs {
                assert_eq!(bits(&place.read(out)), bits(&setup.before));
            }
        }
        // The next step has its host again.
        begin(&mut place, &mut desk, 2);
        std::thread::scope(|scope| {
            scope.spawn(|| setup.serve(&desk, 0));
            let collect = Collect { out: outs[0].span(), rows: 1, limit: LONG };
            place.run(&seat.launch(place.info(), Some((&desk, 0))).unwrap());
            place.run(&collect.launch(place.info(), &desk, 0).unwrap());
        });
        finish(&place);
        assert_eq!(bits(&place.read(&outs[0])), bits(&setup.after()));
    }
}

#[test]
fn a_step_that_is_broken_off_waits_for_nobody() {
    for mut place in places() {
        let setup = Setup::new(3, 8, 64, 3);
        let mut desk = desk(&place, setup.shape(2));
        let (seat, ..) = setup.seating(&mut place, Numbers::Seats);
        let outs: Vec<_> = (0..2).map(|_| place.buffer(&setup.before)).collect();
        begin(&mut place, &mut desk, 9);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while desk.asked(0).is_none() {
                    std::hint::spin_loop();
                }
                desk.abort();
            });
            for (layer, out) in outs.iter().enumerate() {
                let collect = Collect { out: out.span(), rows: 3, limit: 100 * LONG };
                place.run(&seat.launch(place.info(), Some((&desk, layer))).unwrap());
                place.run(&collect.launch(place.info(), &desk, layer).unwrap());
            }
        });
        finish(&place);
        assert_eq!((desk.failed(), desk.asked(1)), (None, None));
        for out in &outs {
            assert_eq!(bits(&place.read(out)), bits(&setup.before));
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    for mut place in places() {
        let setup = Setup::new(2, 8, 64, 3);
        let one = desk(&place, setup.shape(1));
        let (seat, ..) = setup.seating(&mut place, Numbers::Seats);
        let refused = |seat: &Seat, at| seat.launch(place.info(), at).unwrap_err().to_string();
        assert_eq!(
            refused(&Seat { out: seat.experts.clone(), ..seat.clone() }, None),
            format!(
                "seats_offer: the address of the numbers is {}, must be 64 bytes away from the experts'",
                seat.experts.address()
            )
        );
        let other = Seat { used: 3, ..seat.clone() };
        assert_eq!(refused(&other, None), "seats_offer: pairs is 16, must be 15");
        let other = Seat { used: 33, ..seat.clone() };
        assert_eq!(refused(&other, None), "seats_offer: experts of a row is 33, must be 1 to 32");
        let other = Seat { normed: None, ..seat.clone() };
        assert!(other.launch(place.info(), None).is_ok());
        assert!(refused(&other, Some((&one, 0))).contains("must be a multiple of 4 for each of 2 rows"));
        assert_eq!(refused(&seat, Some((&one, 1))), "a desk: the layer is 1, must be less than 1");
        let small = desk(&place, DeskShape { rows: 1, ..setup.shape(1) });
        assert_eq!(
            refused(&seat, Some((&small, 0))),
            "seats_offer: rows at the desk is 2, must be at most 1"
        );
        let out = place.poison::<f32>(2 * 64);
        let collect = Collect { out: out.span(), rows: 2, limit: LONG };
        assert!(collect.launch(place.info(), &one, 0).is_ok());
        assert!(collect.launch(place.info(), &small, 0).is_err());
        let narrow = desk(&place, DeskShape { outputs: 60, ..setup.shape(1) });
        let error = collect.launch(place.info(), &narrow, 0).unwrap_err();
        assert_eq!(error.to_string(), "seats_collect: columns is 64, must be a multiple of 4, at most 60");
        assert!(one.row(2, &mut [0.0; 64]).is_err());
        assert!(one.set_sum(0, &[0.0; 68]).is_err());
        assert!(one.experts(0, &mut [0; 17]).is_err());
        assert!(one.answer(1).is_err());
        assert_eq!(one.asked(0), None);
    }
}
