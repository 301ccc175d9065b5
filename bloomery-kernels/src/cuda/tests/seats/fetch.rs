//! Experts without seats that the host has brought.

use super::super::super::Fetch;
use super::*;

/// The host says that the pairs' experts come to these seats.
fn say(place: &Place, desk: &Desk, layer: usize, seats: &[u32], arrive: bool) {
    match place {
        Place::Host(_) => desk.fetch_on_host(layer, seats, arrive).unwrap(),
        Place::Card(stream) => {
            let mut copies = stream.device().stream().unwrap();
            if arrive {
                desk.fetch(layer, Some((seats, &mut copies))).unwrap();
                copies.synchronize().unwrap();
            } else {
                // What is captured does not run.
                let _ = copies.capture(|copies| desk.fetch(layer, Some((seats, copies)))).unwrap();
            }
        }
    }
}

fn wait(desk: &Desk, layer: usize) {
    let start = Instant::now();
    while desk.asked(layer).is_none() {
        assert!(start.elapsed() < LONG, "layer {layer} does not ask");
        std::hint::spin_loop();
    }
}

impl Setup {
    /// Seats of the pairs that lack an expert whose number is even.
    fn brought(&self) -> Vec<u32> {
        let seat = |pair: usize| {
            let expert = self.experts[pair];
            if self.misses(pair) && expert.is_multiple_of(2) { 1000 + expert } else { NOWHERE }
        };
        (0..self.experts.len()).map(seat).collect()
    }

    fn fetching(&self, place: &mut Place, homes: bool) -> (Fetch, Buffer<u32>, Buffer<u32>) {
        let (out, kept) = (place.poison(self.experts.len()), place.buffer(&vec![5_u32; self.seats.len()]));
        let fetch = Fetch {
            experts: place.buffer(&self.experts).span(),
            rows: self.rows,
            out: out.span(),
            homes: homes.then(|| kept.span()),
            limit: LONG,
        };
        (fetch, out, kept)
    }
}

#[test]
fn what_was_brought_has_seats_for_one_step() {
    for mut place in places() {
        for (rows, used, seated) in [(1, 1, 0), (1, 8, 5), (8, 8, 5), (3, 8, 16), (70, 6, 11)] {
            for homes in [false, true] {
                let setup = Setup::new(rows, used, 4, seated);
                let mut desk = desk(&place, setup.shape(2));
                let (seat, ..) = setup.seating(&mut place, Numbers::Seats);
                let (fetch, out, kept) = setup.fetching(&mut place, homes);
                let (asks, seats) = (setup.missing() > 0, setup.brought());
                for step in [7, 8] {
                    begin(&mut place, &mut desk, step);
                    // In the second layer nothing is brought, although something was in the first.
                    for layer in 0..2 {
                        place.run(&seat.launch(place.info(), Some((&desk, layer))).unwrap());
                        finish(&place);
                        wait(&desk, layer);
                        match (asks, layer) {
                            (true, 0) => say(&place, &desk, layer, &seats, true),
                            (true, _) => desk.fetch(layer, None).unwrap(),
                            // Nobody waits for a host that was not asked.
                            (false, _) => {}
                        }
                        place.run(&fetch.launch(place.info(), &desk, layer).unwrap());
                        finish(&place);
                        let here = asks && layer == 0;
                        let expected = setup.experts.iter().zip(&seats).map(|(&expert, &seat)| {
                            if !here || seat == NOWHERE {
                                NOWHERE
                            } else if homes {
                                expert
                            } else {
                                seat
                            }
                        });
                        let what = format!("{rows} rows of {used}, {homes}, layer {layer}");
                        assert_eq!(place.read(&out), expected.collect::<Vec<_>>(), "{what}");
                        assert_eq!(desk.failed(), None, "{what}");
                    }
                    let came = |expert: u32| homes && seats.contains(&(1000 + expert));
                    let expected = (0..16).map(|expert| if came(expert) { 1000 + expert } else { 5 });
                    assert_eq!(place.read(&kept), expected.collect::<Vec<_>>());
                }
            }
        }
    }
}

#[test]
fn what_does_not_arrive_is_waited_for_once() {
    for mut place in places() {
        let setup = Setup::new(1, 8, 64, 3);
        let mut desk = desk(&place, setup.shape(2));
        let (seat, ..) = setup.seating(&mut place, Numbers::Seats);
        let (fetch, out, _) = setup.fetching(&mut place, false);
        let limit = Duration::from_millis(30);
        // Nothing is said, or what is said does not come.
        for (step, says) in [(1, false), (2, true)] {
            begin(&mut place, &mut desk, step);
            place.run(&seat.launch(place.info(), Some((&desk, 0))).unwrap());
            finish(&place);
            if says {
                say(&place, &desk, 0, &setup.brought(), false);
            }
            let start = Instant::now();
            place.run(&Fetch { limit, ..fetch.clone() }.launch(place.info(), &desk, 0).unwrap());
            let last = Fetch { limit: 100 * LONG, ..fetch.clone() };
            place.run(&seat.launch(place.info(), Some((&desk, 1))).unwrap());
            place.run(&last.launch(place.info(), &desk, 1).unwrap());
            finish(&place);
            assert!(start.elapsed() >= limit);
            assert_eq!((desk.failed(), desk.asked(1)), (Some(0), None));
            assert_eq!(place.read(&out), [NOWHERE; 8]);
        }
    }
}

#[test]
fn a_step_that_is_broken_off_fetches_nothing() {
    for mut place in places() {
        let setup = Setup::new(3, 8, 64, 3);
        let mut desk = desk(&place, setup.shape(1));
        let (seat, ..) = setup.seating(&mut place, Numbers::Seats);
        let (fetch, out, _) = setup.fetching(&mut place, false);
        begin(&mut place, &mut desk, 9);
        place.run(&seat.launch(place.info(), Some((&desk, 0))).unwrap());
        finish(&place);
        desk.abort();
        place.run(&Fetch { limit: 100 * LONG, ..fetch }.launch(place.info(), &desk, 0).unwrap());
        finish(&place);
        assert_eq!(place.read(&out), [NOWHERE; 24]);
    }
}

#[test]
fn bad_fetches_are_refused() {
    for mut place in places() {
        let setup = Setup::new(2, 8, 64, 3);
        let desk = desk(&place, setup.shape(1));
        let (fetch, ..) = setup.fetching(&mut place, false);
        let refused = |fetch: Fetch, layer| fetch.launch(place.info(), &desk, layer).unwrap_err().to_string();
        assert!(fetch.launch(place.info(), &desk, 0).is_ok());
        assert_eq!(refused(fetch.clone(), 1), "a desk: the layer is 1, must be less than 1");
        assert_eq!(refused(Fetch { rows: 3, ..fetch.clone() }, 0), "seats_fetch: rows is 3, must be 1 to 2");
        assert_eq!(
            refused(Fetch { rows: 1, ..fetch.clone() }, 0),
            "seats_fetch: pairs is 16, must be a multiple of 1, with at most 8 of a row"
        );
        assert!(desk.fetch(1, None).is_err());
    }
}

/// Kernels that wait behind one that waits must not be in the way of what it waits for: an ordinary stream may share their queue.
#[test]
fn what_comes_meanwhile_passes_kernels_that_wait() {
    for mut place in places() {
        let Place::Card(stream) = &place else { continue };
        let device = stream.device().clone();
        let setup = Setup::new(1, 8, 64, 3);
        let mut desk = desk(&place, setup.shape(1));
        let (seat, ..) = setup.seating(&mut place, Numbers::Seats);
        let (fetch, numbers, _) = setup.fetching(&mut place, false);
        let out = place.buffer(&setup.before);
        let collect = Collect { out: out.span(), rows: 1, limit: LONG };
        let kernel = seat.launch(place.info(), None).unwrap();
        let collect = collect.launch(place.info(), &desk, 0).unwrap();
        let fetch = fetch.launch(place.info(), &desk, 0).unwrap();
        let seat = seat.launch(place.info(), Some((&desk, 0))).unwrap();
        // The driver would load them when the card is idle.
        [&kernel, &collect, &fetch, &seat].iter().for_each(|kernel| kernel.load(&device).unwrap());
        let mut copies = device.urgent_stream().unwrap();
        for step in 0..8 {
            begin(&mut place, &mut desk, step);
            let Place::Card(stream) = &mut place else { unreachable!() };
            stream.launch(&seat).unwrap();
            stream.launch(&fetch).unwrap();
            (0..=step % 3).for_each(|_| stream.launch(&collect).unwrap());
            wait(&desk, 0);
            copies.launch(&kernel).unwrap();
            desk.fetch(0, Some((&setup.brought(), &mut copies))).unwrap();
            desk.answer(0).unwrap();
            finish(&place);
            assert_eq!(desk.failed(), None, "step {step}");
            assert_eq!(place.read(&numbers), setup.brought());
        }
    }
}
