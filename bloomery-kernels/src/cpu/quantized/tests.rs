use super::*;

/// Numbers in -1..1 from a fixed sequence.
pub(crate) fn noise(seed: u32) -> impl Iterator<Item = f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    })
}

fn quantized(isa: Isa, x: &[f32], rows: usize, form: Form) -> Quantized {
    let mut q = Quantized::default();
    q.fill(isa, x, rows, x.len() / rows, form);
    q
}

fn bits(scales: &[f32]) -> Vec<u32> {
    scales.iter().map(|d| if d.is_nan() { u32::MAX } else { d.to_bits() }).collect()
}

fn assert_same(a: &Quantized, b: &Quantized, row_a: usize, row_b: usize) {
    assert_eq!(a.values(row_a), b.values(row_b));
    assert_eq!(bits(a.scales(row_a)), bits(b.scales(row_b)));
    assert_eq!(a.sums32(row_a), b.sums32(row_b));
    assert_eq!(a.sums16(row_a), b.sums16(row_b));
}

#[test]
fn rounds_to_half_a_step_and_sums_exactly() {
    for form in [Form::Q8x32, Form::Q8x256] {
        let x: Vec<f32> = noise(1).take(2 * 768).map(|v| v * v * v * 40.0).collect();
        let q = quantized(Isa::Scalar, &x, 2, form);
        for row in 0..2 {
            let values = q.values(row);
            for (i, (&v, &x)) in values.iter().zip(&x[768 * row..]).enumerate() {
                let d = q.scales(row)[i / form.block_len()];
                // Half a step, and the rounding of the scale and of the product.
                let error = (f64::from(d) * f64::from(v) - f64::from(x)).abs();
                assert!(error <= f64::from(d) * (0.5 + 127.0 * 3e-7), "{form:?} {i}: {error} of step {d}");
                assert!(v != i8::MIN);
            }
            let block = &values[..form.block_len()];
            assert!(block.iter().any(|v| v.unsigned_abs() == 127), "the largest value takes the last step");
            for (sum, group) in q.sums32(row).iter().zip(values.chunks(32)) {
                assert_eq!(i32::from(*sum), group.iter().map(|&v| i32::from(v)).sum::<i32>());
            }
            for (sum, group) in q.sums16(row).iter().zip(values.chunks(16)) {
                assert_eq!(i32::from(*sum), group.iter().map(|&v| i32::from(v)).sum::<i32>());
            }
        }
    }
}

#[test]
fn ties_go_to_even() {
    let mut x = [0.0; 32];
    x[..6].copy_from_slice(&[127.0, 0.5, 1.5, 2.5, -0.5, -1.5]);
    let q = quantized(Isa::Scalar, &x, 1, Form::Q8x32);
    assert_eq!(q.values(0)[..6], [127, 0, 2, 2, 0, -2]);
    assert_eq!(q.scales(0), [1.0]);
}

#[test]
fn every_isa_and_every_row_count_gives_the_same_bits() {
    for (form, cols) in [(Form::Q8x32, 96), (Form::Q8x32, 896), (Form::Q8x256, 256), (Form::Q8x256, 2048)] {
        for rows in [1, 2, 3, 9] {
            let mut x: Vec<f32> = noise(7).take(rows * cols).collect();
            for (i, v) in x.iter_mut().enumerate() {
                *v *= f32::powi(2.0, (i / 32 % 60) as i32 - 30);
            }
            let all = quantized(Isa::Scalar, &x, rows, form);
            for isa in Isa::available() {
                let other = quantized(isa, &x, rows, form);
                for row in 0..rows {
                    assert_same(&all, &other, row, row);
                    let alone = quantized(isa, &x[row * cols..(row + 1) * cols], 1, form);
                    assert_same(&all, &alone, row, 0);
                }
            }
        }
    }
}

#[test]
fn odd_numbers_stay_in_their_block() {
    for isa in Isa::available() {
        for (form, cols) in [(Form::Q8x32, 128), (Form::Q8x256, 1024)] {
            let block = form.block_len();
            let mut x = vec![1.0; cols];
            x[..block].fill(0.0);
            x[block + 3] = f32::NAN;
            x[2 * block + 5] = f32::NEG_INFINITY;
            let q = quantized(isa, &x, 1, form);
            assert_eq!(q.scales(0)[0], 0.0);
            assert!(q.scales(0)[1].is_nan() && q.scales(0)[2].is_nan());
            assert!(q.values(0)[..3 * block].iter().all(|&v| v == 0));
            assert!(q.values(0)[3 * block..].iter().all(|&v| v == 127));
            let tiny = vec![f32::from_bits(1); cols];
            assert!(quantized(isa, &tiny, 1, form).scales(0).iter().all(|&d| d == 0.0));
            let huge = vec![f32::MAX; cols];
            assert!(quantized(isa, &huge, 1, form).values(0).iter().all(|&v| v == 127));
        }
    }
}

#[test]
fn a_reused_buffer_forgets_its_last_shape() {
    let x: Vec<f32> = noise(3).take(4 * 512).collect();
    let mut q = quantized(Isa::detect(), &x, 4, Form::Q8x256);
    q.fill(Isa::detect(), &x[..192], 2, 96, Form::Q8x32);
    let fresh = quantized(Isa::Scalar, &x[..192], 2, Form::Q8x32);
    assert_eq!((q.rows(), q.cols(), q.form()), (2, 96, Form::Q8x32));
    assert_same(&q, &fresh, 1, 1);
}

#[test]
fn threads_may_each_fill_rows() {
    let x: Vec<f32> = noise(5).take(8 * 256).collect();
    let want = quantized(Isa::Scalar, &x, 8, Form::Q8x256);
    let mut q = Quantized::default();
    let fill = q.start(8, 256, Form::Q8x256);
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (fill, x) = (&fill, &x);
            scope.spawn(move || {
                (half..8).step_by(2).for_each(|r| fill.row(Isa::detect(), r, &x[256 * r..256 * (r + 1)]));
            });
        }
    });
    (0..8).for_each(|row| assert_same(&q, &want, row, row));
}

#[test]
#[should_panic(expected = "twice")]
fn a_row_is_filled_once() {
    let mut q = Quantized::default();
    let fill = q.start(1, 32, Form::Q8x32);
    fill.row(Isa::Scalar, 0, &[0.0; 32]);
    fill.row(Isa::Scalar, 0, &[0.0; 32]);
}
