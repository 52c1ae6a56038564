//! An exported policy, checked by its golden vectors.

use std::fs;
use std::io::Read;
use std::path::Path;

use rlox_core::{Error, Result};

use super::description::Description;
use super::file::File;
use super::golden::GoldenVectors;
use super::player::{Action, Player};

/// The largest file that is read; it holds a network of some 60 million parameters.
const MAX_FILE_BYTES: u64 = 1 << 28;

/// A policy that `rlox export` wrote. It acts as the deterministic policy of `rlox evaluate` does,
/// including the normalizer of observations and the bounds of actions.
///
/// Reading allocates all buffers; [`Policy::act`] allocates nothing. Each thread needs its own
/// copy.
#[derive(Debug, Clone)]
pub struct Policy {
    description: Description,
    player: Player,
    golden: GoldenVectors,
}

impl Policy {
    /// Reads a file, and checks that the policy acts as it did where it was written.
    ///
    /// # Errors
    /// [`Error::Storage`] for a file that cannot be read, and as [`Policy::from_bytes`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let storage_error = |cause: std::io::Error| Error::storage("read", path, cause);
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(storage_error)?;
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(storage_error)?;
        Self::from_named_bytes(&bytes, &path.display().to_string())
    }

    /// Reads a policy from the bytes of a file. The bytes may come from an untrusted source:
    /// everything in them is checked.
    ///
    /// # Errors
    /// [`Error::Config`] for bytes that are no exported policy or of another version, for tensors
    /// that are missing, of another shape or not finite, and for golden vectors whose results
    /// differ here.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::from_named_bytes(bytes, "policy")
    }

    fn from_named_bytes(bytes: &[u8], name: &str) -> Result<Self> {
        if bytes.len() as u64 > MAX_FILE_BYTES {
            let expected = format!("{MAX_FILE_BYTES} bytes at most");
            return Err(Error::config(name.to_owned(), "longer", expected));
        }
        let file = File::new(bytes, name)?;
        let description = Description::from_file(&file)?;
        let golden = GoldenVectors::read(&file, &description)?;
        let player = Player::read(&file, &description)?;
        description.check_effort(&file)?;
        let mut policy = Self { description, player, golden };
        policy.check().map_err(|error| match error {
            Error::Config { name: part, got, expected } => {
                Error::config(format!("{name}: {part}"), got, expected)
            }
            other => other,
        })?;
        Ok(policy)
    }

    /// Returns the length of an observation.
    #[must_use]
    pub fn obs_dim(&self) -> usize {
        self.description.inputs()
    }

    /// Returns the id of the environment that the policy was trained in.
    #[must_use]
    pub fn env(&self) -> &str {
        &self.description.env
    }

    /// Returns the name of the algorithm that trained the policy.
    #[must_use]
    pub fn algorithm(&self) -> &str {
        &self.description.algorithm
    }

    /// Returns an action of the kind and length that [`Policy::act`] writes.
    #[must_use]
    pub fn action(&self) -> Action {
        self.player.action()
    }

    /// Writes the best action for an observation `[obs_dim]` as the environment returns it: not
    /// standardized, several dimensions in row-major order.
    ///
    /// # Errors
    /// [`Error::Shape`] for an observation or an action of another length; [`Error::NonFinite`] for
    /// an observation with a number that is not finite, or whose outputs are not finite;
    /// [`Error::Config`] for an action of the other kind, see [`Policy::action`].
    pub fn act(&mut self, obs: &[f32], action: &mut Action) -> Result<()> {
        self.player.act(obs, action)
    }

    /// Returns the network's outputs for an observation `[obs_dim]`: logits or values of choices,
    /// or means before any tanh.
    ///
    /// # Errors
    /// As [`Policy::act`].
    pub fn outputs(&mut self, obs: &[f32]) -> Result<&[f32]> {
        self.player.outputs(obs)
    }

    /// Checks the golden vectors of the file again; reading it has done so already.
    ///
    /// # Errors
    /// [`Error::Config`] naming the first vector whose outputs or action differ from those of the
    /// file by more than 1e-5 of their size.
    pub fn check(&mut self) -> Result<()> {
        self.golden.check(&mut self.player)
    }
}
