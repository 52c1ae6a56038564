//! Compares a replay buffer of any columns with a naive list of rows, in random programs of calls. A
//! program that fails is reduced to the calls without which it would not fail. `RLOX_FULL=1` runs many
//! more programs, which differ each time.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]
#![allow(clippy::cast_possible_truncation)]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

#[path = "program/adapter.rs"]
mod adapter;
#[path = "program/model.rs"]
mod model;
mod scratch;

use adapter::{Buffer, ObsColumn, RowEnvs, Step};
use model::Model;

/// A call of a program. The bool of a push says whether its rows have next observations. `Windows` has
/// the batch size, n and gamma.
#[derive(Debug, Clone)]
enum Call {
    PushEach(Vec<Step>, bool),
    PushOne(usize, Vec<Step>, bool),
    PushMixed(Vec<Step>, bool),
    Cut(usize),
    Clear,
    Update(Vec<(u64, i16)>),
    Sample(usize, Option<u64>),
    Windows(usize, usize, f64),
    Goals(&'static str, f64),
    SaveAndLoad,
    Restore,
}

fn any_step() -> impl Strategy<Value = Step> {
    // On average, one row in four ends an episode, and `next` follows `obs` in every second row.
    let end = prop_oneof![6 => Just((false, false)), 1 => Just((true, false)), 1 => Just((false, true))];
    (0..8_u8, any::<bool>(), 0..8_u8, -9..9_i16, end, 0..3_usize).prop_map(
        |(obs, is_chained, other_obs, number, (terminated, truncated), env)| Step {
            env,
            obs,
            next: if is_chained { (obs + 1) % 8 } else { other_obs },
            number,
            terminated,
            truncated,
        },
    )
}

fn any_call() -> impl Strategy<Value = Call> {
    let steps = || vec(any_step(), 1..8);
    let strategy = prop_oneof![Just("future"), Just("final"), Just("episode")];
    prop_oneof![
        (vec(any_step(), 3), any::<bool>()).prop_map(|(rows, next)| Call::PushEach(rows, next)),
        (0..3_usize, steps(), any::<bool>()).prop_map(|(env, rows, next)| Call::PushOne(env, rows, next)),
        (steps(), any::<bool>()).prop_map(|(rows, next)| Call::PushMixed(rows, next)),
        (0..3_usize).prop_map(Call::Cut),
        Just(Call::Clear),
        vec((any::<u64>(), -9..9_i16), 1..5).prop_map(Call::Update),
        (1..9_usize, proptest::option::of(any::<u64>())).prop_map(|(n, seed)| Call::Sample(n, seed)),
        (1..9_usize, 1..5_usize, prop_oneof![Just(0.0), Just(0.5), Just(1.0)])
            .prop_map(|(size, n, gamma)| Call::Windows(size, n, gamma)),
        (strategy, prop_oneof![Just(0.0), Just(0.5), Just(1.0)])
            .prop_map(|(strategy, ratio)| Call::Goals(strategy, ratio)),
        Just(Call::SaveAndLoad),
        Just(Call::Restore),
    ]
}

/// Makes one call on the buffer and on the model.
fn make_call(call: &Call, buffer: &mut Buffer, model: &mut Model, n_envs: usize, folder: &std::path::Path) {
    let with_valid_env = |step: &Step| Step { env: step.env % n_envs, ..step.clone() };
    let mut push = |steps: Vec<Step>, row_envs: RowEnvs, next: bool| {
        buffer.push(&steps, row_envs, next);
        for (row, step) in steps.iter().enumerate() {
            let env = match row_envs {
                RowEnvs::Each => row,
                RowEnvs::One(env) => env,
                RowEnvs::Mixed => step.env,
            };
            model.push(env, step, next);
        }
    };
    match call {
        Call::PushEach(steps, next) => push(steps[..n_envs].to_vec(), RowEnvs::Each, *next),
        Call::PushOne(env, steps, next) => push(steps.clone(), RowEnvs::One(env % n_envs), *next),
        Call::PushMixed(steps, next) => {
            push(steps.iter().map(with_valid_env).collect(), RowEnvs::Mixed, *next);
        }
        Call::Cut(env) => {
            buffer.cut(env % n_envs);
            model.cut(env % n_envs);
        }
        Call::Clear => {
            buffer.clear();
            model.clear();
        }
        Call::Update(pairs) => {
            let indices: Vec<u64> = pairs.iter().map(|(index, _)| index % model.index_bound()).collect();
            let rewards: Vec<f64> = pairs.iter().map(|&(_, reward)| f64::from(reward)).collect();
            let Some(n_stale) = buffer.update(&indices, &rewards) else {
                assert!(indices.iter().any(|&index| model.is_ahead(index)));
                return;
            };
            assert!(!indices.iter().any(|&index| model.is_ahead(index)));
            let stored_pairs =
                indices.iter().zip(rewards).filter(|&(&index, reward)| model.update(index, reward));
            assert_eq!(n_stale as usize, indices.len() - stored_pairs.count());
        }
        Call::SaveAndLoad => *buffer = buffer.save_and_load(folder),
        Call::Restore => *buffer = buffer.restore_copy(),
        _ => make_read_call(call, buffer, model),
    }
}

/// Makes a call that changes no row.
fn make_read_call(call: &Call, buffer: &Buffer, model: &Model) {
    if model.held_indices().is_empty() {
        return;
    }
    match call {
        Call::Sample(size, seed) => {
            let (rows, _) = buffer.sample(*size, *seed, None);
            for row in &rows {
                assert_eq!(Some(row), model.row(row.index).as_ref());
            }
            if seed.is_some() {
                assert_eq!(buffer.sample(*size, *seed, None).0, rows);
            }
        }
        Call::Windows(size, n, gamma) => {
            let (rows, discounts) = buffer.sample(*size, Some(1), Some((*n, *gamma)));
            for (row, discount) in rows.iter().zip(discounts) {
                let (expected, factor) = model.window(row.index, *n, *gamma);
                assert_eq!((row, f64::from(discount)), (&expected, factor));
            }
        }
        Call::Goals(strategy, ratio) => check_goals(buffer, model, strategy, *ratio),
        _ => {}
    }
}

/// Checks that each goal is of a row of the same episode, where the strategy allows it.
fn check_goals(buffer: &Buffer, model: &Model, strategy: &str, ratio: f64) {
    let (rows, goals) = buffer.sample_goals(8, strategy, ratio);
    assert!(ratio > 0.0 || goals.is_empty());
    assert!(ratio < 1.0 || goals.len() == rows.len());
    for (row, goal) in goals {
        let (first, last) = model.episode(rows[row]);
        assert_eq!(model.episode(goal), (first, last));
        assert!(strategy != "final" || goal == last);
        assert!(strategy != "future" || goal >= rows[row]);
    }
}

fn check(buffer: &Buffer, model: &Model) {
    let held = model.held_indices();
    assert_eq!(buffer.held_indices(), held);
    let expected: Vec<_> = held.iter().map(|&index| model.row(index).unwrap()).collect();
    assert_eq!(buffer.gather(&held).unwrap(), expected);
    for index in (0..model.index_bound()).filter(|index| !held.contains(index)) {
        assert_eq!(buffer.gather(&[index]), None);
    }
}

#[test]
fn random_programs_of_calls_equal_a_list_of_rows() {
    let is_full = std::env::var("RLOX_FULL").is_ok_and(|value| value == "1");
    let cases = if is_full { 50_000 } else { 300 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = if is_full { TestRunner::new(config) } else { TestRunner::new_with_rng(config, rng) };
    let folder = scratch::folder("programs");
    let sizes = (1..4_usize, 1..5_usize, 0..3_usize);
    let program = (vec(ObsColumn::any(), 1..4), sizes, vec(any_call(), 1..40));
    let result = runner.run(&program, |(columns, (n_envs, env_capacity, extra_rows), calls)| {
        let capacity = n_envs * env_capacity + extra_rows % n_envs;
        let mut buffer = Buffer::new(&columns, capacity, n_envs);
        let mut model = Model::new(&columns, capacity, n_envs);
        drop(std::fs::remove_dir_all(&folder));
        for call in &calls {
            make_call(call, &mut buffer, &mut model, n_envs, &folder);
            check(&buffer, &model);
        }
        Ok(())
    });
    assert!(result.is_ok(), "{}", result.unwrap_err());
}
