//! Compares n-step and lambda-returns with their definitions and with numbers worked out by hand.
#![allow(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::unwrap_used)]
#![allow(clippy::float_cmp, missing_docs)]

use rlox_core::Error;
use rlox_core::advantage::returns::{Input, lambda_returns, n_step_returns};
use rlox_core::advantage::{Discount, Ends};
use rlox_core::math::Float;
use rlox_core::seed::Stream;

struct Case {
    rewards: Vec<f64>,
    next_values: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    gamma: f64,
    lam: f64,
    n: usize,
}

fn draw_case(seed: u64, len: usize) -> Case {
    let mut stream = Stream::new(seed, "returns", 0);
    let mut draw_normals = || (0..len).map(|_| stream.normal()).collect::<Vec<f64>>();
    let (rewards, next_values) = (draw_normals(), draw_normals());
    let mut draw_flags = || (0..len).map(|_| stream.uniform() < 0.08).collect::<Vec<bool>>();
    let (terminated, truncated) = (draw_flags(), draw_flags());
    let mut draw_factor = || {
        let x = stream.uniform();
        if x < 0.2 {
            0.0
        } else if x > 0.8 {
            1.0
        } else {
            x
        }
    };
    let (gamma, lam) = (draw_factor(), draw_factor());
    let n = usize::try_from(stream.next_u64() % 70).unwrap() + 1;
    Case { rewards, next_values, terminated, truncated, gamma, lam, n }
}

impl Case {
    fn next_value(&self, t: usize) -> f64 {
        if self.terminated[t] { 0.0 } else { self.next_values[t] }
    }

    fn is_end(&self, t: usize) -> bool {
        self.terminated[t] || self.truncated[t] || t + 1 == self.rewards.len()
    }

    /// Computes eq. 7.1 of Sutton and Barto 2018 term by term. Stops early at the end of an episode.
    fn n_step_return(&self, start: usize, n: usize) -> f64 {
        let (mut total, mut weight) = (0.0, 1.0);
        for t in start..start + n {
            total += weight * self.rewards[t];
            weight *= self.gamma;
            if self.is_end(t) || t + 1 == start + n {
                return total + weight * self.next_value(t);
            }
        }
        total
    }

    /// Computes eq. 12.3: (1 - lam) sum over n of lam^(n-1) G^n. The last G^n has all remaining weight.
    fn lambda_return(&self, start: usize) -> f64 {
        let (mut total, mut weight, mut n) = (0.0, 1.0, 1);
        while !self.is_end(start + n - 1) {
            total += (1.0 - self.lam) * weight * self.n_step_return(start, n);
            weight *= self.lam;
            n += 1;
        }
        total + weight * self.n_step_return(start, n)
    }

    fn run<F: Float>(&self, n_envs: usize) -> (Vec<f64>, Vec<f64>) {
        let cast = |numbers: &[f64]| numbers.iter().map(|&x| F::from_f64(x)).collect::<Vec<F>>();
        let (rewards, next_values) = (cast(&self.rewards), cast(&self.next_values));
        let ends = Ends { terminated: &self.terminated[..], truncated: &self.truncated[..] };
        let input = Input { rewards: &rewards, next_values: &next_values, ends, n_envs };
        let (mut n_step, mut lambda) = (rewards.clone(), rewards.clone());
        n_step_returns(input, self.n, self.gamma, &mut n_step).unwrap();
        let discount = Discount::new(self.gamma, self.lam).unwrap();
        lambda_returns(input, discount, &mut lambda).unwrap();
        let to_doubles = |x: Vec<F>| x.into_iter().map(Float::to_f64).collect();
        (to_doubles(n_step), to_doubles(lambda))
    }
}

fn assert_close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (t, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= tolerance, "at {t}: {got} is not {expected}");
    }
}

#[test]
fn random_trajectories_equal_the_definitions_in_both_precisions() {
    for seed in 0..2_000 {
        let case = draw_case(seed, seed as usize % 64 + 1);
        let len = case.rewards.len();
        let n_step: Vec<f64> = (0..len).map(|t| case.n_step_return(t, case.n.min(len - t))).collect();
        let lambda: Vec<f64> = (0..len).map(|t| case.lambda_return(t)).collect();
        let double = case.run::<f64>(1);
        assert_close(&double.0, &n_step, 1e-11);
        assert_close(&double.1, &lambda, 1e-11);
        let single = case.run::<f32>(1);
        assert_close(&single.0, &n_step, 2e-5);
        assert_close(&single.1, &lambda, 2e-5);
    }
}

#[test]
fn each_column_of_a_rollout_is_computed_as_one_trajectory() {
    for (seed, n, steps) in [(1, 2, 1), (2, 3, 10), (3, 9, 70)] {
        let grid = draw_case(seed, n * steps);
        let (n_step, lambda) = grid.run::<f64>(n);
        for env in 0..n {
            let column = |all: &[f64]| all.iter().copied().skip(env).step_by(n).collect::<Vec<f64>>();
            let flag_column = |all: &[bool]| all.iter().copied().skip(env).step_by(n).collect::<Vec<bool>>();
            let env_case = Case {
                rewards: column(&grid.rewards),
                next_values: column(&grid.next_values),
                terminated: flag_column(&grid.terminated),
                truncated: flag_column(&grid.truncated),
                ..grid
            };
            assert_eq!((column(&n_step), column(&lambda)), env_case.run::<f64>(1));
        }
    }
}

#[test]
fn returns_worked_out_by_hand() {
    // gamma = 0.5; step 1 is truncated in a state of value 4, step 3 terminates.
    let case = Case {
        rewards: vec![1.0, 2.0, 3.0, 4.0],
        next_values: vec![8.0, 4.0, 2.0, f64::NAN],
        terminated: vec![false, false, false, true],
        truncated: vec![false, true, false, false],
        gamma: 0.5,
        lam: 0.5,
        n: 2,
    };
    let (n_step, lambda) = case.run::<f64>(1);
    assert_eq!(n_step, [1.0 + 1.0 + 1.0, 4.0, 3.0 + 2.0, 4.0]);
    // G_3 = 4, G_2 = 3 + 0.5 (0.5 x 2 + 0.5 x 4) = 4.5, G_1 = 2 + 0.5 x 4 = 4,
    // G_0 = 1 + 0.5 (0.5 x 8 + 0.5 x 4) = 4.
    assert_eq!(lambda, [4.0, 4.0, 4.5, 4.0]);
}

#[test]
fn a_window_longer_than_the_rollout_takes_all_of_it() {
    let mut case = draw_case(5, 30);
    case.n = usize::MAX;
    let expected: Vec<f64> = (0..30).map(|t| case.n_step_return(t, 30 - t)).collect();
    assert_close(&case.run::<f64>(1).0, &expected, 1e-12);
}

#[test]
fn what_lies_beyond_an_end_is_never_read() {
    let mut case = draw_case(6, 60);
    (case.gamma, case.lam, case.n) = (0.9, 0.9, 7);
    (case.terminated, case.truncated) = (vec![false; 60], vec![false; 60]);
    (case.terminated[20], case.truncated[40]) = (true, true);
    case.next_values[20] = f64::NAN;
    case.rewards[21] = f64::NAN;
    case.rewards[41] = f64::NAN;
    let (n_step, lambda) = case.run::<f64>(1);
    for t in 0..60 {
        assert_eq!(n_step[t].is_nan(), t == 21 || t == 41, "{t}");
        assert_eq!(lambda[t].is_nan(), t == 21 || t == 41, "{t}");
    }
}

#[test]
fn wrong_lengths_and_ranges_are_named() {
    let ends = Ends::without_truncation(&[false; 4]);
    let input = Input { rewards: &[0.0; 4], next_values: &[0.0; 4], ends, n_envs: 2 };
    let mut out = [0.0; 4];
    assert!(n_step_returns(input, 3, 0.9, &mut out).is_ok());
    for (n, gamma, wrong_name) in [(0, 0.9, "n"), (1, f64::NAN, "gamma"), (1, 1.1, "gamma")] {
        let got = n_step_returns(input, n, gamma, &mut out);
        assert!(matches!(got, Err(Error::Config { name, .. }) if name == wrong_name));
    }
    let short = Input { next_values: &[0.0; 3], ..input };
    let got = n_step_returns(short, 1, 0.9, &mut out);
    assert!(matches!(got, Err(Error::Shape { ref name, .. }) if name == "next_values"));
    let ragged = Input { n_envs: 3, ..input };
    let got = lambda_returns(ragged, Discount::new(0.9, 0.9).unwrap(), &mut out);
    assert!(matches!(got, Err(Error::Shape { ref name, .. }) if name == "rewards"));
}
