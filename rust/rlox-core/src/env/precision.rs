//! The number types of environment state.

/// The number type in which the state of an environment is stored and stepped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// The precision of Gymnasium's environment. A step gives Gymnasium's numbers, except that some
    /// environments round in other places.
    F64,
    /// float32 throughout: an instruction computes twice as many rows. The documentation of each
    /// environment says by how much a step then differs.
    F32,
}

impl Precision {
    /// Both precisions.
    pub const ALL: [Self; 2] = [Self::F64, Self::F32];

    /// Returns `f64` or `f32`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
        }
    }
}
