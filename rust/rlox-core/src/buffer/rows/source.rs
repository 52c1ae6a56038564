//! The sources of a buffer: records and queues as rows of bytes, which have numbers and are only
//! appended. A segment has rows of each source.

use std::ops::Range;

use super::memory::MemoryRows;
use super::obs::Observations;

/// The records of one environment, or a queue of its observations, stacks or frames.
#[derive(Debug, Clone)]
pub(in crate::buffer) struct Source {
    /// Name in a segment, such as `records/0`.
    pub name: String,
    /// Size of a row in bytes.
    pub row_bytes: usize,
    /// Number of the oldest row.
    pub start: u64,
    /// Number of the next row.
    pub end: u64,
    env: usize,
    kind: SourceKind,
}

#[derive(Debug, Clone, Copy)]
enum SourceKind {
    /// Records. The next one goes to this slot of the ring.
    Records { head: usize },
    /// The queue with this number among the environment's queues.
    Queue(usize),
}

impl Source {
    /// Returns whether the rows are records. Only records may change after they were pushed.
    pub(in crate::buffer) const fn is_records(&self) -> bool {
        matches!(self.kind, SourceKind::Records { .. })
    }
}

/// Returns the number of sources per environment.
pub(in crate::buffer) fn sources_per_env(rows: &MemoryRows, n_envs: usize) -> usize {
    sources(rows).len().checked_div(n_envs).unwrap_or(0)
}

/// Returns the indices of the sources of an environment, if every environment has `n_sources`.
pub(in crate::buffer) const fn env_sources(env: usize, n_sources: usize) -> Range<usize> {
    let first = env.saturating_mul(n_sources);
    first..first.saturating_add(n_sources)
}

/// Returns all sources of the rows, one environment after the other.
///
/// The order follows from the schema: the records first, then the items of each observation column
/// and the frames of its stacks.
pub(in crate::buffer) fn sources(rows: &MemoryRows) -> Vec<Source> {
    let mut all = Vec::new();
    for (env, ring) in rows.rings.by_env.iter().enumerate() {
        all.push(Source {
            name: format!("records/{env}"),
            row_bytes: rows.layout.stride,
            start: ring.start,
            end: ring.n_pushed,
            env,
            kind: SourceKind::Records { head: ring.head },
        });
        let mut queue_index = 0;
        for (column, envs) in rows.obs.iter().enumerate() {
            let Some(observations) = envs.get(env) else { continue };
            let names = match observations {
                Observations::Plain(_) => ["obs", ""],
                Observations::Stacked(_) => ["stacks", "frames"],
            };
            for (name, queue) in names.iter().zip(observations.queues()) {
                all.push(Source {
                    name: format!("{name}{column}/{env}"),
                    row_bytes: queue.width(),
                    start: queue.start(),
                    end: queue.end(),
                    env,
                    kind: SourceKind::Queue(queue_index),
                });
                queue_index += 1;
            }
        }
    }
    all
}

impl MemoryRows {
    /// Returns the bytes of the rows of a source from `number` on. There is at least one row.
    ///
    /// Between [`MemoryRows::begin_snapshot`] and [`MemoryRows::end_snapshot`], the bytes are those at
    /// the time of the first of these calls.
    pub(in crate::buffer) fn source_rows(&self, source: &Source, number: u64) -> &[u8] {
        match source.kind {
            SourceKind::Queue(index) => {
                let envs = self.obs.iter().filter_map(|envs| envs.get(source.env));
                let queue = envs.flat_map(Observations::queues).nth(index);
                queue.map_or(&[], |queue| queue.contiguous_rows(number, source.end))
            }
            SourceKind::Records { head } => {
                let capacity = self.rings.capacity;
                let back = usize::try_from(source.end - number).unwrap_or(usize::MAX);
                let slot = if back <= head { head - back } else { head + capacity - back };
                self.snapshot_records(source.env * capacity + slot, back.min(capacity - slot))
            }
        }
    }
}

/// Returns the queues of an environment in the order of [`sources`], mutable.
pub(in crate::buffer) fn queues_mut(
    rows: &mut MemoryRows,
    env: usize,
) -> impl Iterator<Item = &mut super::ChunkQueue> {
    let envs = rows.obs.iter_mut().filter_map(move |envs| envs.get_mut(env));
    envs.flat_map(Observations::queues_mut)
}

/// Describes the columns and environments of rows as text, to recognise saves of other rows.
pub(in crate::buffer) fn describe_columns(rows: &MemoryRows) -> String {
    format!("rlox buffer 1\nenvs {}\n{}", rows.rings.n_envs(), rows.schema.describe())
}

/// Same as [`describe_columns`], with the capacity.
pub(in crate::buffer) fn describe_buffer(rows: &MemoryRows) -> String {
    format!("{}\ncapacity {}", describe_columns(rows), rows.rings.capacity())
}
