//! What an environment shows and accepts.

/// A box of float32 numbers, one low and one high bound per dimension (infinite if unbounded).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoxSpace {
    /// Lowest value per dimension, `[dim]`.
    pub low: &'static [f32],
    /// Highest value per dimension, `[dim]`.
    pub high: &'static [f32],
}

impl BoxSpace {
    /// Number of dimensions.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.low.len()
    }
}

/// The actions of an environment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ActionSpace {
    /// One of the integers `0..n`.
    Discrete {
        /// Number of actions.
        n: usize,
    },
    /// A vector of numbers. The environment clips to the bounds, as Gymnasium's does.
    Box(BoxSpace),
}

impl ActionSpace {
    /// Numbers per action: 1 for a discrete action.
    #[must_use]
    pub const fn dim(&self) -> usize {
        match self {
            Self::Discrete { .. } => 1,
            Self::Box(space) => space.dim(),
        }
    }

    /// The bounds of a box, `None` for discrete actions.
    #[must_use]
    pub const fn bounds(&self) -> Option<BoxSpace> {
        match self {
            Self::Discrete { .. } => None,
            Self::Box(space) => Some(*space),
        }
    }

    /// Number of choices, or of dimensions.
    #[must_use]
    pub const fn size(&self) -> usize {
        match self {
            Self::Discrete { n } => *n,
            Self::Box(space) => space.dim(),
        }
    }
}
