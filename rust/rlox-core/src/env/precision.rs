//! The number types of environment state.

/// What the state of an environment is kept and stepped in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// As Gymnasium's environment, step by step.
    F64,
    /// float32 throughout: twice the rows per instruction, a stated deviation per step.
    F32,
}

impl Precision {
    /// Both.
    pub const ALL: [Self; 2] = [Self::F64, Self::F32];

    /// `f64` or `f32`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
        }
    }
}
