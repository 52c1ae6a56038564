//! Which stream each environment draws its episode starts from.

/// Name of the stream that each environment draws its episode starts from.
pub(super) const STREAM: &str = "env";

/// (seed, index) of an environment's stream.
pub(super) type Key = (u64, u64);

/// Where each environment's stream comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seeding {
    /// Environment i draws from stream (seed, "env", i).
    Run(u64),
    /// Environment i draws from stream (seeds\[i\], "env", 0), wherever it sits in the batch.
    PerEnv(Vec<u64>),
}
