//! Plays a policy that `rlox export` wrote, without Python.
//!
//! ```sh
//! cargo run --release -p rlox-nn --example play -- FILE                 # plays episodes
//! cargo run --release -p rlox-nn --example play -- FILE --episodes 20 --seed 7
//! cargo run --release -p rlox-nn --example play -- FILE --bench         # the time of one action
//! cargo run --release -p rlox-nn --example play -- FILE --observations  # float32 of stdin
//! ```
#![allow(missing_docs)]

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Instant;

use rlox_core::env::{Seeding, StepOut, VecEnv};
use rlox_core::seed::Stream;
use rlox_core::space::ActionSpace;
use rlox_core::{Error, Result};
use rlox_nn::exported::{Action, Policy};

const USAGE: &str =
    "usage: play FILE [--episodes N] [--seed S] | play FILE --bench | play FILE --observations";

/// The command-line arguments.
struct Arguments {
    file: String,
    mode: Mode,
    episodes: usize,
    seed: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Play,
    Bench,
    Observations,
}

fn parse_arguments(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments { file: words.next()?, mode: Mode::Play, episodes: 10, seed: 0 };
    while let Some(flag) = words.next() {
        match flag.as_str() {
            "--bench" => arguments.mode = Mode::Bench,
            "--observations" => arguments.mode = Mode::Observations,
            "--episodes" => arguments.episodes = words.next()?.parse().ok().filter(|&n| n > 0)?,
            "--seed" => arguments.seed = words.next()?.parse().ok()?,
            _ => return None,
        }
    }
    Some(arguments)
}

/// Prints the mean return of complete episodes in the environment that the policy was trained in.
#[expect(clippy::cast_precision_loss, reason = "some episodes")]
fn play(policy: &mut Policy, arguments: &Arguments) -> Result<()> {
    let mut env = VecEnv::new(policy.env(), 1, Seeding::Run(arguments.seed))?;
    require_same_spaces(policy, &env)?;
    let mut action = policy.action();
    let mut obs = vec![0.0; env.obs_dim()];
    let (mut rewards, mut terminated, mut truncated) = ([0.0], [false], [false]);
    let mut returns = vec![0.0];
    env.observe_into(&mut obs)?;
    while returns.len() <= arguments.episodes {
        policy.act(&obs, &mut action)?;
        let (rewards_out, ends) = (&mut rewards, (&mut terminated, &mut truncated));
        let out = StepOut { obs: &mut obs, rewards: rewards_out, terminated: ends.0, truncated: ends.1 };
        env.step_into(action.view(), out)?;
        if let Some(total) = returns.last_mut() {
            *total += rewards.iter().sum::<f64>();
        }
        if terminated.contains(&true) || truncated.contains(&true) {
            returns.push(0.0);
        }
    }
    let complete_returns = returns.get(..arguments.episodes).unwrap_or_default();
    let mean = complete_returns.iter().sum::<f64>() / complete_returns.len() as f64;
    let (algorithm, id) = (policy.algorithm(), policy.env());
    println!("{algorithm} on {id}: mean return of {} episodes {mean:.1}", complete_returns.len());
    Ok(())
}

/// Refuses an environment whose spaces differ from the policy's: a wrapper of the run may have
/// changed them.
fn require_same_spaces(policy: &Policy, env: &VecEnv) -> Result<()> {
    let spec = env.spec();
    let is_same = match (policy.action(), spec.action) {
        (Action::Discrete(start), ActionSpace::Discrete { .. }) => start == 0,
        (Action::Box(vector), ActionSpace::Box(space)) => vector.len() == space.dim(),
        _ => false,
    };
    if is_same && policy.obs_dim() == env.obs_dim() {
        return Ok(());
    }
    Err(Error::config(
        "the policy",
        format!("of {} numbers and {:?}", policy.obs_dim(), policy.action()),
        format!("one of {} numbers and {:?}, as {} has them", env.obs_dim(), spec.action, spec.id),
    ))
}

/// Prints the median and the 99th percentile of the time of one action; each call is timed
/// separately.
fn bench(policy: &mut Policy) -> Result<()> {
    const CALLS: usize = 200_000;
    let mut obs = vec![0.0; policy.obs_dim() * 64];
    Stream::new(0, "observations", 0).fill_normal(&mut obs);
    let mut action = policy.action();
    let rows = obs.chunks_exact(policy.obs_dim()).cycle().take(CALLS);
    let mut times = Vec::with_capacity(CALLS);
    for obs in rows {
        let start = Instant::now();
        policy.act(black_box(obs), &mut action)?;
        black_box(&action);
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let percentile = |percent: usize| times.get(CALLS * percent / 100).copied().unwrap_or_default();
    println!("one action: median {:.2?}, 99% within {:.2?}", percentile(50), percentile(99));
    Ok(())
}

/// Reads observations from standard input, little-endian float32, and writes a line for each: the
/// action, then the network's outputs.
fn answer_observations(policy: &mut Policy) -> Result<()> {
    let io_error = |cause: io::Error| Error::config("standard input", cause, "observations");
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).map_err(io_error)?;
    let obs: Vec<f32> = bytes.as_chunks().0.iter().copied().map(f32::from_le_bytes).collect();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut action = policy.action();
    for obs in obs.chunks_exact(policy.obs_dim()) {
        policy.act(obs, &mut action)?;
        let mut line = match &action {
            Action::Discrete(choice) => vec![choice.to_string()],
            Action::Box(vector) => vector.iter().map(f32::to_string).collect(),
        };
        line.extend(policy.outputs(obs)?.iter().map(f32::to_string));
        writeln!(out, "{}", line.join(" ")).map_err(io_error)?;
    }
    out.flush().map_err(io_error)
}

fn run(arguments: &Arguments) -> Result<()> {
    let mut policy = Policy::read(&arguments.file)?;
    match arguments.mode {
        Mode::Play => play(&mut policy, arguments),
        Mode::Bench => bench(&mut policy),
        Mode::Observations => answer_observations(&mut policy),
    }
}

fn main() -> ExitCode {
    let Some(arguments) = parse_arguments(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("play: {error}");
            ExitCode::FAILURE
        }
    }
}
