//! The number types of environment state.

/// The number type in which the state of an environment is stored and stepped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// The numbers of Gymnasium's environment, step by step.
    F64,
    /// float32 throughout: twice the rows per instruction, with a documented deviation per step.
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
