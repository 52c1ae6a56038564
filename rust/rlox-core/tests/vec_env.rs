//! Batches of environments: autoreset, time limits, independence, snapshots, refused arguments.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]

use rlox_core::Error;
use rlox_core::env::{Actions, PARALLEL_FROM, Precision, Seeding, StepOut, Tiling, VecEnv, registry};
use rlox_core::seed::Stream;
use rlox_core::space::ActionSpace;

struct Step {
    obs: Vec<f32>,
    rewards: Vec<f64>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

enum OwnedActions {
    Discrete(Vec<i64>),
    Box(Vec<f32>),
}

impl OwnedActions {
    fn view(&self) -> Actions<'_> {
        match self {
            Self::Discrete(actions) => Actions::Discrete(actions),
            Self::Box(actions) => Actions::Box(actions),
        }
    }
}

/// Draws random actions; those of environment i depend only on i and t.
fn actions(envs: &VecEnv, t: u64) -> OwnedActions {
    let draw = |env: usize| Stream::new(t, "actions", env as u64).uniform_in(-2.0, 2.0);
    let draws = (0..envs.n_envs()).map(draw);
    match envs.spec().action {
        ActionSpace::Discrete { n } => {
            let choice = |x: f64| (1..n).filter(|&k| x > 4.0 * fraction(k, n) - 2.0).count();
            OwnedActions::Discrete(draws.map(|x| i64::try_from(choice(x)).unwrap()).collect())
        }
        #[expect(clippy::cast_possible_truncation, reason = "any number will do")]
        ActionSpace::Box(_) => OwnedActions::Box(draws.map(|x| x as f32).collect()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn fraction(k: usize, n: usize) -> f64 {
    k as f64 / n as f64
}

fn step(envs: &mut VecEnv, actions: Actions<'_>) -> Result<Step, Error> {
    let n = envs.n_envs();
    let mut out = Step {
        obs: vec![0.0; n * envs.obs_dim()],
        rewards: vec![0.0; n],
        terminated: vec![false; n],
        truncated: vec![false; n],
    };
    envs.step_into(
        actions,
        StepOut {
            obs: &mut out.obs,
            rewards: &mut out.rewards,
            terminated: &mut out.terminated,
            truncated: &mut out.truncated,
        },
    )?;
    Ok(out)
}

fn random_step(envs: &mut VecEnv, t: u64) -> Result<Step, Error> {
    let actions = actions(envs, t);
    step(envs, actions.view())
}

fn make_envs(id: &str, n: usize) -> VecEnv {
    VecEnv::new(id, n, Seeding::Run(11)).unwrap()
}

fn state(envs: &VecEnv) -> Vec<f64> {
    envs.snapshot().unwrap().state
}

#[test]
fn an_ended_episode_leaves_its_last_observation_and_the_next_one_starts_at_once() {
    for id in registry::ids() {
        let mut envs = make_envs(id, 5);
        let (dim, mut n_episodes) = (envs.obs_dim(), 0);
        let steps = 2 * u64::from(envs.spec().max_episode_steps) + 10;
        for t in 0..steps {
            let out = random_step(&mut envs, t).unwrap();
            let ended: Vec<usize> = (0..5).filter(|&i| out.terminated[i] || out.truncated[i]).collect();
            assert_eq!(envs.episode_ends().indices, ended);
            assert_eq!(envs.episode_ends().obs.len(), ended.len() * dim);
            let mut current = vec![0.0; 5 * dim];
            envs.observe_into(&mut current).unwrap();
            assert_eq!(current, out.obs, "the observation is the next episode's first");
            for (&env, last) in ended.iter().zip(envs.episode_ends().obs.chunks(dim)) {
                assert_ne!(last, &out.obs[env * dim..(env + 1) * dim]);
                assert_eq!(envs.snapshot().unwrap().elapsed[env], 0);
                n_episodes += 1;
            }
        }
        assert!(n_episodes >= 10, "{id}: {n_episodes} episodes");
    }
}

#[test]
fn the_time_limit_truncates_exactly_at_its_step() {
    let mut envs = make_envs("Pendulum-v1", 3);
    for t in 1..=400 {
        let out = random_step(&mut envs, t).unwrap();
        assert_eq!(out.truncated, [t % 200 == 0; 3]);
        assert_eq!(out.terminated, [false; 3]);
    }
}

#[test]
fn a_terminal_state_at_the_time_limit_sets_both_flags() {
    let mut envs = make_envs("CartPole-v1", 1);
    envs.set_state(&[2.39, 5.0, 0.0, 0.0], Some(&[499])).unwrap();
    let out = step(&mut envs, Actions::Discrete(&[1])).unwrap();
    assert_eq!((out.terminated[0], out.truncated[0]), (true, true));
}

#[test]
fn an_environment_does_not_depend_on_how_many_others_there_are_or_on_threads() {
    for id in registry::ids() {
        let (mut few, mut many) = (make_envs(id, 3), make_envs(id, PARALLEL_FROM + 7));
        let dim = few.obs_dim();
        for t in 0..12 {
            let small = random_step(&mut few, t).unwrap();
            let large = random_step(&mut many, t).unwrap();
            assert_eq!(small.obs, large.obs[..3 * dim]);
            assert_eq!(small.rewards, large.rewards[..3]);
            assert_eq!(small.terminated, large.terminated[..3]);
        }
        assert_eq!(state(&few), state(&many)[..3 * few.spec().state_dim]);
    }
}

#[test]
fn equal_environments_stay_equal_on_several_threads() {
    let n = PARALLEL_FROM + 500;
    let mut envs = make_envs("CartPole-v1", n);
    let seeds: Vec<u64> = vec![11; n];
    let mut equal_envs = VecEnv::new("CartPole-v1", n, Seeding::PerEnv(seeds)).unwrap();
    for t in 0..15 {
        random_step(&mut envs, t).unwrap();
        let out = step(&mut equal_envs, Actions::Discrete(&vec![1; n])).unwrap();
        assert!(out.obs.chunks(4).all(|row| row == &out.obs[..4]), "equal envs stay equal");
        let finals = envs.episode_ends().indices;
        assert!(finals.windows(2).all(|pair| pair[0] < pair[1]), "finals are in order");
    }
}

#[test]
fn shards_of_one_environment_give_the_results_of_one_thread() {
    let one_env_shards = Tiling { shard_size: 1, parallel_from: 1 };
    for id in registry::ids() {
        for n in [1, 7, 33] {
            let mut plain = VecEnv::new(id, n, Seeding::Run(3)).unwrap();
            let mut sharded =
                VecEnv::with_tiling(id, n, Seeding::Run(3), Precision::F64, one_env_shards).unwrap();
            for t in 0..210 {
                let expected = random_step(&mut plain, t).unwrap();
                let got = random_step(&mut sharded, t).unwrap();
                assert_eq!(got.obs, expected.obs);
                assert_eq!(got.rewards, expected.rewards);
                assert_eq!(sharded.episode_ends(), plain.episode_ends());
            }
            assert_eq!(state(&sharded), state(&plain));
        }
    }
    let empty_shards = Tiling { shard_size: 0, parallel_from: 1 };
    assert!(VecEnv::with_tiling("CartPole-v1", 1, Seeding::Run(0), Precision::F64, empty_shards).is_err());
}

#[test]
fn an_environment_with_its_own_seed_does_not_depend_on_its_index() {
    let build =
        |seeds: &[u64]| VecEnv::new("CartPole-v1", seeds.len(), Seeding::PerEnv(seeds.to_vec())).unwrap();
    assert_eq!(state(&build(&[7, 9]))[4..], state(&build(&[9]))[..]);
    assert_ne!(state(&build(&[7])), state(&build(&[9])));
}

#[test]
fn a_restored_snapshot_continues_bit_for_bit_under_any_seed() {
    for id in registry::ids() {
        let mut envs = make_envs(id, 6);
        for t in 0..77 {
            random_step(&mut envs, t).unwrap();
        }
        let saved = envs.snapshot().unwrap();
        let mut other = VecEnv::new(id, 6, Seeding::Run(999)).unwrap();
        other.restore(&saved).unwrap();
        assert_eq!(other.snapshot().unwrap(), saved);
        for t in 77..400 {
            let batch = actions(&envs, t);
            let left = step(&mut envs, batch.view()).unwrap();
            let right = step(&mut other, batch.view()).unwrap();
            assert_eq!((left.obs, left.rewards), (right.obs, right.rewards));
        }
        assert_eq!(envs.snapshot().unwrap(), other.snapshot().unwrap());
    }
}

#[test]
fn reset_all_starts_new_episodes_from_the_same_streams() {
    let (mut left, mut right) = (make_envs("Pendulum-v1", 4), make_envs("Pendulum-v1", 4));
    let first = state(&left);
    left.reset_all().unwrap();
    right.reset_all().unwrap();
    assert_ne!(state(&left), first);
    assert_eq!(state(&left), state(&right));
}

#[test]
fn start_states_lie_in_gymnasiums_ranges() {
    let cartpole = state(&make_envs("CartPole-v1", 5_000));
    assert!(cartpole.iter().all(|x| (-0.05..0.05).contains(x)));
    assert!(cartpole.iter().any(|x| *x > 0.049) && cartpole.iter().any(|x| *x < -0.049));
    let pendulum = state(&make_envs("Pendulum-v1", 5_000));
    assert!(pendulum.chunks(2).all(|s| s[0].abs() <= std::f64::consts::PI && s[1].abs() <= 1.0));
    assert!(pendulum.chunks(2).any(|s| s[0] > 3.1) && pendulum.chunks(2).any(|s| s[1] < -0.99));
}

#[test]
fn bad_actions_are_refused_before_anything_is_stepped() {
    let mut cartpole = make_envs("CartPole-v1", 3);
    let mut pendulum = make_envs("Pendulum-v1", 2);
    let before = (cartpole.snapshot().unwrap(), pendulum.snapshot().unwrap());
    for (bad, message) in [
        (Actions::Discrete(&[0, 1]), "actions has 2 elements, expected 3 (one per env)"),
        (Actions::Discrete(&[0, 2, 0]), "action of env 1 is 2, expected an integer from 0 to 1"),
        (Actions::Discrete(&[0, 0, -1]), "action of env 2 is -1, expected an integer from 0 to 1"),
        (Actions::Box(&[0.0; 3]), "actions is floats, expected integers in 0..2"),
    ] {
        assert_eq!(step(&mut cartpole, bad).err().unwrap().to_string(), message);
    }
    for (bad, name) in [(&[0.0, f32::NAN][..], "NonFinite"), (&[f32::INFINITY, 0.0], "NonFinite")] {
        let error = step(&mut pendulum, Actions::Box(bad)).err().unwrap();
        assert!(format!("{error:?}").starts_with(name));
    }
    assert!(step(&mut pendulum, Actions::Discrete(&[0, 0])).is_err());
    assert_eq!((cartpole.snapshot().unwrap(), pendulum.snapshot().unwrap()), before);
}

#[test]
fn outputs_of_the_wrong_length_are_named() {
    let mut envs = make_envs("CartPole-v1", 2);
    let (mut obs, mut rewards, mut flags, mut short) = ([0.0; 8], [0.0; 2], [false; 2], [false; 1]);
    let out = StepOut { obs: &mut obs, rewards: &mut rewards, terminated: &mut flags, truncated: &mut short };
    let error = envs.step_into(Actions::Discrete(&[0, 0]), out).unwrap_err();
    assert_eq!(error.to_string(), "truncated has 1 elements, expected 2 (n_envs)");
    assert!(envs.observe_into(&mut [0.0; 7]).is_err());
    assert!(envs.get_state(&mut [0.0; 7]).is_err());
}

#[test]
fn states_and_snapshots_that_do_not_fit_change_nothing() {
    let mut envs = make_envs("CartPole-v1", 2);
    let before = envs.snapshot().unwrap();
    assert!(matches!(envs.set_state(&[0.0; 7], None), Err(Error::Shape { .. })));
    assert!(matches!(envs.set_state(&[f64::NAN; 8], None), Err(Error::NonFinite { .. })));
    assert!(matches!(envs.set_state(&[0.0; 8], Some(&[0])), Err(Error::Shape { .. })));
    assert!(matches!(envs.set_state(&[0.0; 8], Some(&[0, 500])), Err(Error::Config { .. })));
    let pendulum_snapshot = make_envs("Pendulum-v1", 2).snapshot().unwrap();
    assert!(matches!(envs.restore(&pendulum_snapshot), Err(Error::Snapshot { .. })));
    let mut short = before.clone();
    short.positions.pop();
    assert!(matches!(envs.restore(&short), Err(Error::Shape { .. })));
    assert_eq!(envs.snapshot().unwrap(), before);
}

#[test]
fn set_state_keeps_step_counts_unless_told_otherwise() {
    let mut envs = make_envs("Pendulum-v1", 1);
    step(&mut envs, Actions::Box(&[0.0])).unwrap();
    envs.set_state(&[1.0, 2.0], None).unwrap();
    assert_eq!((state(&envs), envs.snapshot().unwrap().elapsed), (vec![1.0, 2.0], vec![1]));
    envs.set_state(&[1.0, 2.0], Some(&[42])).unwrap();
    assert_eq!(envs.snapshot().unwrap().elapsed, [42]);
}

#[test]
fn a_batch_needs_a_known_id_and_a_sensible_size() {
    assert!(matches!(VecEnv::new("CartPole", 1, Seeding::Run(0)), Err(Error::UnknownName { .. })));
    for n in [0, usize::MAX] {
        assert!(matches!(VecEnv::new("CartPole-v1", n, Seeding::Run(0)), Err(Error::Config { .. })));
    }
    let seeds = Seeding::PerEnv(vec![1, 2]);
    assert!(matches!(VecEnv::new("CartPole-v1", 3, seeds), Err(Error::Shape { .. })));
}
