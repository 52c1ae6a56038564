//! Tests rollouts of the examples' linear policy and of scripted environments. Compares advantages with
//! their definition, and episodes and their ends with the environment's records. Tests noise, resuming,
//! refused arguments, and that the bits are the same on any number of threads.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]

#[path = "../examples/linear/mod.rs"]
mod linear;

use std::sync::atomic::{AtomicUsize, Ordering};

use rlox_core::advantage::Discount;
use rlox_core::env::{Actions, EpisodeEnds, Precision, Seeding, StepOut, Tiling, VecEnv};
use rlox_core::interrupt::interruptible;
use rlox_core::policy::{ActionsMut, Noise, Policy, PolicyInput, PolicyOutput};
use rlox_core::rollout::{ActionColumn, Arena};
use rlox_core::seed::Stream;
use rlox_core::space::{ActionSpace, BoxSpace};
use rlox_core::{EnvSpec, Error, Result, VectorEnv, threads};

/// A vector environment whose observation counts the steps of an episode from 0, in units of 2^-10.
///
/// Episodes terminate, are truncated or both at random, and rewards are random. The environment
/// records everything that it returns.
struct ScriptedEnv {
    spec: EnvSpec,
    stream: Stream,
    /// Observation of each environment.
    current_obs: Vec<f32>,
    ended_episodes: (Vec<usize>, Vec<f32>),
    records: Vec<StepRecord>,
    fail_after: usize,
}

/// Rewards, terminated, truncated, and observations before resets, each `[n]`.
type StepRecord = (Vec<f64>, Vec<bool>, Vec<bool>, Vec<f32>);

const TICK: f32 = 1.0 / 1024.0;

impl ScriptedEnv {
    fn new(n: usize, seed: u64) -> Self {
        let observation = BoxSpace { low: vec![0.0], high: vec![1.0] };
        let action = ActionSpace::Discrete { n: 3 };
        let id = "Scripted".to_owned();
        Self {
            spec: EnvSpec { id, max_episode_steps: None, observation, action },
            stream: Stream::new(seed, "script", 0),
            current_obs: vec![0.0; n],
            ended_episodes: (Vec::new(), Vec::new()),
            records: Vec::new(),
            fail_after: usize::MAX,
        }
    }
}

impl VectorEnv for ScriptedEnv {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn n_envs(&self) -> usize {
        self.current_obs.len()
    }

    fn reset(&mut self, obs: &mut [f32]) -> Result<()> {
        self.current_obs.fill(0.0);
        self.observe(obs)
    }

    fn step(&mut self, actions: Actions<'_>, out: StepOut<'_>) -> Result<()> {
        if self.records.len() == self.fail_after {
            return Err(Error::config("this environment", "tired", "another day"));
        }
        assert!(actions.discrete().iter().all(|action| (0..3).contains(action)));
        self.ended_episodes = (Vec::new(), Vec::new());
        let mut reached = Vec::new();
        for env in 0..self.current_obs.len() {
            self.current_obs[env] += TICK;
            reached.push(self.current_obs[env]);
            out.rewards[env] = self.stream.uniform_in(-1.0, 1.0);
            out.terminated[env] = self.stream.uniform() < 0.1;
            out.truncated[env] = self.stream.uniform() < 0.1;
            if out.terminated[env] || out.truncated[env] {
                self.ended_episodes.0.push(env);
                self.ended_episodes.1.push(self.current_obs[env]);
                self.current_obs[env] = 0.0;
            }
        }
        let flags = (out.terminated.to_vec(), out.truncated.to_vec());
        self.records.push((out.rewards.to_vec(), flags.0, flags.1, reached));
        self.observe(out.obs)
    }

    fn episode_ends(&self) -> EpisodeEnds<'_> {
        EpisodeEnds { indices: &self.ended_episodes.0, obs: &self.ended_episodes.1 }
    }

    fn observe(&self, obs: &mut [f32]) -> Result<()> {
        obs.copy_from_slice(&self.current_obs);
        Ok(())
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Err(Error::snapshot("environment", "Scripted", "one that can be saved"))
    }

    fn restore(&mut self, _snapshot: &[u8]) -> Result<()> {
        Err(Error::snapshot("environment", "Scripted", "one that can be saved"))
    }
}

/// A policy with V(o) = 100 o + 1, so that no two observations have the same value.
struct LinearValuePolicy;

fn linear_value(obs: f32) -> f64 {
    100.0 * f64::from(obs) + 1.0
}

impl Policy for LinearValuePolicy {
    fn noise(&self) -> Noise {
        Noise::Uniform(2)
    }

    fn act(&self, input: PolicyInput<'_>, out: PolicyOutput<'_>) -> Result<()> {
        let ActionsMut::Discrete(actions) = out.actions else {
            return Err(Error::config("actions", "numbers", "integers"));
        };
        for (action, noise) in actions.iter_mut().zip(input.noise.chunks(2)) {
            assert!(noise.iter().all(|number| (0.0..1.0).contains(number)));
            *action = i64::from(noise[0] > 0.3) + i64::from(noise[1] > 0.5);
        }
        out.log_probs.copy_from_slice(input.obs);
        self.values(input.obs, out.values)
    }

    #[expect(clippy::cast_possible_truncation, reason = "values are float32")]
    fn values(&self, obs: &[f32], out: &mut [f32]) -> Result<()> {
        for (obs, out) in obs.iter().zip(out) {
            *out = linear_value(*obs) as f32;
        }
        Ok(())
    }
}

fn discount() -> Discount {
    Discount::new(0.97, 0.9).unwrap()
}

/// Computes the advantage of step t as a sum over every later step of the same episode: O(T^2).
fn reference_advantage(records: &[StepRecord], env: usize, t: usize, last_obs: f32) -> f64 {
    let (mut total, mut weight) = (0.0, 1.0);
    let obs_before = |s: usize| {
        let before = s.checked_sub(1).map(|s| &records[s]);
        before.map_or(0.0, |(_, end, cut, reached)| if end[env] || cut[env] { 0.0 } else { reached[env] })
    };
    for s in t..records.len() {
        let (rewards, terminated, truncated, reached) = &records[s];
        let is_end = terminated[env] || truncated[env];
        let next = if terminated[env] { 0.0 } else { linear_value(reached[env]) };
        if s + 1 == records.len() && !is_end {
            assert_eq!(last_obs, reached[env]);
        }
        total += weight * (rewards[env] + 0.97 * next - linear_value(obs_before(s)));
        if is_end {
            break;
        }
        weight *= 0.97 * 0.9;
    }
    total
}

#[test]
fn advantages_equal_the_quadratic_definition_over_random_ends() {
    for (seed, n) in (0..12).zip((1..=5).cycle()) {
        let steps = 40;
        let mut envs = ScriptedEnv::new(n, seed);
        let mut arena = Arena::new(&envs.spec, steps, n).unwrap();
        for rollout in 0..3 {
            arena.collect(&mut envs, &LinearValuePolicy, 7, discount()).unwrap();
            let records = &envs.records[rollout * steps..];
            // The definition assumes that episodes begin at row 0. This holds only in the first rollout,
            // so later advantages are not compared.
            for env in 0..n {
                for t in 0..steps {
                    let flat_index = t * n + env;
                    let value = f64::from(arena.values()[flat_index]);
                    assert!((value - linear_value(arena.obs()[flat_index])).abs() < 1e-4);
                    if rollout == 0 {
                        let expected = reference_advantage(records, env, t, arena.obs()[steps * n + env]);
                        let got = f64::from(arena.advantages()[flat_index]);
                        assert!((got - expected).abs() < 1e-3, "step {t} of env {env}: {got}, {expected}");
                        let target = f64::from(arena.returns()[flat_index]);
                        assert!((target - got - value).abs() < 1e-4);
                    }
                }
            }
            assert_eq!(arena.obs()[steps * n..], envs.current_obs);
        }
    }
}

#[test]
fn every_episode_end_is_listed_with_its_final_observation_and_totals() {
    let (n, steps) = (3, 25);
    let mut envs = ScriptedEnv::new(n, 99);
    let mut arena = Arena::new(&envs.spec, steps, n).unwrap();
    let mut running_episodes = vec![(0.0, 0); n];
    for rollout in 0..4 {
        arena.collect(&mut envs, &LinearValuePolicy, 7, discount()).unwrap();
        let (mut expected_finals, mut episodes) = (Vec::new(), Vec::new());
        for (t, (rewards, terminated, truncated, reached)) in
            envs.records[rollout * steps..].iter().enumerate()
        {
            for env in 0..n {
                running_episodes[env] = (running_episodes[env].0 + rewards[env], running_episodes[env].1 + 1);
                let flat_index = t * n + env;
                assert_eq!(arena.terminated()[flat_index], terminated[env]);
                assert_eq!(arena.truncated()[flat_index], truncated[env]);
                assert!((f64::from(arena.rewards()[flat_index]) - rewards[env]).abs() < 1e-7);
                if terminated[env] || truncated[env] {
                    expected_finals.push((t, env, reached[env]));
                    episodes.push((env, running_episodes[env].0, running_episodes[env].1));
                    running_episodes[env] = (0.0, 0);
                    assert_eq!(arena.obs()[flat_index + n], 0.0, "the next episode's first");
                }
                let next_value = linear_value(reached[env]);
                if !terminated[env] {
                    assert!((f64::from(arena.next_values()[flat_index]) - next_value).abs() < 1e-4);
                }
            }
        }
        let got: Vec<_> = arena.episode_ends().map(|(end, obs)| (end.step, end.env, obs[0])).collect();
        assert_eq!(got, expected_finals);
        let got: Vec<_> =
            arena.episodes().iter().map(|episode| (episode.env, episode.total, episode.steps)).collect();
        assert_eq!(got, episodes);
    }
}

#[test]
fn the_noise_of_a_rollout_is_its_own_stream() {
    let mut envs = ScriptedEnv::new(2, 1);
    let mut arena = Arena::new(&envs.spec, 10, 2).unwrap();
    for rollout in 0..3 {
        arena.collect(&mut envs, &LinearValuePolicy, 42, discount()).unwrap();
        let mut stream = Stream::new(42, "action", rollout);
        let mut draw = |above| i64::from(stream.uniform() > above);
        let expected: Vec<i64> = (0..20).map(|_| draw(0.3) + draw(0.5)).collect();
        assert_eq!(*arena.actions(), ActionColumn::Discrete(expected));
    }
}

/// Returns the bits of the fourth rollout's columns, final observations and actions.
fn rollout_bits(env_id: &str, count: usize) -> Vec<u32> {
    threads::set(Some(count)).unwrap();
    let tiling = Tiling { shard_size: 5, parallel_from: 1 };
    let mut envs = VecEnv::with_tiling(env_id, 64, Seeding::Run(3), Precision::F64, tiling).unwrap();
    let policy = linear::hand_written_policy(VectorEnv::spec(&envs)).unwrap();
    let mut arena = Arena::new(VectorEnv::spec(&envs), 150, 64).unwrap();
    for _ in 0..4 {
        arena.collect(&mut envs, &policy, 3, discount()).unwrap();
    }
    threads::set(None).unwrap();
    assert!(!arena.episodes().is_empty());
    let mut bits: Vec<u32> = Vec::new();
    let columns = [arena.obs(), arena.rewards(), arena.log_probs(), arena.values(), arena.returns()];
    for column in columns.into_iter().chain(arena.episode_ends().map(|(_, obs)| obs)) {
        bits.extend(column.iter().map(|value| value.to_bits()));
    }
    match arena.actions() {
        ActionColumn::Discrete(actions) => {
            bits.extend(actions.iter().map(|&action| u32::try_from(action).unwrap()));
        }
        ActionColumn::Box(actions) => bits.extend(actions.iter().map(|action| action.to_bits())),
    }
    bits
}

#[test]
fn a_rollout_has_the_same_bits_on_1_2_and_7_threads() {
    for env_id in ["CartPole-v1", "Pendulum-v1"] {
        let single_thread_bits = rollout_bits(env_id, 1);
        for count in [2, 7] {
            assert!(rollout_bits(env_id, count) == single_thread_bits, "{env_id} on {count} threads");
        }
    }
}

#[test]
fn a_resumed_arena_goes_on_as_one_that_never_stopped() {
    let make = || VecEnv::new("CartPole-v1", 6, Seeding::Run(5)).unwrap();
    let mut envs = make();
    let policy = linear::Linear::new(VectorEnv::spec(&envs)).unwrap();
    let mut arena = Arena::new(VectorEnv::spec(&envs), 33, 6).unwrap();
    for _ in 0..2 {
        arena.collect(&mut envs, &policy, 11, discount()).unwrap();
    }
    let (saved, progress) = (VectorEnv::snapshot(&envs).unwrap(), arena.progress().clone());
    let (mut resumed_envs, mut resumed_arena) = (make(), Arena::new(VectorEnv::spec(&envs), 33, 6).unwrap());
    VectorEnv::restore(&mut resumed_envs, &saved).unwrap();
    resumed_arena.resume(&resumed_envs, progress).unwrap();
    for _ in 0..3 {
        arena.collect(&mut envs, &policy, 11, discount()).unwrap();
        resumed_arena.collect(&mut resumed_envs, &policy, 11, discount()).unwrap();
        assert_eq!(arena.obs(), resumed_arena.obs());
        assert_eq!(arena.advantages(), resumed_arena.advantages());
        assert_eq!(arena.episodes(), resumed_arena.episodes());
    }
    let small_progress = Arena::new(VectorEnv::spec(&envs), 1, 2).unwrap().progress().clone();
    assert!(matches!(resumed_arena.resume(&resumed_envs, small_progress), Err(Error::Shape { .. })));
}

#[test]
fn the_policy_by_hand_balances_a_pole_and_a_policy_of_zeros_does_not() {
    let mean_return = |is_by_hand: bool| {
        let mut envs = VecEnv::new("CartPole-v1", 16, Seeding::Run(1)).unwrap();
        let spec = VectorEnv::spec(&envs).clone();
        let policy = if is_by_hand { linear::hand_written_policy(&spec) } else { linear::Linear::new(&spec) };
        let mut arena = Arena::new(&spec, 1_500, 16).unwrap();
        arena.collect(&mut envs, &policy.unwrap(), 1, discount()).unwrap();
        let totals: Vec<f64> = arena.episodes().iter().map(|episode| episode.total).collect();
        #[expect(clippy::cast_precision_loss, reason = "a small count")]
        let count = totals.len() as f64;
        totals.iter().sum::<f64>() / count
    };
    assert!(mean_return(true) > 300.0 && mean_return(false) < 40.0);
}

#[test]
fn after_an_interrupted_rollout_arena_and_environments_still_agree() {
    static N_CHECKS: AtomicUsize = AtomicUsize::new(0);
    let mut envs = ScriptedEnv::new(2, 8);
    let mut arena = Arena::new(&envs.spec, 20, 2).unwrap();
    envs.fail_after = 7;
    let message = arena.collect(&mut envs, &LinearValuePolicy, 1, discount()).unwrap_err().to_string();
    assert_eq!(message, "this environment is tired, expected another day");
    envs.fail_after = usize::MAX;
    let obs_at_error = envs.current_obs.clone();
    arena.collect(&mut envs, &LinearValuePolicy, 1, discount()).unwrap();
    assert_eq!(arena.obs()[..2], obs_at_error, "the next rollout begins where that one stopped");
    assert_eq!(arena.progress().rollouts, 2);

    let result = interruptible(
        || N_CHECKS.fetch_add(1, Ordering::Relaxed) > 0,
        || (0..100_000).try_for_each(|_| arena.collect(&mut envs, &LinearValuePolicy, 1, discount())),
    );
    assert_eq!(result, Err(Error::Interrupted));
    let obs_at_interrupt = envs.current_obs.clone();
    arena.collect(&mut envs, &LinearValuePolicy, 1, discount()).unwrap();
    assert_eq!(arena.obs()[..2], obs_at_interrupt);
}

/// A policy whose value is NaN for the observation 2^-10, one step into an episode.
struct NanValuePolicy;

impl Policy for NanValuePolicy {
    fn noise(&self) -> Noise {
        Noise::Uniform(2)
    }

    fn act(&self, input: PolicyInput<'_>, out: PolicyOutput<'_>) -> Result<()> {
        LinearValuePolicy.act(PolicyInput { ..input }, PolicyOutput { ..out })
    }

    fn values(&self, obs: &[f32], out: &mut [f32]) -> Result<()> {
        LinearValuePolicy.values(obs, out)?;
        for (obs, out) in obs.iter().zip(out) {
            if *obs == TICK {
                *out = f32::NAN;
            }
        }
        Ok(())
    }
}

#[test]
fn what_does_not_fit_or_is_not_finite_is_named() {
    let envs = ScriptedEnv::new(2, 8);
    for (steps, n) in [(0, 2), (3, 0), (usize::MAX, 2), (1 << 40, 1 << 30)] {
        assert!(matches!(Arena::new(&envs.spec, steps, n), Err(Error::Config { .. })));
    }
    let mut arena = Arena::new(&envs.spec, 20, 2).unwrap();
    let message = arena.collect(&mut ScriptedEnv::new(3, 8), &LinearValuePolicy, 1, discount()).unwrap_err();
    assert_eq!(
        message.to_string(),
        "(n_envs, obs_dim, action_dim) is (3, 1, 1) for Scripted, expected (2, 1, 1) as in the arena"
    );
    let mut arena = Arena::new(&envs.spec, 1, 2).unwrap();
    let message = arena.collect(&mut ScriptedEnv::new(2, 8), &NanValuePolicy, 1, discount()).unwrap_err();
    assert!(message.to_string().starts_with("values is NaN at flat index"), "{message}");
}
