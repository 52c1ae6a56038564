//! Compares V-trace with equation 1 of Espeholt et al. 2018, with special cases, and with numbers
//! worked out by hand.
#![allow(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::unwrap_used)]
#![allow(clippy::float_cmp, missing_docs)]

use rlox_core::Error;
use rlox_core::advantage::gae::NextValueSource;
use rlox_core::advantage::returns;
use rlox_core::advantage::vtrace::{Clip, Input, Out, vtrace};
use rlox_core::advantage::{Discount, Ends};
use rlox_core::math::Float;
use rlox_core::seed::Stream;

struct Case {
    log_rhos: Vec<f64>,
    rewards: Vec<f64>,
    values: Vec<f64>,
    next_values: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    gamma: f64,
    lam: f64,
    clip: (f64, f64),
}

fn draw_case(seed: u64, len: usize) -> Case {
    let mut stream = Stream::new(seed, "vtrace", 0);
    let mut draw_normals = || (0..len).map(|_| stream.normal()).collect::<Vec<f64>>();
    let (log_rhos, rewards, values, next_values) =
        (draw_normals(), draw_normals(), draw_normals(), draw_normals());
    let mut draw_flags = || (0..len).map(|_| stream.uniform() < 0.1).collect::<Vec<bool>>();
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
    let clip = (stream.uniform_in(0.0, 2.0), stream.uniform_in(0.0, 2.0));
    Case { log_rhos, rewards, values, next_values, terminated, truncated, gamma, lam, clip }
}

/// Computes the targets v_s and the policy-gradient advantages of one trajectory by the sum of
/// equation 1.
fn reference_vtrace(case: &Case) -> (Vec<f64>, Vec<f64>) {
    let len = case.rewards.len();
    let rho = |t: usize| case.log_rhos[t].exp().min(case.clip.0);
    let c = |t: usize| case.lam * case.log_rhos[t].exp().min(case.clip.1);
    let next = |t: usize| if case.terminated[t] { 0.0 } else { case.next_values[t] };
    let is_end = |t: usize| case.terminated[t] || case.truncated[t] || t + 1 == len;
    let delta = |t: usize| rho(t) * (case.rewards[t] + case.gamma * next(t) - case.values[t]);
    let sum = |s: usize| {
        let (mut total, mut weight) = (0.0, 1.0);
        for t in s..len {
            total += weight * delta(t);
            weight *= case.gamma * c(t);
            if is_end(t) {
                break;
            }
        }
        total
    };
    let vs = (0..len).map(|t| case.values[t] + sum(t)).collect();
    let pg = |t: usize| {
        let target = if is_end(t) { next(t) } else { next(t) + sum(t + 1) };
        rho(t) * (case.rewards[t] + case.gamma * target - case.values[t])
    };
    (vs, (0..len).map(pg).collect())
}

fn cast<F: Float>(numbers: &[f64]) -> Vec<F> {
    numbers.iter().map(|&x| F::from_f64(x)).collect()
}

fn run<F: Float>(case: &Case, n_envs: usize) -> (Vec<f64>, Vec<f64>) {
    let len = case.rewards.len();
    let (mut vs, mut pg) = (vec![F::ZERO; len], vec![F::ZERO; len]);
    let next: Vec<F> = cast(&case.next_values);
    let input = Input {
        log_rhos: &cast::<F>(&case.log_rhos),
        rewards: &cast::<F>(&case.rewards),
        values: &cast::<F>(&case.values),
        next: NextValueSource::Values(&next),
        ends: Ends { terminated: &case.terminated[..], truncated: &case.truncated[..] },
        n_envs,
    };
    let discount = Discount::new(case.gamma, case.lam).unwrap();
    let clip = Clip::new(case.clip.0, case.clip.1).unwrap();
    vtrace(input, discount, clip, Out { value_targets: &mut vs, pg_advantages: &mut pg }).unwrap();
    let to_doubles = |x: Vec<F>| x.into_iter().map(Float::to_f64).collect();
    (to_doubles(vs), to_doubles(pg))
}

fn assert_close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (t, (got, expected)) in got.iter().zip(expected).enumerate() {
        let scale = expected.abs().max(1.0);
        assert!((got - expected).abs() <= tolerance * scale, "at {t}: {got} is not {expected}");
    }
}

#[test]
fn random_trajectories_equal_equation_1_in_both_precisions() {
    for seed in 0..1_500 {
        let case = draw_case(seed, seed as usize % 150 + 1);
        let (vs, pg) = reference_vtrace(&case);
        let double = run::<f64>(&case, 1);
        assert_close(&double.0, &vs, 1e-9);
        assert_close(&double.1, &pg, 1e-9);
        let spread = vs.iter().chain(&pg).fold(1.0_f64, |largest, x| largest.max(x.abs()));
        let single = run::<f32>(&case, 1);
        assert_close(&single.0, &vs, 1e-4 * spread);
        assert_close(&single.1, &pg, 1e-4 * spread);
    }
}

#[test]
fn each_column_of_a_rollout_is_computed_as_one_trajectory() {
    for (seed, n, steps) in [(1, 2, 1), (2, 3, 10), (3, 9, 70)] {
        let grid = draw_case(seed, n * steps);
        let (vs, pg) = run::<f64>(&grid, n);
        for env in 0..n {
            let column = |all: &[f64]| all.iter().copied().skip(env).step_by(n).collect::<Vec<f64>>();
            let flag_column = |all: &[bool]| all.iter().copied().skip(env).step_by(n).collect::<Vec<bool>>();
            let env_case = Case {
                log_rhos: column(&grid.log_rhos),
                rewards: column(&grid.rewards),
                values: column(&grid.values),
                next_values: column(&grid.next_values),
                terminated: flag_column(&grid.terminated),
                truncated: flag_column(&grid.truncated),
                ..grid
            };
            let expected = reference_vtrace(&env_case);
            assert_close(&column(&vs), &expected.0, 1e-9);
            assert_close(&column(&pg), &expected.1, 1e-9);
        }
    }
}

#[test]
fn on_policy_targets_are_lambda_returns() {
    for len in [1, 7, 130] {
        let mut case = draw_case(4, len);
        (case.log_rhos, case.clip) = (vec![0.0; len], (1.0, 1.0));
        (case.gamma, case.lam) = (0.97, 0.9);
        // The identity needs V(s_{t+1}) to be the next step's value wherever an episode continues.
        for t in 0..len - 1 {
            if !case.truncated[t] {
                case.next_values[t] = case.values[t + 1];
            }
        }
        let mut expected = vec![0.0; len];
        let input = returns::Input {
            rewards: &case.rewards[..],
            next_values: &case.next_values[..],
            ends: Ends { terminated: &case.terminated[..], truncated: &case.truncated[..] },
            n_envs: 1,
        };
        let discount = Discount::new(case.gamma, case.lam).unwrap();
        returns::lambda_returns(input, discount, &mut expected).unwrap();
        assert_close(&run::<f64>(&case, 1).0, &expected, 1e-12);
    }
}

#[test]
fn a_trajectory_worked_out_by_hand() {
    // gamma = 0.5, rho = (2, 0.5) clipped to (1, 0.5): delta_1 = 0.5 (2 + 0.5 x 4 - 1) = 1.5,
    // vs_1 = 2.5; delta_0 = 1 + 0.5 x 1 - 1 = 0.5, vs_0 = 1 + 0.5 + 0.5 x 1.5 = 2.25;
    // pg_1 = delta_1, pg_0 = 1 + 0.5 x 2.5 - 1 = 1.25.
    let (mut vs, mut pg) = ([0.0; 2], [0.0; 2]);
    let input = Input {
        log_rhos: &[2.0_f64.ln(), 0.5_f64.ln()],
        rewards: &[1.0, 2.0],
        values: &[1.0, 1.0],
        next: NextValueSource::Bootstrap(&[4.0]),
        ends: Ends::without_truncation(&[false, false]),
        n_envs: 1,
    };
    let discount = Discount::new(0.5, 1.0).unwrap();
    let out = Out { value_targets: &mut vs, pg_advantages: &mut pg };
    vtrace(input, discount, Clip::new(1.0, 1.0).unwrap(), out).unwrap();
    assert_close(&vs, &[2.25, 2.5], 1e-15);
    assert_close(&pg, &[1.25, 1.5], 1e-15);
}

#[test]
fn the_value_after_termination_is_never_read_and_nan_stays_in_its_episode() {
    for n_envs in [1, 2] {
        let mut case = draw_case(8, 100);
        for t in 0..100 {
            case.terminated[t] |= case.truncated[t];
            if case.terminated[t] {
                case.next_values[t] = f64::NAN;
            }
        }
        let (vs, pg) = run::<f64>(&case, n_envs);
        assert!(vs.iter().chain(&pg).all(|x| x.is_finite()));
        let end = (0..90).rev().find(|&t| case.terminated[t]).unwrap();
        case.rewards[end + n_envs] = f64::NAN;
        let (vs, pg) = run::<f64>(&case, n_envs);
        assert!(vs[end + n_envs].is_nan() && pg[end + n_envs].is_nan());
        assert!(vs[end].is_finite() && pg[end].is_finite());
    }
}

#[test]
fn an_overflowing_ratio_is_clipped_and_nan_is_not() {
    for n_envs in [1, 2] {
        let mut case = draw_case(9, 8);
        (case.gamma, case.lam, case.clip) = (0.9, 1.0, (1.0, 1.0));
        case.log_rhos = vec![1e4; 8];
        assert!(run::<f64>(&case, n_envs).0.iter().all(|x| x.is_finite()));
        case.log_rhos[7] = f64::NAN;
        assert!(run::<f64>(&case, n_envs).0[7].is_nan());
    }
}

#[test]
fn wrong_lengths_are_named_and_wrong_ranges_refused() {
    let rejected_name = |log_rhos: &[f64], last: &[f64], n_envs: usize| {
        let (mut vs, mut pg) = ([0.0; 4], [0.0; 4]);
        let input = Input {
            log_rhos,
            rewards: &[0.0; 4],
            values: &[0.0; 4],
            next: NextValueSource::Bootstrap(last),
            ends: Ends::without_truncation(&[false; 4]),
            n_envs,
        };
        let out = Out { value_targets: &mut vs, pg_advantages: &mut pg };
        match vtrace(input, Discount::new(0.9, 1.0).unwrap(), Clip::new(1.0, 1.0).unwrap(), out) {
            Err(Error::Shape { name, .. }) => name.into_owned(),
            _ => "accepted".to_owned(),
        }
    };
    assert_eq!(rejected_name(&[0.0; 4], &[0.0; 2], 2), "accepted");
    assert_eq!(rejected_name(&[0.0; 3], &[0.0; 2], 2), "log_rhos");
    assert_eq!(rejected_name(&[0.0; 4], &[0.0; 1], 2), "bootstrap_value");
    assert_eq!(rejected_name(&[0.0; 4], &[0.0; 3], 3), "rewards");
    for (rho_bar, c_bar) in [(-1.0, 1.0), (1.0, f64::NAN)] {
        assert!(matches!(Clip::new(rho_bar, c_bar), Err(Error::Config { .. })));
    }
    assert!(Clip::new(f64::INFINITY, 0.0).is_ok());
}
