//! A policy that plays.

use std::fs;
use std::io::Read;
use std::path::Path;

use rlox_core::{Error, Result};

use super::description::Description;
use super::file::File;
use super::golden::Golden;
use super::player::{Action, Player};

/// The largest file that is read: networks of some 60 million parameters.
const LARGEST: u64 = 1 << 28;

/// A policy that `rlox export` wrote: what it plays is the deterministic policy of `rlox evaluate`, the
/// normaliser of observations and the bounds of actions included.
///
/// Reading it makes all the room that it needs; [`Policy::act`] allocates nothing. A thread each needs a copy
/// of its own.
#[derive(Debug, Clone)]
pub struct Policy {
    about: Description,
    player: Player,
    golden: Golden,
}

impl Policy {
    /// Reads a file, and checks that it plays here as it did where it was written.
    ///
    /// # Errors
    /// [`Error::Storage`] for a file that cannot be read, and as [`Policy::from_bytes`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let failed = |cause: std::io::Error| Error::storage("read", path, cause);
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(failed)?;
        file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
        Self::named(&bytes, &path.display().to_string())
    }

    /// The policy of the bytes of a file, which may come from anywhere: nothing in them is believed.
    ///
    /// # Errors
    /// [`Error::Config`] for bytes that are no exported policy or of another version, for tensors that are
    /// missing, of another shape or not finite, and for golden vectors that give something else here.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::named(bytes, "policy")
    }

    fn named(bytes: &[u8], name: &str) -> Result<Self> {
        if bytes.len() as u64 > LARGEST {
            let expected = format!("{LARGEST} bytes at most");
            return Err(Error::config(name.to_owned(), "longer", expected));
        }
        let file = File::new(bytes, name)?;
        let about = Description::of(&file)?;
        let golden = Golden::read(&file, &about)?;
        let player = Player::read(&file, &about)?;
        about.check_effort(&file)?;
        let mut policy = Self { about, player, golden };
        policy.check().map_err(|error| match error {
            Error::Config { name: part, got, expected } => {
                Error::config(format!("{name}: {part}"), got, expected)
            }
            other => other,
        })?;
        Ok(policy)
    }

    /// Numbers of an observation.
    #[must_use]
    pub fn obs_dim(&self) -> usize {
        self.about.inputs()
    }

    /// The environment that it learned in.
    #[must_use]
    pub fn env(&self) -> &str {
        &self.about.env
    }

    /// What it learned by.
    #[must_use]
    pub fn algorithm(&self) -> &str {
        &self.about.algorithm
    }

    /// An action of the kind and length that [`Policy::act`] writes.
    #[must_use]
    pub fn action(&self) -> Action {
        self.player.action()
    }

    /// Writes the best action for an observation `[obs_dim]`, which is one as the environment gives it: raw,
    /// of several dimensions in row-major order.
    ///
    /// # Errors
    /// [`Error::Shape`] for an observation or an action of another length, [`Error::NonFinite`] for an
    /// observation that has a number that is none, or that leads to one; [`Error::Config`] for an action of
    /// the other kind, see [`Policy::action`].
    pub fn act(&mut self, obs: &[f32], action: &mut Action) -> Result<()> {
        self.player.act(obs, action)
    }

    /// What the network says of an observation `[obs_dim]`: logits or values of choices, or means before any
    /// tanh.
    ///
    /// # Errors
    /// As [`Policy::act`].
    pub fn outputs(&mut self, obs: &[f32]) -> Result<&[f32]> {
        self.player.outputs(obs)
    }

    /// Plays the golden vectors of the file, which reading it has done already.
    ///
    /// # Errors
    /// [`Error::Config`] naming the first whose outputs or action differ from those of the file by more than
    /// 1e-5 of their size.
    pub fn check(&mut self) -> Result<()> {
        self.golden.check(&mut self.player)
    }
}
