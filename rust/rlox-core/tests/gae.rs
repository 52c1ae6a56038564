//! Compares GAE with its definition, its special cases, and numbers worked out by hand.
#![allow(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::unwrap_used)]
#![allow(clippy::float_cmp, missing_docs)]

use rlox_core::Error;
use rlox_core::advantage::gae::{self, NextValueSource, Out, TimeMajor};
use rlox_core::advantage::{Discount, Ends};
use rlox_core::math::Float;
use rlox_core::seed::Stream;

struct Case {
    rewards: Vec<f64>,
    values: Vec<f64>,
    next_values: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

/// Draws `len` steps. About one step in ten terminates, and about one in ten is truncated.
fn draw_case(seed: u64, len: usize) -> Case {
    let mut stream = Stream::new(seed, "case", 0);
    let mut draw_normals = || (0..len).map(|_| stream.normal()).collect::<Vec<f64>>();
    let (rewards, values, next_values) = (draw_normals(), draw_normals(), draw_normals());
    let mut draw_flags = || (0..len).map(|_| stream.uniform() < 0.1).collect::<Vec<bool>>();
    let (terminated, truncated) = (draw_flags(), draw_flags());
    Case { rewards, values, next_values, terminated, truncated }
}

/// Returns A_t = sum over k >= t of (gamma lambda)^(k - t) delta_k, up to the first end at or after t.
fn reference_advantages(case: &Case, gamma: f64, lam: f64) -> Vec<f64> {
    let len = case.rewards.len();
    let delta = |t: usize| {
        let next = if case.terminated[t] { 0.0 } else { case.next_values[t] };
        case.rewards[t] + gamma * next - case.values[t]
    };
    let mut advantages = vec![0.0; len];
    for (t, advantage) in advantages.iter_mut().enumerate() {
        let mut weight = 1.0;
        for k in t..len {
            *advantage += weight * delta(k);
            weight *= gamma * lam;
            if case.terminated[k] || case.truncated[k] {
                break;
            }
        }
    }
    advantages
}

fn trajectory(case: &Case, gamma: f64, lam: f64) -> (Vec<f64>, Vec<f64>) {
    let len = case.rewards.len();
    let (mut advantages, mut returns) = (vec![0.0; len], vec![0.0; len]);
    gae::trajectory(
        &case.rewards,
        &case.values,
        NextValueSource::Values(&case.next_values),
        Ends { terminated: &case.terminated, truncated: &case.truncated },
        Discount::new(gamma, lam).unwrap(),
        Out { advantages: &mut advantages, returns: &mut returns },
    )
    .unwrap();
    (advantages, returns)
}

fn assert_close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (t, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= tolerance, "at {t}: {got} is not {expected}");
    }
}

#[test]
fn the_recursion_equals_the_quadratic_definition() {
    for (seed, gamma, lam) in [(1, 0.99, 0.95), (2, 1.0, 1.0), (3, 0.9, 0.0), (4, 0.0, 0.5)] {
        let case = draw_case(seed, 300);
        let (advantages, returns) = trajectory(&case, gamma, lam);
        let expected = reference_advantages(&case, gamma, lam);
        assert_close(&advantages, &expected, 1e-11);
        let targets: Vec<f64> = expected.iter().zip(&case.values).map(|(a, v)| a + v).collect();
        assert_close(&returns, &targets, 1e-11);
    }
}

#[test]
fn lambda_0_is_the_one_step_error() {
    let case = draw_case(5, 100);
    let (advantages, _) = trajectory(&case, 0.97, 0.0);
    for (t, advantage) in advantages.iter().enumerate() {
        let next = if case.terminated[t] { 0.0 } else { case.next_values[t] };
        assert_eq!(*advantage, case.rewards[t] + 0.97 * next - case.values[t]);
    }
}

#[test]
fn lambda_1_is_the_discounted_return_minus_the_value() {
    let rewards = [1.0, 2.0, 3.0, 4.0];
    let (values, last, gamma) = ([0.3, -0.2, 0.7, 0.1], 10.0, 0.9);
    let (mut advantages, mut returns) = ([0.0; 4], [0.0; 4]);
    gae::trajectory(
        &rewards,
        &values,
        NextValueSource::Bootstrap(last),
        Ends::without_truncation(&[false; 4]),
        Discount::new(gamma, 1.0).unwrap(),
        Out { advantages: &mut advantages, returns: &mut returns },
    )
    .unwrap();
    let mut discounted = last;
    for t in (0..4).rev() {
        discounted = rewards[t] + gamma * discounted;
        assert!((returns[t] - discounted).abs() < 1e-12);
        assert!((advantages[t] - (discounted - values[t])).abs() < 1e-12);
    }
}

#[test]
fn a_rollout_worked_out_by_hand() {
    // gamma = 0.5, lambda = 0.5: A_2 = 3 + 0.5 x 8 - 1 = 6; A_1 = 2 - 1 = 1 (terminal, cut);
    // A_0 = 1 + 0.5 x 1 - 1 + 0.25 x 1 = 0.75.
    let (mut advantages, mut returns) = ([0.0; 3], [0.0; 3]);
    gae::trajectory(
        &[1.0, 2.0, 3.0],
        &[1.0; 3],
        NextValueSource::Bootstrap(8.0),
        Ends::without_truncation(&[false, true, false]),
        Discount::new(0.5, 0.5).unwrap(),
        Out { advantages: &mut advantages, returns: &mut returns },
    )
    .unwrap();
    assert_eq!((advantages, returns), ([0.75, 1.0, 6.0], [1.75, 2.0, 7.0]));
}

#[test]
fn truncation_bootstraps_the_final_observation_and_cuts_the_trace() {
    // Step 0 is truncated in a state of value 4: A_0 = 1 + 0.5 x 4 - 1 = 2, without A_1.
    let (mut advantages, mut returns) = ([0.0; 2], [0.0; 2]);
    gae::trajectory(
        &[1.0, 1.0],
        &[1.0, 1.0],
        NextValueSource::Values(&[4.0, 6.0]),
        Ends { terminated: &[false, false], truncated: &[true, false] },
        Discount::new(0.5, 1.0).unwrap(),
        Out { advantages: &mut advantages, returns: &mut returns },
    )
    .unwrap();
    assert_eq!((advantages, returns), ([2.0, 3.0], [3.0, 4.0]));
}

#[test]
fn a_bootstrap_of_a_truncated_trajectory_is_refused() {
    for (at, terminated, refused) in
        [(0, false, true), (70, false, true), (99, false, true), (70, true, false)]
    {
        let (mut terminated_flags, mut truncated_flags) = (vec![false; 100], vec![false; 100]);
        (terminated_flags[at], truncated_flags[at]) = (terminated, true);
        let (mut advantages, mut returns) = (vec![0.0; 100], vec![0.0; 100]);
        let result = gae::trajectory(
            &[1.0; 100],
            &[0.5; 100],
            NextValueSource::Bootstrap(2.0),
            Ends { terminated: &terminated_flags, truncated: &truncated_flags },
            Discount::new(0.9, 0.9).unwrap(),
            Out { advantages: &mut advantages, returns: &mut returns },
        );
        match result {
            Ok(()) => assert!(!refused, "{at}"),
            Err(error) => {
                let start = format!("truncated is set at flat index {at}, expected no truncated step");
                assert!(refused && error.to_string().starts_with(&start), "{error}");
            }
        }
    }
}

#[test]
fn the_value_after_termination_is_never_read() {
    let mut case = draw_case(6, 50);
    for (next, terminated) in case.next_values.iter_mut().zip(&case.terminated) {
        if *terminated {
            *next = f64::NAN;
        }
    }
    assert!(trajectory(&case, 0.99, 0.95).0.iter().all(|a| a.is_finite()));
}

fn transpose<T: Copy>(flat: &[T], n: usize) -> Vec<T> {
    let steps = flat.len() / n;
    (0..steps).flat_map(|t| (0..n).map(move |env| flat[env * steps + t])).collect()
}

fn to_f32(numbers: &[f64]) -> Vec<f32> {
    numbers.iter().map(|&x| f32::from_f64(x)).collect()
}

/// Computes one random rollout in both layouts. Returns the advantages and returns of the env-major
/// kernel, then those of the time-major one, all laid out time-major.
fn compute_both_layouts<F: Float>(case: &Case, n: usize, bootstrap: bool) -> [Vec<F>; 4] {
    let steps = case.rewards.len() / n;
    let convert = |numbers: &[f64]| numbers.iter().map(|&x| F::from_f64(x)).collect::<Vec<F>>();
    let (rewards, values) = (convert(&case.rewards), convert(&case.values));
    let next = convert(&case.next_values);
    let last: Vec<F> = next.iter().copied().take(n).collect();
    let discount = Discount::new(0.99, 0.95).unwrap();
    let mut results: [Vec<F>; 4] = std::array::from_fn(|_| vec![F::ZERO; n * steps]);
    let [flat_advantages, flat_returns, advantages, returns] = &mut results;
    let ends = Ends { terminated: &case.terminated[..], truncated: &case.truncated[..] };
    let env_major_next =
        if bootstrap { NextValueSource::Bootstrap(&last[..]) } else { NextValueSource::Values(&next[..]) };
    let out = Out { advantages: flat_advantages, returns: flat_returns };
    gae::env_major(&rewards, &values, env_major_next, ends, steps, discount, out).unwrap();
    let next_transposed = transpose(&next, n);
    let input = TimeMajor {
        rewards: &transpose(&rewards, n),
        values: &transpose(&values, n),
        next: if bootstrap {
            NextValueSource::Bootstrap(&last)
        } else {
            NextValueSource::Values(&next_transposed)
        },
        ends: Ends { terminated: &transpose(&case.terminated, n), truncated: &transpose(&case.truncated, n) },
        n_envs: n,
    };
    gae::time_major(input, discount, Out { advantages, returns }).unwrap();
    let [flat_advantages, flat_returns, advantages, returns] = results;
    [transpose(&flat_advantages, n), transpose(&flat_returns, n), advantages, returns]
}

// The env-major kernel sums blocks in float64. The time-major kernel sums rows in the precision of the
// arrays. The kernels round in different places, so their results do not agree to the bit.
#[test]
fn all_layouts_agree_up_to_rounding_in_both_precisions() {
    for (n, steps) in [(1, 1), (1, 5), (7, 40), (300, 500)] {
        for bootstrap in [false, true] {
            let mut case = draw_case((n * steps) as u64, n * steps);
            if bootstrap {
                case.truncated.fill(false);
            }
            let [a, b, c, d] = compute_both_layouts::<f64>(&case, n, bootstrap);
            assert_close(&a, &c, 1e-12 * 50.0);
            assert_close(&b, &d, 1e-12 * 50.0);
            let single = compute_both_layouts::<f32>(&case, n, bootstrap);
            let [a, b, c, d] = single.map(|x| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
            assert_close(&a, &c, 1e-6 * 20.0);
            assert_close(&b, &d, 1e-6 * 20.0);
        }
    }
}

#[test]
fn random_trajectories_of_every_length_equal_the_quadratic_definition() {
    let mut stream = Stream::new(11, "lengths", 0);
    for seed in 0..2_000 {
        let case = draw_case(seed, seed as usize % 64 + 1);
        let to_factor = |x: f64| {
            if x < 0.2 {
                0.0
            } else if x > 0.8 {
                1.0
            } else {
                x
            }
        };
        let (gamma, lam) = (to_factor(stream.uniform()), to_factor(stream.uniform()));
        let (advantages, returns) = trajectory(&case, gamma, lam);
        let expected = reference_advantages(&case, gamma, lam);
        assert_close(&advantages, &expected, 1e-12 * 50.0);
        let targets: Vec<f64> = expected.iter().zip(&case.values).map(|(a, v)| a + v).collect();
        assert_close(&returns, &targets, 1e-12 * 50.0);
    }
}

#[test]
fn a_long_trajectory_computed_in_pieces_equals_the_definition() {
    // The kernel checks for an interruption after every piece of 65,536 steps.
    let mut long_case = draw_case(9, 3 * 65_536 + 7);
    assert_close(&trajectory(&long_case, 0.99, 0.95).0, &reference_advantages(&long_case, 0.99, 0.95), 1e-9);
    long_case.truncated.fill(false);
    long_case.next_values = long_case.values[1..].iter().copied().chain([0.3]).collect();
    let expected = trajectory(&long_case, 0.99, 0.95).0;
    let (mut advantages, mut returns) = (expected.clone(), expected.clone());
    advantages.fill(f64::NAN);
    gae::trajectory(
        &long_case.rewards,
        &long_case.values,
        NextValueSource::Bootstrap(0.3),
        Ends::without_truncation(&long_case.terminated),
        Discount::new(0.99, 0.95).unwrap(),
        Out { advantages: &mut advantages, returns: &mut returns },
    )
    .unwrap();
    assert_eq!(advantages, expected);
}

#[test]
fn nan_spoils_its_own_episode_and_nothing_before_it() {
    for at in 0..24 {
        let mut case = draw_case(21, 24);
        case.truncated = (0..24).map(|t| t % 6 == 5).collect();
        case.terminated = vec![false; 24];
        case.rewards[at] = f64::NAN;
        let [_, _, rows, _] = compute_both_layouts::<f64>(&case, 1, false);
        for advantages in [trajectory(&case, 0.99, 0.95).0, rows] {
            for (t, advantage) in advantages.iter().enumerate() {
                assert_eq!(advantage.is_nan(), t <= at && t / 6 == at / 6, "{t}, NaN at {at}");
            }
        }
    }
}

#[test]
fn a_float32_result_is_the_float64_result_rounded_once() {
    let case = draw_case(8, 400);
    let exact = Case {
        rewards: to_f32(&case.rewards).iter().map(|&x| f64::from(x)).collect(),
        values: to_f32(&case.values).iter().map(|&x| f64::from(x)).collect(),
        next_values: to_f32(&case.next_values).iter().map(|&x| f64::from(x)).collect(),
        ..case
    };
    let (mut advantages, mut returns) = (vec![0.0_f32; 400], vec![0.0_f32; 400]);
    gae::trajectory(
        &to_f32(&exact.rewards),
        &to_f32(&exact.values),
        NextValueSource::Values(&to_f32(&exact.next_values)),
        Ends { terminated: &exact.terminated, truncated: &exact.truncated },
        Discount::new(0.99, 0.95).unwrap(),
        Out { advantages: &mut advantages, returns: &mut returns },
    )
    .unwrap();
    assert_eq!(advantages, to_f32(&trajectory(&exact, 0.99, 0.95).0));
}

#[test]
fn every_wrong_length_is_named() {
    let discount = Discount::new(0.9, 0.9).unwrap();
    let good = [0.0; 4];
    let (mut a, mut r) = ([0.0; 4], [0.0; 4]);
    let mut shape_error_name = |values: &[f64], flags: &[bool], returns: &mut [f64]| {
        let out = Out { advantages: &mut a, returns };
        let ends = Ends::without_truncation(flags);
        match gae::trajectory(&good, values, NextValueSource::Bootstrap(0.0), ends, discount, out) {
            Err(Error::Shape { name, .. }) => name,
            _ => "accepted".into(),
        }
    };
    assert_eq!(shape_error_name(&[0.0; 3], &[false; 4], &mut r), "values");
    assert_eq!(shape_error_name(&good, &[false; 5], &mut r), "terminated");
    assert_eq!(shape_error_name(&good, &[false; 4], &mut [0.0; 2]), "returns");
}

#[test]
fn env_major_refuses_a_part_of_a_trajectory_and_a_wrong_number_of_last_values() {
    let discount = Discount::new(0.9, 0.9).unwrap();
    let run = |n_steps: usize, last: &[f64]| {
        let (mut a, mut r) = ([0.0; 6], [0.0; 6]);
        let out = Out { advantages: &mut a, returns: &mut r };
        let ends = Ends::without_truncation(&[false; 6]);
        gae::env_major(&[0.0; 6], &[0.0; 6], NextValueSource::Bootstrap(last), ends, n_steps, discount, out)
    };
    assert!(run(3, &[0.0; 2]).is_ok());
    for (n_steps, last) in [(4, &[0.0][..]), (3, &[0.0]), (0, &[]), (7, &[])] {
        assert!(matches!(run(n_steps, last), Err(Error::Shape { .. })), "n_steps {n_steps}");
    }
}

#[test]
fn gamma_and_lambda_must_lie_between_0_and_1() {
    for (gamma, lam) in [(-0.1, 0.5), (1.1, 0.5), (f64::NAN, 0.5), (0.5, f64::INFINITY)] {
        assert!(matches!(Discount::new(gamma, lam), Err(Error::Config { .. })));
    }
    assert!(Discount::new(0.0, 1.0).is_ok());
}

#[test]
fn empty_input_gives_empty_output() {
    let case = draw_case(9, 0);
    assert_eq!(trajectory(&case, 0.9, 0.9), (vec![], vec![]));
    let input = TimeMajor::<f64, bool> {
        rewards: &[],
        values: &[],
        next: NextValueSource::Values(&[]),
        ends: Ends::without_truncation(&[]),
        n_envs: 0,
    };
    let out = Out { advantages: &mut [], returns: &mut [] };
    assert!(gae::time_major(input, Discount::new(0.9, 0.9).unwrap(), out).is_ok());
}
