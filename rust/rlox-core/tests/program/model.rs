//! A model of a replay buffer: a list of every pushed row, of which the newest are stored.

use super::adapter::{Obs, Seen, Step};

/// A row that was pushed.
#[derive(Debug, Clone)]
struct Known {
    step: Step,
    /// Number of the next observation; None while it is unknown.
    next: Option<u8>,
    reward: f64,
    /// Whether an episode begins with this row.
    first: bool,
}

/// The rows of each environment, oldest first.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    columns: Vec<Obs>,
    each: usize,
    rows: Vec<Vec<Known>>,
    /// For each environment, the number of rows that were cleared.
    floors: Vec<usize>,
    begins: Vec<bool>,
}

impl Model {
    pub(crate) fn new(columns: &[Obs], capacity: usize, n_envs: usize) -> Self {
        Self {
            columns: columns.to_vec(),
            each: capacity / n_envs,
            rows: vec![Vec::new(); n_envs],
            floors: vec![0; n_envs],
            begins: vec![true; n_envs],
        }
    }

    pub(crate) fn push(&mut self, env: usize, step: &Step, with_next: bool) {
        let ended = step.terminated || step.truncated;
        let rows = &mut self.rows[env];
        if let Some(newest) = rows.last_mut() {
            newest.next.get_or_insert(step.obs);
        }
        let next = if with_next { Some(step.next) } else { ended.then_some(step.obs) };
        let reward = f64::from(step.number);
        rows.push(Known { step: step.clone(), next, reward, first: self.begins[env] });
        self.begins[env] = ended;
    }

    pub(crate) fn cut(&mut self, env: usize) {
        if let Some(newest) = self.rows[env].last_mut() {
            newest.next.get_or_insert(newest.step.obs);
        }
        self.begins[env] = true;
    }

    pub(crate) fn clear(&mut self) {
        for env in 0..self.rows.len() {
            self.cut(env);
            self.floors[env] = self.rows[env].len();
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

    fn start(&self, env: usize) -> usize {
        self.floors[env].max(self.rows[env].len().saturating_sub(self.each))
    }

    pub(crate) fn held(&self) -> Vec<u64> {
        let n = self.rows.len();
        let each = |env: usize| (self.start(env)..self.rows[env].len()).map(move |t| t * n + env);
        (0..n).flat_map(each).map(|index| index as u64).collect()
    }

    /// Returns a bound above all used indices and some unused ones.
    pub(crate) fn beyond(&self) -> u64 {
        let longest = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        (self.rows.len() * (longest + 2)) as u64
    }

    fn find(&self, index: u64) -> Option<(usize, usize)> {
        let index = usize::try_from(index).unwrap();
        let (env, t) = (index % self.rows.len(), index / self.rows.len());
        (self.start(env)..self.rows[env].len()).contains(&t).then_some((env, t))
    }

    fn bytes(&self, k: u8) -> Vec<Vec<u8>> {
        self.columns.iter().map(|column| column.bytes(k)).collect()
    }

    /// Returns a row by its index, or None if it is not stored.
    pub(crate) fn row(&self, index: u64) -> Option<Seen> {
        let (env, t) = self.find(index)?;
        let known = &self.rows[env][t];
        Some(Seen {
            index,
            obs: self.bytes(known.step.obs),
            next: self.bytes(known.next.unwrap_or(known.step.obs)),
            action: f32::from(known.step.number),
            reward: known.reward,
            flags: (known.step.terminated, known.step.truncated),
        })
    }

    /// Returns the indices of the first and the last stored row in the episode of a row.
    pub(crate) fn episode(&self, index: u64) -> (u64, u64) {
        let (env, t) = self.find(index).unwrap();
        let rows = &self.rows[env];
        let first = (self.start(env)..=t).rev().find(|&k| rows[k].first).unwrap_or(self.start(env));
        let last = (t + 1..rows.len()).find(|&k| rows[k].first).unwrap_or(rows.len()) - 1;
        let n = self.rows.len();
        ((first * n + env) as u64, (last * n + env) as u64)
    }

    /// Computes the window of `n` steps from a row on, and its discount, by the definition.
    pub(crate) fn window(&self, index: u64, n: usize, gamma: f64) -> (Seen, f64) {
        let mut window = self.row(index).unwrap();
        let (_, last) = self.episode(index);
        let (mut total, mut factor, mut at) = (0.0, 1.0, index);
        for _ in 0..n {
            let row = self.row(at).unwrap();
            total += factor * row.reward;
            factor *= gamma;
            (window.next, window.flags) = (row.next, row.flags);
            if at == last {
                break;
            }
            at += self.rows.len() as u64;
        }
        window.reward = total;
        let discount = if window.flags.0 { 0.0 } else { factor };
        (window, discount)
    }
}
