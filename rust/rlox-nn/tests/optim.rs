//! Compares optimizer steps with their definitions.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]

use rlox_nn::cpu::losses::standardize;
use rlox_nn::cpu::optim::{Adam, Optimizer, RmsProp, clip};

#[test]
fn adam_takes_the_steps_of_its_definition() {
    let (rule, lr) = (Adam { betas: (0.8, 0.9), eps: 0.01 }, 0.5);
    let (mut p, mut m, mut v, mut steps) = ([1.0, -2.0], [0.0; 2], [0.0; 2], 0);
    let mut expected = [(1.0, 0.0, 0.0), (-2.0, 0.0, 0.0)];
    for (t, gradient) in (1..).zip([[0.5, -1.0], [0.25, 3.0], [0.0, 0.5]]) {
        let (exp_avg, exp_avg_sq) = (&mut m[..], &mut v[..]);
        let mut adam = Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps: &mut steps };
        adam.step(&mut p, &gradient, lr).unwrap();
        for (i, (p, m, v)) in expected.iter_mut().enumerate() {
            *m = 0.8 * *m + 0.2 * gradient[i];
            *v = 0.9 * *v + 0.1 * gradient[i] * gradient[i];
            let (m_hat, v_hat) = (*m / (1.0 - 0.8_f64.powi(t)), *v / (1.0 - 0.9_f64.powi(t)));
            *p -= lr * m_hat / (v_hat.sqrt() + 0.01);
        }
        for i in 0..2 {
            assert!((p[i] - expected[i].0).abs() < 1e-14, "{p:?} {expected:?}");
            assert!((m[i] - expected[i].1).abs() + (v[i] - expected[i].2).abs() < 1e-14);
        }
    }
    assert_eq!(steps, 3);
}

#[test]
fn rms_prop_has_epsilon_outside_of_the_root_and_tensorflow_s_inside() {
    for tf_like in [false, true] {
        let mut squares = [if tf_like { 1.0 } else { 0.0 }];
        let rule = RmsProp { alpha: 0.9, eps: 0.1, tf_like };
        let mut p = [1.0_f64];
        let mut steps = 6;
        let square_avg = &mut squares;
        let mut optimizer = Optimizer::RmsProp { rule, square_avg, steps: &mut steps };
        optimizer.step(&mut p, &[2.0], 0.5).unwrap();
        assert_eq!(steps, 7);
        let square = if tf_like { 0.9 + 0.4 } else { 0.4_f64 };
        let root = if tf_like { (square + 0.1).sqrt() } else { square.sqrt() + 0.1 };
        assert!((p[0] - (1.0 - 0.5 * 2.0 / root)).abs() < 1e-15);
        assert!((squares[0] - square).abs() < 1e-15);
    }
}

#[test]
fn clipping_keeps_the_direction_and_short_gradients() {
    let start: Vec<f64> = (0..21).map(|i| f64::from(i) - 10.0).collect();
    let norm = start.iter().map(|x| x * x).sum::<f64>().sqrt();
    let mut gradient = start.clone();
    assert!((clip(&mut gradient, Some(100.0)) - norm).abs() < 1e-12);
    assert_eq!(gradient, start);
    assert!((clip(&mut gradient, Some(0.5)) - norm).abs() < 1e-12);
    for (now, before) in gradient.iter().zip(&start) {
        assert!((now - before * 0.5 / (norm + 1e-6)).abs() < 1e-12);
    }
    assert_eq!(clip(&mut [3.0_f32, 4.0], None), 5.0);
}

#[test]
fn advantages_are_standardized_and_a_single_one_is_not() {
    let mut advantages = [1.0_f64, 2.0, 6.0];
    standardize(&mut advantages);
    let scale = 1.0 / (7.0_f64.sqrt() + 1e-8); // the deviations from the mean 3 are -2, -1 and 3
    assert!((advantages[0] + 2.0 * scale).abs() < 1e-15);
    assert!((advantages[2] - 3.0 * scale).abs() < 1e-15);
    let mut alone = [7.0_f32];
    standardize(&mut alone);
    assert_eq!(alone, [7.0]);
}
