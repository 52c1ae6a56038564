//! Returns and lengths of running episodes.

/// A finished episode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Episode {
    /// Index of the environment.
    pub env: usize,
    /// Sum of the rewards.
    pub total: f64,
    /// Number of steps.
    pub steps: u64,
}

/// What rollouts depend on besides the environments and the policy: the number of earlier rollouts,
/// and the running episode of each environment.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RolloutProgress {
    /// Number of rollouts so far, including interrupted ones.
    pub rollouts: u64,
    /// Sum of rewards so far, `[n_envs]`.
    pub totals: Vec<f64>,
    /// Steps so far, `[n_envs]`.
    pub steps: Vec<u64>,
}

impl RolloutProgress {
    pub(super) fn new(n_envs: usize) -> Self {
        Self { rollouts: 0, totals: vec![0.0; n_envs], steps: vec![0; n_envs] }
    }

    /// Returns the running episodes.
    pub(super) fn running(&mut self) -> RunningEpisodes<'_> {
        RunningEpisodes { totals: &mut self.totals, steps: &mut self.steps }
    }
}

/// The running episode of each environment.
#[derive(Debug)]
pub struct RunningEpisodes<'a> {
    /// Sum of rewards so far, `[n_envs]`.
    pub totals: &'a mut [f64],
    /// Steps so far, `[n_envs]`.
    pub steps: &'a mut [u64],
}

impl RunningEpisodes<'_> {
    /// Adds one step of every environment.
    pub(super) fn add(&mut self, rewards: &[f64]) {
        for ((total, steps), reward) in self.totals.iter_mut().zip(self.steps.iter_mut()).zip(rewards) {
            *total += reward;
            *steps += 1;
        }
    }

    /// Appends the running episodes of `envs`, which ended with the last step, to `episodes`, and
    /// begins new ones.
    pub(super) fn finish(&mut self, envs: &[usize], episodes: &mut Vec<Episode>) {
        for &env in envs {
            if let (Some(total), Some(steps)) = (self.totals.get_mut(env), self.steps.get_mut(env)) {
                episodes.push(Episode { env, total: *total, steps: *steps });
                (*total, *steps) = (0.0, 0);
            }
        }
    }
}
