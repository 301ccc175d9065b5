//! A network beside experts: the bits of the two one after the other, network first.

use bloomery_gguf::Format;

use super::super::testing::{Place, places};
use super::super::{Beside, FeedForward, Launch, Routed, Span, Tuning};
use crate::cpu::Activation;
use crate::cpu::testing::{Rng, bits, weights};

struct Case {
    /// Of the experts: gate and down. Of the network: the same.
    formats: [[Format; 2]; 2],
    cols: usize,
    /// Hidden values of each.
    hidden: [usize; 2],
    outputs: usize,
    count: usize,
    used: usize,
    /// The network has a weight for each row.
    gated: bool,
    activations: [Activation; 2],
}

/// What the output holds at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Some,
    Zeros,
    /// Nothing that may be read: the network replaces it.
    Replaced,
}

const SILU: [Activation; 2] = [Activation::Silu; 2];

impl Case {
    /// Both halves of a network of `count` matrices.
    fn network(&self, place: &mut Place, which: usize, rows: usize) -> FeedForward {
        let ([first, second], hidden) = (self.formats[which], self.hidden[which]);
        let (count, used) = if which == 0 { (self.count, self.used) } else { (1, 1) };
        let mut stack = |format, rows: usize, cols: usize, seed: u64| {
            place.stack(format, count, rows, cols, &weights(format, count * rows * cols, seed + which as u64))
        };
        let (gate, up) = (stack(first, hidden, self.cols, 10), stack(first, hidden, self.cols, 20));
        let down = stack(second, self.outputs, hidden, 30);
        FeedForward {
            x: place.poison::<f32>(0).span(),
            rows,
            norm: None,
            routed: None,
            gate,
            up,
            down,
            hidden: place.poison::<f32>(FeedForward::hidden_len(rows, used, hidden)).span(),
            activation: self.activations[which],
            out: place.poison::<f32>(0).span(),
            accumulate: true,
            workspace: None,
            tuning: Tuning::default(),
        }
    }

    fn routed(&self, place: &mut Place, rows: usize) -> [Option<Routed>; 2] {
        let mut rng = Rng::new(rows as u64);
        let (mut experts, used) = (Vec::new(), self.used);
        for row in 0..rows {
            let mut free: Vec<u32> = (0..self.count as u32).collect();
            for slot in 0..used {
                let expert = free.swap_remove(rng.below(free.len()));
                // One slot leads nowhere, and the last of several rows has no experts at all.
                let nowhere = (row == 1 && slot == 1) || (row > 1 && row + 1 == rows);
                experts.push(if nowhere { u32::MAX } else { expert });
            }
        }
        let unit = |rng: &mut Rng, len: usize| (0..len).map(|_| rng.unit() as f32).collect::<Vec<_>>();
        let (weights, shares) = (unit(&mut rng, rows * used), unit(&mut rng, rows));
        let own = Routed {
            experts: place.buffer(&experts).span(),
            weights: place.buffer(&weights).span(),
            used,
            seats: None,
        };
        let other = Routed {
            experts: place.buffer(&vec![0_u32; rows]).span(),
            weights: place.buffer(&shares).span(),
            used: 1,
            seats: None,
        };
        [Some(own), self.gated.then_some(other)]
    }

    /// The output of `launches`, and how many there are.
    fn run(
        &self,
        place: &mut Place,
        rows: usize,
        before: Before,
        launches: impl FnOnce(&Place, Beside) -> Vec<Launch>,
    ) -> (Vec<f32>, usize) {
        let mut rng = Rng::new(7);
        let x = rng.normals(rows * self.cols);
        let outputs = rows * self.outputs;
        let held = match before {
            Before::Some => rng.normals(outputs),
            Before::Zeros => vec![0.0; outputs],
            Before::Replaced => vec![f32::NAN; outputs],
        };
        let (x, out) = (place.buffer(&x).span(), place.buffer(&held));
        let [mut experts, mut network] = [0, 1].map(|which| self.network(place, which, rows));
        [experts.routed, network.routed] = self.routed(place, rows);
        network.accumulate = before != Before::Replaced;
        let bytes = [(self.used, self.count, 0), (1, 1, 1)].map(|(used, count, which)| {
            FeedForward::workspace_bytes(rows, (used, count), (self.cols, self.hidden[which], self.outputs))
        });
        let room: Span<u8> = place.poison(Beside::workspace_bytes(bytes[0], bytes[1])).span();
        for op in [&mut experts, &mut network] {
            (op.x, op.out) = (x.clone(), out.span());
            op.workspace = (rows > 1).then(|| room.clone());
        }
        let launches = launches(place, Beside { experts, network });
        launches.iter().for_each(|launch| place.run(launch));
        (place.read(&out), launches.len())
    }

    fn check(&self, place: &mut Place, rows: &[usize], fewer: usize) {
        for (&rows, before) in rows.iter().flat_map(|rows| [(rows, Before::Some), (rows, Before::Replaced)]) {
            let joined = self.run(place, rows, before, |place, op| op.launches(place.info()).unwrap());
            let apart = |place: &mut Place, before| {
                self.run(place, rows, before, |place, op| {
                    let mut launches = op.network.launches(place.info()).unwrap();
                    launches.extend(op.experts.launches(place.info()).unwrap());
                    launches
                })
            };
            let name = format!("{:?}, {rows} rows, {before:?}", self.formats);
            let zeros = if before == Before::Replaced { Before::Zeros } else { before };
            assert_eq!(bits(&joined.0), bits(&apart(place, zeros).0), "{name}");
            let apart = apart(place, before);
            assert_eq!(bits(&joined.0), bits(&apart.0), "{name}");
            assert!(joined.0.iter().all(|value| value.is_finite()), "{name}");
            let most = if rows > 8 { apart.1 } else { apart.1 - fewer };
            assert!(joined.1 <= most, "{name}: {} launches, {} apart", joined.1, apart.1);
        }
    }
}

#[test]
fn a_network_beside_experts_adds_first_and_costs_no_launch() {
    use Format::{Q4_K, Q5_K, Q6_K, Q8_0};
    for mut place in places() {
        for (formats, hidden) in [
            // All alike; hidden values rounded in two ways, and of two widths; gates too.
            ([[Q4_K, Q6_K], [Q4_K, Q4_K]], [256, 256]),
            ([[Q4_K, Q8_0], [Q4_K, Q6_K]], [96, 512]),
            ([[Q4_K, Q5_K], [Q8_0, Q8_0]], [256, 288]),
        ] {
            let large = place.is_card();
            let (cols, outputs) = if large { (2048, 2048) } else { (512, 44) };
            let hidden = if large { hidden.map(|hidden| 2 * hidden + 256) } else { hidden };
            let gated = hidden[0] == hidden[1];
            let case = Case { formats, cols, hidden, outputs, count: 12, used: 6, gated, activations: SILU };
            let rows: &[usize] = if large { &[1, 2, 3, 5, 8, 9, 12, 40] } else { &[1, 3, 8, 9] };
            case.check(&mut place, rows, 2);
        }
    }
}

/// The last multiprocessor's share: as many blocks as there are rows of tiles, and one expert.
#[test]
fn the_smallest_and_those_that_cannot_be_joined() {
    for mut place in places() {
        let (q, f) = (Format::Q4_K, Format::F16);
        let small = Case {
            formats: [[q, q], [q, q]],
            cols: 256,
            hidden: [256, 256],
            outputs: 7,
            count: 1,
            used: 1,
            gated: true,
            activations: SILU,
        };
        small.check(&mut place, &[1, 5], 2);
        let limited = [0.5, 0.75].map(|limit| Activation::ClampedSilu { limit });
        Case { activations: limited, ..small }.check(&mut place, &[1, 5, 9], 2);
        let floats = Case { formats: [[q, q], [f, f]], ..small };
        floats.check(&mut place, &[1, 3], 0);
    }
}

/// DeepSeek-V2-Lite's: eight rows of both have no room at once, seven have.
#[test]
fn a_network_that_would_divide_the_rows_has_launches_of_its_own() {
    let formats = [[Format::Q4_K, Format::Q8_0], [Format::Q4_K, Format::Q6_K]];
    let (cols, hidden, outputs) = (256, [1408, 2816], 16);
    let case = Case { formats, cols, hidden, outputs, count: 6, used: 6, gated: false, activations: SILU };
    for mut place in places() {
        let count = |place: &mut Place, rows, joined| {
            let (mut launches, info) = (0, place.info().clone());
            case.run(place, rows, Before::Some, |_, op| {
                launches = match joined {
                    true => op.launches(&info).unwrap().len(),
                    false => {
                        op.network.launches(&info).unwrap().len() + op.experts.launches(&info).unwrap().len()
                    }
                };
                Vec::new()
            });
            launches
        };
        assert_eq!(count(&mut place, 8, true), count(&mut place, 8, false));
        assert!(count(&mut place, 4, true) < count(&mut place, 4, false));
    }
}

#[test]
fn others_are_refused() {
    let q = Format::Q4_K;
    let case = Case {
        formats: [[q, q], [q, q]],
        cols: 256,
        hidden: [256, 256],
        outputs: 7,
        count: 2,
        used: 2,
        gated: false,
        activations: SILU,
    };
    for mut place in places() {
        let wrong = |place: &mut Place, change: fn(&mut Beside)| {
            let mut text = String::new();
            case.run(place, 1, Before::Some, |place, mut op| {
                change(&mut op);
                text = op.launches(place.info()).unwrap_err().to_string();
                Vec::new()
            });
            text
        };
        let text = wrong(&mut place, |op| op.network.hidden = op.experts.hidden.clone());
        assert!(text.contains("its hidden values"), "{text}");
        let text = wrong(&mut place, |op| op.experts.accumulate = false);
        assert!(text.contains("experts that replace"), "{text}");
        let text = wrong(&mut place, |op| op.network.rows = 2);
        assert!(text.contains("its rows"), "{text}");
    }
}
