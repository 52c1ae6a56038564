//! Observation and action spaces of environments.
//!
//! Bounds `B` are `&'static [f32]` if the code of an environment states them, and `Vec<f32>` if
//! they come from elsewhere, such as from a server.

/// A box of float32 numbers, one low and one high bound per dimension (infinite if unbounded).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoxSpace<B = &'static [f32]> {
    /// Lowest value per dimension, `[dim]`.
    pub low: B,
    /// Highest value per dimension, `[dim]`.
    pub high: B,
}

impl<B: AsRef<[f32]>> BoxSpace<B> {
    /// Returns the number of dimensions.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.low.as_ref().len()
    }

    /// Returns the same box with owned bounds.
    #[must_use]
    pub fn to_owned_bounds(&self) -> BoxSpace<Vec<f32>> {
        BoxSpace { low: self.low.as_ref().to_vec(), high: self.high.as_ref().to_vec() }
    }
}

/// The actions of an environment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ActionSpace<B = &'static [f32]> {
    /// One of the integers `0..n`.
    Discrete {
        /// Number of actions.
        n: usize,
    },
    /// A vector of numbers. The environment clips to the bounds, as Gymnasium's does.
    Box(BoxSpace<B>),
}

impl<B: AsRef<[f32]>> ActionSpace<B> {
    /// Returns how many numbers an action has: 1 for a discrete action.
    #[must_use]
    pub fn dim(&self) -> usize {
        match self {
            Self::Discrete { .. } => 1,
            Self::Box(space) => space.dim(),
        }
    }

    /// Returns the bounds of a box, `None` for discrete actions.
    #[must_use]
    pub const fn bounds(&self) -> Option<&BoxSpace<B>> {
        match self {
            Self::Discrete { .. } => None,
            Self::Box(space) => Some(space),
        }
    }

    /// Returns the number of choices, or of dimensions.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Discrete { n } => *n,
            Self::Box(space) => space.dim(),
        }
    }

    /// Returns the same space with owned bounds.
    #[must_use]
    pub fn to_owned_bounds(&self) -> ActionSpace<Vec<f32>> {
        match self {
            Self::Discrete { n } => ActionSpace::Discrete { n: *n },
            Self::Box(space) => ActionSpace::Box(space.to_owned_bounds()),
        }
    }
}
