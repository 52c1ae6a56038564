//! A model of a replay buffer: a list of every pushed row, of which the newest are stored.

use super::adapter::{BatchRow, ObsColumn, Step};

/// A row that was pushed.
#[derive(Debug, Clone)]
struct PushedRow {
    step: Step,
    /// Number of the next observation; None while it is unknown.
    next: Option<u8>,
    reward: f64,
    /// Whether an episode begins with this row.
    is_first: bool,
}

/// The rows of each environment, oldest first.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    columns: Vec<ObsColumn>,
    env_capacity: usize,
    rows: Vec<Vec<PushedRow>>,
    /// For each environment, the number of rows that were cleared.
    n_cleared: Vec<usize>,
    starts_episode: Vec<bool>,
}

impl Model {
    pub(crate) fn new(columns: &[ObsColumn], capacity: usize, n_envs: usize) -> Self {
        Self {
            columns: columns.to_vec(),
            env_capacity: capacity / n_envs,
            rows: vec![Vec::new(); n_envs],
            n_cleared: vec![0; n_envs],
            starts_episode: vec![true; n_envs],
        }
    }

    pub(crate) fn push(&mut self, env: usize, step: &Step, with_next: bool) {
        let is_end = step.terminated || step.truncated;
        let rows = &mut self.rows[env];
        if let Some(newest) = rows.last_mut() {
            newest.next.get_or_insert(step.obs);
        }
        let next = if with_next { Some(step.next) } else { is_end.then_some(step.obs) };
        let reward = f64::from(step.number);
        rows.push(PushedRow { step: step.clone(), next, reward, is_first: self.starts_episode[env] });
        self.starts_episode[env] = is_end;
    }

    pub(crate) fn cut(&mut self, env: usize) {
        if let Some(newest) = self.rows[env].last_mut() {
            newest.next.get_or_insert(newest.step.obs);
        }
        self.starts_episode[env] = true;
    }

    pub(crate) fn clear(&mut self) {
        for env in 0..self.rows.len() {
            self.cut(env);
            self.n_cleared[env] = self.rows[env].len();
        }
    }

    /// Writes a reward. Returns false if the row is not stored.
    pub(crate) fn update(&mut self, index: u64, reward: f64) -> bool {
        let Some((env, t)) = self.find(index) else { return false };
        self.rows[env][t].reward = reward;
        true
    }

    /// Returns whether no row has had this index yet.
    pub(crate) fn is_ahead(&self, index: u64) -> bool {
        let index = usize::try_from(index).unwrap();
        index / self.rows.len() >= self.rows[index % self.rows.len()].len()
    }

    fn first_stored(&self, env: usize) -> usize {
        self.n_cleared[env].max(self.rows[env].len().saturating_sub(self.env_capacity))
    }

    pub(crate) fn held_indices(&self) -> Vec<u64> {
        let n = self.rows.len();
        let env_indices =
            |env: usize| (self.first_stored(env)..self.rows[env].len()).map(move |t| t * n + env);
        (0..n).flat_map(env_indices).map(|index| index as u64).collect()
    }

    /// Returns a bound above all used indices and some unused ones.
    pub(crate) fn index_bound(&self) -> u64 {
        let longest = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        (self.rows.len() * (longest + 2)) as u64
    }

    fn find(&self, index: u64) -> Option<(usize, usize)> {
        let index = usize::try_from(index).unwrap();
        let (env, t) = (index % self.rows.len(), index / self.rows.len());
        (self.first_stored(env)..self.rows[env].len()).contains(&t).then_some((env, t))
    }

    fn bytes(&self, k: u8) -> Vec<Vec<u8>> {
        self.columns.iter().map(|column| column.bytes(k)).collect()
    }

    /// Returns a row by its index, or None if it is not stored.
    pub(crate) fn row(&self, index: u64) -> Option<BatchRow> {
        let (env, t) = self.find(index)?;
        let pushed = &self.rows[env][t];
        Some(BatchRow {
            index,
            obs: self.bytes(pushed.step.obs),
            next: self.bytes(pushed.next.unwrap_or(pushed.step.obs)),
            action: f32::from(pushed.step.number),
            reward: pushed.reward,
            flags: (pushed.step.terminated, pushed.step.truncated),
        })
    }

    /// Returns the indices of the first and the last stored row in the episode of a row.
    pub(crate) fn episode(&self, index: u64) -> (u64, u64) {
        let (env, t) = self.find(index).unwrap();
        let rows = &self.rows[env];
        let first =
            (self.first_stored(env)..=t).rev().find(|&k| rows[k].is_first).unwrap_or(self.first_stored(env));
        let last = (t + 1..rows.len()).find(|&k| rows[k].is_first).unwrap_or(rows.len()) - 1;
        let n = self.rows.len();
        ((first * n + env) as u64, (last * n + env) as u64)
    }

    /// Computes the window of `n` steps from a row on, and its discount, by the definition.
    pub(crate) fn window(&self, index: u64, n: usize, gamma: f64) -> (BatchRow, f64) {
        let mut window = self.row(index).unwrap();
        let (_, last) = self.episode(index);
        let (mut total, mut factor, mut row_index) = (0.0, 1.0, index);
        for _ in 0..n {
            let row = self.row(row_index).unwrap();
            total += factor * row.reward;
            factor *= gamma;
            (window.next, window.flags) = (row.next, row.flags);
            if row_index == last {
                break;
            }
            row_index += self.rows.len() as u64;
        }
        window.reward = total;
        let discount = if window.flags.0 { 0.0 } else { factor };
        (window, discount)
    }
}
