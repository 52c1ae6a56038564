//! Collects transitions of environments for a replay buffer.

use super::columns::{Ended, Final, of_step, row, row_mut, single};
use super::episodes::Running;
use zerocopy::IntoBytes;

use crate::buffer::{Buffer, EnvIndex, Sampler, Transitions};
use crate::env::StepOut;
use crate::env::vector_env::VectorEnv;
use crate::error::{Error, Result, check_len};
use crate::interrupt;
use crate::policy::ActionsMut;

/// Chooses the actions of a chunk of steps.
pub trait Explore {
    /// Writes the actions of step `t` of the chunk for `obs`, `[N, obs_dim]`. If `actions` holds
    /// actions already, this method may leave them unchanged.
    ///
    /// # Errors
    /// If slices do not fit, or the explorer does not choose actions of this kind.
    fn act(&mut self, t: usize, obs: &[f32], actions: ActionsMut<'_>) -> Result<()>;
}

/// The columns of T steps of N environments, time-major.
pub struct Stretch<'a> {
    /// o_t, `[T + 1, N, obs_dim]`; row 0 has the present observations of the environments.
    pub obs: &'a mut [f32],
    /// Observation after step t, `[T, N, obs_dim]`; the last one of an episode that the step ended.
    pub next_obs: &'a mut [f32],
    /// a_t, `[T, N]` or `[T, N, action_dim]`.
    pub actions: ActionsMut<'a>,
    /// r_t, `[T, N]`.
    pub rewards: &'a mut [f64],
    /// Whether s_{t+1} is terminal, `[T, N]`.
    pub terminated: &'a mut [bool],
    /// Whether the time limit was reached, `[T, N]`.
    pub truncated: &'a mut [bool],
}

/// Bounds of Box actions, `[action_dim]` each. Actions in [-1, 1] are scaled to these bounds.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'a> {
    /// The value of -1.
    pub low: &'a [f32],
    /// The value of 1.
    pub high: &'a [f32],
}

impl Bounds<'_> {
    /// Scales `actions` `[n, action_dim]` from [-1, 1] to the bounds.
    fn stretch(&self, actions: &[f32], out: &mut Vec<f32>) {
        out.clear();
        for row in actions.chunks_exact(self.low.len().max(1)) {
            out.extend(row.iter().zip(self.low).zip(self.high).map(|((&action, &low), &high)| {
                (low + 0.5 * (action + 1.0) * (high - low)).max(low).min(high)
            }));
        }
    }
}

impl Stretch<'_> {
    /// Collects T steps of every environment. Row 0 of the observations must be filled. The
    /// explorer chooses the actions. If `bounds` is present, it scales them for the environments.
    ///
    /// # Errors
    /// [`Error::Shape`] for columns that do not fit; [`Error::Interrupted`]; errors of environments
    /// and explorer. The environments then keep the state that they have reached.
    pub fn collect(
        &mut self,
        envs: &mut dyn VectorEnv,
        explorer: &mut dyn Explore,
        bounds: Option<Bounds<'_>>,
        running: &mut Running<'_>,
    ) -> Result<Ended> {
        let of = self.fit(envs, bounds, running)?;
        let (mut ended, mut given) = (Ended::default(), Vec::new());
        for t in 0..self.rewards.len() / of.n {
            interrupt::check()?;
            self.step(envs, explorer, (bounds, &mut given), (t, of))?;
            running.add(row(self.rewards, t, of.n));
            let over = envs.finals();
            running.finish(over.indices, &mut ended.episodes);
            ended.finals.extend(over.indices.iter().map(|&env| Final { step: t, env }));
            ended.obs.extend_from_slice(over.obs);
        }
        Ok(ended)
    }

    /// Checks that all numbers are finite.
    ///
    /// # Errors
    /// [`Error::NonFinite`] with the name of the column.
    pub fn check_finite(&self) -> Result<()> {
        let seen = self.obs.len().min(self.next_obs.len());
        finite("obs", self.obs.get(..seen).unwrap_or_default(), f64::from)?;
        finite("next_obs", self.next_obs, f64::from)?;
        finite("rewards", self.rewards, |reward| reward)?;
        match &self.actions {
            ActionsMut::Discrete(_) => Ok(()),
            ActionsMut::Box(actions) => finite("actions", actions, f64::from),
        }
    }

    /// Stores the transitions of the `n` environments.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the buffer has the columns of these actions and of float32
    /// observations and rewards; the errors of [`Buffer::push`].
    pub fn store<S: Sampler + ?Sized>(&self, n: usize, buffer: &mut Buffer<S>) -> Result<()> {
        let rows = self.rewards.len();
        let seen = self.obs.len().min(self.next_obs.len());
        let rewards: Vec<f32> = self.rewards.iter().map(|&reward| single(reward)).collect();
        let actions = match &self.actions {
            ActionsMut::Discrete(actions) => actions.as_bytes(),
            ActionsMut::Box(actions) => actions.as_bytes(),
        };
        let whose: Vec<usize> = (0..if n > 1 { rows } else { 0 }).map(|row| row % n).collect();
        let transitions = Transitions {
            n: rows,
            obs: &[self.obs.get(..seen).unwrap_or_default().as_bytes()],
            next_obs: Some(&[self.next_obs.as_bytes()]),
            columns: &[actions, rewards.as_bytes()],
            terminated: self.terminated.as_bytes(),
            truncated: self.truncated.as_bytes(),
        };
        let to = if n > 1 { EnvIndex::Ids(&whose) } else { EnvIndex::One(0) };
        buffer.push(to, transitions, None)
    }

    /// Takes one step and writes its results.
    fn step(
        &mut self,
        envs: &mut dyn VectorEnv,
        explorer: &mut dyn Explore,
        (bounds, given): (Option<Bounds<'_>>, &mut Vec<f32>),
        (t, of): (usize, Sizes),
    ) -> Result<()> {
        let width = of.n * of.obs_dim;
        let (before, after) = self.obs.split_at_mut((t + 1) * width);
        explorer.act(t, row(before, t, width), of_step(&mut self.actions, t, of.actions))?;
        let mut actions = of_step(&mut self.actions, t, of.actions);
        if let (ActionsMut::Box(own), Some(bounds)) = (&mut actions, bounds) {
            bounds.stretch(own, given);
            actions = ActionsMut::Box(given);
        }
        let out = StepOut {
            obs: row_mut(after, 0, width),
            rewards: row_mut(self.rewards, t, of.n),
            terminated: row_mut(self.terminated, t, of.n),
            truncated: row_mut(self.truncated, t, of.n),
        };
        envs.step(actions.view(), out)?;
        let next = row_mut(self.next_obs, t, width);
        next.copy_from_slice(row(after, 0, width));
        let over = envs.finals();
        for (&env, last) in over.indices.iter().zip(over.obs.chunks_exact(of.obs_dim.max(1))) {
            row_mut(next, env, of.obs_dim).copy_from_slice(last);
        }
        Ok(())
    }

    /// Returns the sizes of steps of `envs`, after checking all columns against them.
    fn fit(
        &self,
        envs: &dyn VectorEnv,
        bounds: Option<Bounds<'_>>,
        running: &Running<'_>,
    ) -> Result<Sizes> {
        let (n, spec) = (envs.n_envs(), envs.spec());
        let (obs_dim, action_dim) = (spec.observation.dim(), spec.action.dim());
        let rows = self.rewards.len() / n.max(1) * n;
        let actions = match &self.actions {
            ActionsMut::Discrete(actions) => actions.len(),
            ActionsMut::Box(actions) => actions.len(),
        };
        let bounds = bounds.map_or([action_dim; 2], |bounds| [bounds.low.len(), bounds.high.len()]);
        for (name, len, expected) in [
            ("rewards", self.rewards.len(), rows),
            ("obs", self.obs.len(), (rows + n) * obs_dim),
            ("next_obs", self.next_obs.len(), rows * obs_dim),
            ("actions", actions, rows * action_dim),
            ("terminated", self.terminated.len(), rows),
            ("truncated", self.truncated.len(), rows),
            ("totals", running.totals.len(), n),
            ("steps", running.steps.len(), n),
            ("low", bounds[0], action_dim),
            ("high", bounds[1], action_dim),
        ] {
            check_len(name, len, expected, "as steps of these environments have")?;
        }
        if rows == 0 {
            return Err(Error::config("steps of a stretch", 0, "at least 1"));
        }
        Ok(Sizes { n, obs_dim, actions: n * action_dim })
    }
}

fn finite<T: Copy>(name: &str, column: &[T], wide: impl Fn(T) -> f64) -> Result<()> {
    if column.iter().fold(true, |all, &value| all & wide(value).is_finite()) {
        return Ok(());
    }
    let mut values = column.iter().map(|&value| wide(value)).enumerate();
    let found = values.find(|(_, value)| !value.is_finite());
    found.map_or(Ok(()), |(index, value)| {
        Err(Error::NonFinite { name: name.to_owned().into(), index, value })
    })
}

#[derive(Debug, Clone, Copy)]
struct Sizes {
    n: usize,
    obs_dim: usize,
    /// Numbers in the actions of one step of all environments.
    actions: usize,
}
