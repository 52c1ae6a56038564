//! The explained variance of returns by value estimates.
#![allow(clippy::float_cmp, clippy::unwrap_used, missing_docs)]

use rlox_core::Error;
use rlox_core::stats::explained_variance;

#[test]
fn the_result_equals_the_number_computed_by_hand() {
    // By hand: Var(R) = 1.25; R - V is (0, 1, 0, 1), so Var(R - V) = 0.25.
    assert_eq!(explained_variance(&[1.0, 1.0, 3.0, 3.0], &[1.0, 2.0, 3.0, 4.0]), Ok(0.8));
    let returns = [0.1_f32, 7.5, -3.25];
    assert_eq!(explained_variance(&returns, &returns), Ok(1.0));
    assert_eq!(explained_variance(&[2.0; 3], &returns), Ok(0.0), "no more than a mean");
    assert!(explained_variance(&returns.map(|value| -value), &returns).unwrap() < -2.9);
}

#[test]
fn constant_returns_give_0() {
    assert_eq!(explained_variance(&[1.0, 2.0, 3.0], &[0.1_f32; 3]), Ok(0.0));
    let mean = (0.1 + 0.1 + 0.1) / 3.0;
    assert_ne!(mean, 0.1, "the mean of these is rounded");
    assert_eq!(explained_variance(&[1.0, 2.0, 3.0], &[0.1_f64; 3]), Ok(0.0));
    assert_eq!(explained_variance::<f64>(&[], &[]), Ok(0.0));
}

#[test]
fn nan_gives_nan_and_different_lengths_are_refused() {
    assert!(explained_variance(&[f64::NAN, 1.0], &[1.0, 2.0]).unwrap().is_nan());
    assert!(matches!(explained_variance(&[1.0], &[1.0, 2.0]), Err(Error::Shape { .. })));
}
