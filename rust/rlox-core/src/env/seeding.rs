//! The streams from which environments draw their episode starts.

/// Name of the stream from which each environment draws its episode starts.
pub(super) const STREAM: &str = "env";

/// (seed, index) of an environment's stream.
pub(super) type Key = (u64, u64);

/// The source of each environment's stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seeding {
    /// Environment i draws from stream (seed, "env", i).
    Run(u64),
    /// Environment i draws from stream (seeds\[i\], "env", 0), so its index in the batch has no effect.
    PerEnv(Vec<u64>),
}
