//! Compares the elementary functions with values in 50 digits, and with the standard library over
//! their whole range. Checks that results do not depend on a number's position in its slice.

use std::fmt::Debug;

use super::in_place::{self, Elementwise, Exp, Sigmoid, Tanh};
use super::{Float, fill_normals, log};
use crate::seed::Stream;

/// Values of the functions in 50 digits; `tests/data/elementary.py` writes the file.
const EXACT: &str = include_str!("../../tests/data/elementary.txt");

/// Maximum errors of the functions in units in the last place, as their docs state.
const BOUNDS: [(&str, f64); 5] =
    [("exp", 1.5), ("tanh", 2.5), ("sigmoid", 2.5), ("ln", 1.0), ("quantile", 6.0)];

fn bound(name: &str) -> f64 {
    BOUNDS.iter().find(|known| known.0 == name).unwrap().1
}

/// Returns the distance of `got` from `high + low` in units in the last place.
fn error_units(got: f64, high: f64, low: f64) -> f64 {
    if got.to_bits() == high.to_bits() || (got.is_nan() && high.is_nan()) {
        return 0.0;
    }
    let unit = if high.abs() < f64::MIN_POSITIVE { f64::from_bits(1) } else { unit_below(high) };
    ((got - high) - low).abs() / unit
}

/// Returns the distance from |x| to the number before it, so that powers of 2 have the finer unit.
fn unit_below(x: f64) -> f64 {
    x.abs() - x.abs().next_down()
}

/// Returns the results without fusing, with fusing, and in the variant that this CPU uses.
fn all_variants<E: Elementwise>(x: f64, in_place: fn(&mut [f64])) -> Vec<f64> {
    let mut dispatched = [x];
    in_place(&mut dispatched);
    vec![E::at::<_, false>(x), E::at::<_, true>(x), dispatched[0]]
}

fn all_variants_of(name: &str, x: f64) -> Vec<f64> {
    match name {
        "exp" => all_variants::<Exp>(x, in_place::exp),
        "tanh" => all_variants::<Tanh>(x, in_place::tanh),
        "sigmoid" => all_variants::<Sigmoid>(x, in_place::sigmoid),
        "ln" => vec![log::ln::<false>(x), log::ln::<true>(x)],
        "quantile" => vec![quantile(x)],
        _ => panic!("{name}"),
    }
}

/// Returns the normal number of the draw whose probability is q + 1/2.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an odd multiple")]
fn quantile(q: f64) -> f64 {
    let m = ((q + 0.5) * 4_503_599_627_370_496.0).floor() as u64;
    let mut out = [0.0];
    fill_normals(&[(m << 12).to_le_bytes()], &mut out);
    out[0]
}

#[test]
fn functions_are_within_their_bounds_of_50_digits() {
    let mut worst = BOUNDS.map(|(name, _)| (name, 0, 0.0_f64, 0.0));
    for line in EXACT.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |i: usize| f64::from_bits(u64::from_str_radix(fields[i], 16).unwrap());
        let (name, x) = (fields[0], number(1));
        for got in all_variants_of(name, x) {
            let units = error_units(got, number(2), number(3));
            let (_, count, worst_units, worst_x) = worst.iter_mut().find(|entry| entry.0 == name).unwrap();
            *count += 1;
            (*worst_units, *worst_x) =
                if units > *worst_units { (units, x) } else { (*worst_units, *worst_x) };
        }
    }
    for (name, count, units, worst_x) in worst {
        assert!(count >= 36, "{name}: {count} values");
        assert!(units <= bound(name), "{name}: {units} units at {worst_x:e}");
    }
}

/// The name of a function and the standard library's version, which has its own error.
type StandardFunction = (&'static str, fn(f64) -> f64);

const STANDARD_FUNCTIONS: [StandardFunction; 4] = [
    ("exp", f64::exp),
    ("tanh", f64::tanh),
    ("sigmoid", |x| if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }),
    ("ln", f64::ln),
];

/// Returns numbers of every magnitude and both signs, many of them near 1.
fn all_magnitudes() -> impl Iterator<Item = f64> {
    let mut stream = Stream::new(1, "magnitudes", 0);
    let any_numbers = (0..30_000).map(move |_| f64::from_bits(stream.next_u64()));
    let mut stream = Stream::new(2, "magnitudes", 0);
    let usual_numbers = (0..30_000).map(move |i| {
        let scale = [1e-3, 0.3, 1.0, 10.0, 40.0, 750.0][i % 6];
        stream.uniform_in(-scale, scale)
    });
    any_numbers.chain(usual_numbers)
}

#[test]
fn float64_functions_agree_with_the_standard_library_over_their_whole_range() {
    let edges = [0.0, f64::MIN_POSITIVE, 5e-324, 1e-310, f64::MAX, f64::INFINITY, f64::NAN];
    for (name, standard) in STANDARD_FUNCTIONS {
        for x in all_magnitudes().chain(edges).chain(edges.map(|x| -x)) {
            let expected = standard(x);
            for got in all_variants_of(name, x) {
                // One unit allows for the library's own error.
                let units = error_units(got, expected, 0.0);
                assert!(units <= bound(name) + 1.0, "{name}({x:e}): {got:e}, {expected:e}");
            }
        }
    }
}

/// Returns every `step`-th float32, or all of them if RLOX_FULL is set.
fn float32_numbers() -> impl Iterator<Item = f32> {
    let step = if std::env::var_os("RLOX_FULL").is_some() { 1 } else { 32_749 };
    (0..=u32::MAX).step_by(step).map(f32::from_bits)
}

/// Returns the distance of `got` from `exact` in float32 units in the last place.
fn float32_error_units(got: f32, exact: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "the nearest float32")]
    let near = exact as f32;
    if got.to_bits() == near.to_bits() || (got.is_nan() && near.is_nan()) {
        return 0.0;
    }
    let below = near.abs().min(f32::MAX).next_down();
    let unit = f64::from(near.abs().min(f32::MAX)) - f64::from(below);
    let got = if got.is_infinite() { 2.0_f64.powi(128).copysign(f64::from(got)) } else { f64::from(got) };
    (got - exact).abs() / unit.max(f64::from(f32::from_bits(1)))
}

/// A function's name, its results without and with fusing, and its version in place.
type Float32Function = (&'static str, fn(f32) -> [f32; 2], fn(&mut [f32]));

#[test]
fn float32_functions_are_within_their_bounds_over_their_whole_range() {
    let functions: [Float32Function; 3] = [
        ("exp", |x| [Exp::at::<_, false>(x), Exp::at::<_, true>(x)], in_place::exp),
        ("tanh", |x| [Tanh::at::<_, false>(x), Tanh::at::<_, true>(x)], in_place::tanh),
        ("sigmoid", |x| [Sigmoid::at::<_, false>(x), Sigmoid::at::<_, true>(x)], in_place::sigmoid),
    ];
    for (name, function, in_place) in functions {
        let standard = STANDARD_FUNCTIONS.iter().find(|known| known.0 == name).unwrap().1;
        let mut worst = (0.0, 0.0);
        for x in float32_numbers() {
            let exact = standard(f64::from(x));
            let mut dispatched = [x];
            in_place(&mut dispatched);
            for got in function(x).into_iter().chain(dispatched) {
                assert_eq!(got.is_nan(), x.is_nan(), "{name}({x:e}) = {got}");
                let units = float32_error_units(got, exact);
                worst = if units > worst.0 { (units, x) } else { worst };
            }
        }
        assert!(worst.0 <= bound(name), "{name}: {} units at {:e}", worst.0, worst.1);
    }
}

/// Asserts that a number gives the same bits at any position in a slice of any length.
fn assert_position_independent<F: Float>(function: fn(&mut [F]), bits: fn(F) -> u64) {
    let mut stream = Stream::new(3, "positions", 0);
    let numbers: Vec<F> = (0..70).map(|_| F::from_f64(stream.uniform_in(-20.0, 20.0))).collect();
    let expected: Vec<u64> = numbers
        .iter()
        .map(|&x| {
            let mut single = [x];
            function(&mut single);
            bits(single[0])
        })
        .collect();
    for start in 0..9 {
        for end in start..=numbers.len() {
            let mut part = numbers[start..end].to_vec();
            function(&mut part);
            let got: Vec<u64> = part.into_iter().map(bits).collect();
            assert_eq!(got, expected[start..end]);
        }
    }
}

#[test]
fn a_result_does_not_depend_on_the_rest_of_the_slice() {
    for function in [in_place::exp, in_place::tanh, in_place::sigmoid] {
        assert_position_independent::<f64>(function, f64::to_bits);
    }
    for function in [in_place::exp, in_place::tanh, in_place::sigmoid] {
        assert_position_independent::<f32>(function, |x| u64::from(x.to_bits()));
    }
}

/// Computes log-softmax by its definition. The largest number contributes e^0 = 1 to the sum, so
/// `ln_1p` of the other exponentials is the logarithm of the sum.
fn naive_log_softmax(row: &[f64]) -> Vec<f64> {
    let (largest_index, largest) = row
        .iter()
        .copied()
        .enumerate()
        .fold((0, f64::NEG_INFINITY), |best, (i, x)| if x > best.1 { (i, x) } else { best });
    let others = row.iter().enumerate().filter(|(i, _)| *i != largest_index);
    let rest: f64 = others.map(|(_, x)| (x - largest).exp()).sum();
    row.iter().map(|x| (x - largest) - rest.ln_1p()).collect()
}

fn check_log_softmax<F: Float>(columns: usize, scale: f64) {
    let mut stream = Stream::new(4, "logits", columns as u64);
    let rows = (600 / columns).max(3);
    let values: Vec<F> = (0..rows * columns)
        .map(|i| match i % 11 {
            10 => -F::INFINITY,
            _ => F::from_f64(stream.uniform_in(-scale, scale)),
        })
        .collect();
    let mut got = values.clone();
    in_place::log_softmax(&mut got, columns).unwrap();
    for (row, got) in values.chunks(columns).zip(got.chunks(columns)) {
        if row.iter().all(|x| x.to_f64() == f64::NEG_INFINITY) {
            assert!(got.iter().all(|x| x.to_f64().is_nan()), "{got:?}");
            continue;
        }
        let exact = naive_log_softmax(&row.iter().map(|x| x.to_f64()).collect::<Vec<_>>());
        for (got, exact) in got.iter().zip(exact) {
            let got = got.to_f64();
            // The documented bound, 2 units in the last place of the result plus 2 of 1, and half
            // as much again for the error of the reference.
            let tolerance = 3.0 * F::EPSILON.to_f64() * (exact.abs() + 1.0);
            let is_same = got.to_bits() == exact.to_bits();
            assert!(is_same || (got - exact).abs() <= tolerance, "{columns}: {got} {exact}");
        }
    }
}

#[test]
fn log_softmax_matches_its_definition_for_short_and_long_rows_of_any_scale() {
    for columns in [1, 2, 3, 7, 8, 9, 15, 16, 17, 100, 255, 256, 257, 1_000] {
        for scale in [1e-3, 1.0, 30.0, 5_000.0] {
            check_log_softmax::<f64>(columns, scale);
            check_log_softmax::<f32>(columns, scale);
        }
    }
}

#[test]
fn rows_without_a_distribution_become_nan_and_leave_the_others_alone() {
    let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
    let mut rows = [low, low, 0.0, 0.0, f64::NAN, 0.0, high, 0.0, low, 3.0];
    in_place::log_softmax(&mut rows, 2).unwrap();
    assert!(rows[..2].iter().chain(&rows[4..8]).all(|x| x.is_nan()), "{rows:?}");
    assert!((rows[2] + std::f64::consts::LN_2).abs() < 1e-15, "{rows:?}");
    assert_eq!((rows[8], rows[9]), (low, 0.0));
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let message = |result: crate::Result<()>| result.unwrap_err().to_string();
    assert!(message(in_place::log_softmax(&mut [0.0; 4], 0)).contains('k'));
    assert!(message(in_place::log_softmax(&mut [0.0; 4], 3)).contains("multiple of k"));
    let empty_slice: &mut [f32] = &mut [];
    assert!(in_place::log_softmax(empty_slice, 3).is_ok());
}

#[test]
fn every_slice_may_be_empty() {
    fn check_empty<F: Float + Debug>() {
        for function in [in_place::exp::<F>, in_place::tanh, in_place::sigmoid] {
            function(&mut []);
        }
    }
    check_empty::<f64>();
    check_empty::<f32>();
}
