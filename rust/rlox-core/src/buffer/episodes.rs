//! The episodes of a dataset and their returns.

/// One episode of a dataset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Episode {
    /// Index of its first row.
    pub start: usize,
    /// Number of rows.
    pub len: usize,
    /// Undiscounted sum of its rewards.
    pub total_reward: f64,
    /// False if no row ends the episode, which is possible only for a dataset's last episode.
    pub is_complete: bool,
}

/// Statistics over the episodes of a dataset.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ReturnStats {
    /// Number of transitions.
    pub n_transitions: usize,
    /// Number of episodes, including the incomplete one at the end.
    pub n_episodes: usize,
    /// Number of episodes that were terminated or truncated.
    pub n_complete: usize,
    /// Mean undiscounted return.
    pub mean_return: f64,
    /// Population standard deviation of the returns.
    pub std_return: f64,
    /// Smallest return.
    pub min_return: f64,
    /// Largest return.
    pub max_return: f64,
    /// Mean number of transitions of an episode.
    pub mean_length: f64,
}

impl ReturnStats {
    #[expect(clippy::cast_precision_loss, reason = "counts of rows")]
    pub(super) fn from_episodes(episodes: &[Episode]) -> Self {
        let n = episodes.len().max(1) as f64;
        let n_transitions = episodes.iter().map(|episode| episode.len).sum();
        let returns = || episodes.iter().map(|episode| episode.total_reward);
        let mean = returns().sum::<f64>() / n;
        Self {
            n_transitions,
            n_episodes: episodes.len(),
            n_complete: episodes.iter().filter(|episode| episode.is_complete).count(),
            mean_return: mean,
            std_return: (returns().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt(),
            min_return: returns().fold(f64::INFINITY, f64::min),
            max_return: returns().fold(f64::NEG_INFINITY, f64::max),
            mean_length: n_transitions as f64 / n,
        }
    }
}

/// Returns the episodes, and for each row the sum of the rewards from it to the end of its episode.
pub(super) fn split_episodes(rewards: &[f64], episode_ends: &[bool]) -> (Vec<Episode>, Vec<f64>) {
    let mut sums = vec![0.0; rewards.len()];
    let mut episodes: Vec<Episode> = Vec::new();
    let mut current: Option<Episode> = None;
    for (start, ((&reward, sum), &end)) in rewards.iter().zip(&mut sums).zip(episode_ends).enumerate().rev() {
        if end && let Some(whole_episode) = current.take() {
            episodes.push(whole_episode);
        }
        let (len, total, complete) =
            current.map_or((0, 0.0, end), |episode| (episode.len, episode.total_reward, episode.is_complete));
        *sum = reward + total;
        current = Some(Episode { start, len: len + 1, total_reward: *sum, is_complete: complete });
    }
    episodes.extend(current);
    episodes.reverse();
    (episodes, sums)
}
