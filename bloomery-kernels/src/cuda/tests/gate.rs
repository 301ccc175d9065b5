//! Gates against the CPU's functions.

use super::super::testing::places;
use super::super::{DeviceInfo, Gate};
use crate::cpu::testing::Rng;

#[test]
fn values_times_sigmoids() {
    let mut place = places().remove(0);
    let mut rng = Rng::new(4);
    for len in [4, 1024, 1028, 5000] {
        let x = rng.normals(len);
        let mut gates: Vec<f32> = rng.normals(len).iter().map(|x| 4.0 * x).collect();
        gates[..4].copy_from_slice(&[0.0, 100.0, -100.0, -20.0]);
        let (buffer, gate) = (place.buffer(&x), place.buffer(&gates));
        let launch = Gate { x: buffer.span(), gate: gate.span() }.launch(place.info()).unwrap();
        place.run(&launch);
        for ((got, x), gate) in place.read(&buffer).into_iter().zip(x).zip(gates) {
            let exact = f64::from(x) / (1.0 + (-f64::from(gate)).exp());
            let off = (f64::from(got) - exact).abs();
            assert!(off <= 4e-7 * exact.abs() + 1e-37, "{x} by {gate}: {got} {exact}");
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    let mut place = places().remove(0);
    let x = place.poison::<f32>(16);
    let refused = |x, gate| Gate { x, gate }.launch(&DeviceInfo::emulated((9, 0))).unwrap_err().to_string();
    let part = |range| x.slice(range).unwrap();
    assert_eq!(refused(x.span(), part(0..8)), "gate: values of the gate is 8, must be 16");
    assert!(refused(part(0..6), part(0..6)).contains("multiple of 4"));
    assert!(refused(part(1..9), part(0..8)).contains("an address"));
}
