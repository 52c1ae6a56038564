//! Long kernels stop when they are interrupted.
#![allow(clippy::unwrap_used, missing_docs)]

use std::thread::sleep;
use std::time::Duration;

use rlox_core::advantage::gae::{self, NextValueSource, TimeMajor};
use rlox_core::advantage::vtrace::{self, Clip};
use rlox_core::advantage::{Discount, Ends, returns};
use rlox_core::interrupt::interruptible;
use rlox_core::llm::group::{Scale, Scaling, group_advantages};
use rlox_core::llm::kl::{Estimator, Reduction, Tokens, batch_token_kl};
use rlox_core::llm::packing::Packing;
use rlox_core::stats::Moments;
use rlox_core::{Error, Result};

const N: usize = 1 << 18;

/// Runs `work`, which is interrupted at its first check. Returns its error.
fn run_interrupted<T>(work: impl FnOnce() -> Result<T>) -> Option<Error> {
    interruptible(
        || true,
        || {
            // Long enough that the next check asks whether to stop.
            sleep(Duration::from_millis(40));
            work().err()
        },
    )
}

#[test]
fn advantages_and_returns_stop_when_they_are_interrupted() {
    let (numbers, flags) = (vec![0.5_f32; N], vec![false; N]);
    let (mut first_out, mut second_out) = (numbers.clone(), numbers.clone());
    let (numbers, ends) = (numbers.as_slice(), Ends::without_truncation(flags.as_slice()));
    let discount = Discount::new(0.9, 0.9).unwrap();
    let clip = Clip::new(1.0, 1.0).unwrap();
    for n_envs in [1, 64, N / 2] {
        let next = NextValueSource::Values(numbers);
        let input = TimeMajor { rewards: numbers, values: numbers, next, ends, n_envs };
        let out = gae::Out { advantages: &mut first_out, returns: &mut second_out };
        assert_eq!(run_interrupted(|| gae::time_major(input, discount, out)), Some(Error::Interrupted));
        let out = gae::Out { advantages: &mut first_out, returns: &mut second_out };
        let work = || gae::env_major(numbers, numbers, next, ends, n_envs, discount, out);
        assert_eq!(run_interrupted(work), Some(Error::Interrupted));
        let input = vtrace::Input {
            log_rhos: numbers,
            rewards: numbers,
            values: numbers,
            next: NextValueSource::Values(numbers),
            ends,
            n_envs,
        };
        let out = vtrace::Out { value_targets: &mut first_out, pg_advantages: &mut second_out };
        assert_eq!(run_interrupted(|| vtrace::vtrace(input, discount, clip, out)), Some(Error::Interrupted));
        let input = returns::Input { rewards: numbers, next_values: numbers, ends, n_envs };
        let work = || returns::lambda_returns(input, discount, &mut first_out);
        assert_eq!(run_interrupted(work), Some(Error::Interrupted));
        let work = || returns::n_step_returns(input, 3, 0.9, &mut first_out);
        assert_eq!(run_interrupted(work), Some(Error::Interrupted));
    }
    let out = gae::Out { advantages: &mut first_out, returns: &mut second_out };
    let next = NextValueSource::Bootstrap(0.0);
    let work = || gae::trajectory(numbers, numbers, next, ends, discount, out);
    assert_eq!(run_interrupted(work), Some(Error::Interrupted));
}

#[test]
fn primitives_of_language_models_stop() {
    // Enough numbers that several threads share them.
    let (numbers, mut out) = (vec![-0.5_f64; 4 * N], vec![0.0; 4 * N]);
    let tokens = Tokens::<f64, u8> { log_p: &numbers, log_q: &numbers, mask: None };
    let sum = Reduction::Sum;
    let work = || batch_token_kl(tokens, 64, Estimator::K3, sum, out.get_mut(..4 * N / 64).unwrap());
    assert_eq!(run_interrupted(work), Some(Error::Interrupted));
    let scaling = Scaling::new(Scale::Group, 0, 0.0).unwrap();
    let work = || group_advantages(&numbers, 16, scaling, &mut out);
    assert_eq!(run_interrupted(work), Some(Error::Interrupted));
    let lengths = vec![3; 20_000];
    let work = || Packing::first_fit_decreasing(&lengths, 10);
    assert_eq!(run_interrupted(work), Some(Error::Interrupted));
}

#[test]
fn interrupted_statistics_stop_and_do_not_change() {
    let rows = vec![0.5; N];
    let mut moments = Moments::new(4);
    moments.update(&[1.0, 2.0, 3.0, 4.0]).unwrap();
    let before = moments.clone();
    assert_eq!(run_interrupted(|| moments.update(&rows)), Some(Error::Interrupted));
    assert_eq!(moments, before);
    let mut out = vec![0.0; N];
    let work = || moments.normalize(&rows, None, 1e-8, &mut out);
    assert_eq!(run_interrupted(work), Some(Error::Interrupted));
}
