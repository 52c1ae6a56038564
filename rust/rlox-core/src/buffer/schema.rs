//! The schema of a buffer: typed columns, with one row per transition.

use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::field::Field;

/// The axis of an observation that counts the frames of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackAxis {
    /// `[frames, ...]`, as in PyTorch's images and Gymnasium's `FrameStackObservation`.
    First,
    /// `[..., frames]`, as in height x width x channels.
    Last,
}

/// An observation that is a stack of frames. Each step adds new frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameStack {
    /// Frames per stack. It divides the length of `axis`.
    pub size: usize,
    /// The axis that is split into frames, oldest first.
    pub axis: StackAxis,
}

impl FrameStack {
    /// Checks that the axis can be split into `size` frames.
    fn check(self, field: &Field) -> Result<()> {
        let axis = match self.axis {
            StackAxis::First => field.shape.first(),
            StackAxis::Last => field.shape.last(),
        };
        let fits = |&len: &usize| self.size > 0 && self.size <= 256 && len % self.size == 0;
        if axis.is_some_and(fits) {
            return Ok(());
        }
        let expected =
            format!("1 to 256 frames that divide the {:?} axis of shape {:?}", self.axis, field.shape);
        Err(Error::config("frame_stack", self.size, expected.to_lowercase()))
    }
}

/// One observation column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObsField {
    /// Name (empty if the observation is one array), type and shape.
    pub field: Field,
    /// Set if frames are stored once and shared by the stacks that contain them.
    pub stack: Option<FrameStack>,
}

/// The validated columns of a buffer.
///
/// Observations are stored once, although each is the `next_obs` of one row and the `obs` of the
/// next row. The other columns form one record per row: `actions`, `rewards`, then the extras.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    obs: Vec<ObsField>,
    columns: Vec<Field>,
}

/// Names that no extra column may have, because batches use them for other arrays.
const RESERVED: [&str; 13] = [
    "obs",
    "next_obs",
    "actions",
    "rewards",
    "terminated",
    "truncated",
    "indices",
    "discounts",
    "weights",
    "is_first",
    "returns_to_go",
    "timesteps",
    "mask",
];

impl Schema {
    /// Position of the action in [`Schema::columns`].
    pub const ACTIONS: usize = 0;
    /// Position of the reward in [`Schema::columns`].
    pub const REWARDS: usize = 1;

    /// Makes a schema of the columns `obs`, `action`, the reward and `extras`.
    ///
    /// # Errors
    /// [`Error::Config`] if a row is empty or too large, a stack does not divide its axis, the
    /// reward is not float, or a name is reserved or used twice.
    pub fn new(
        obs: Vec<ObsField>,
        action: (Dtype, Vec<usize>),
        reward: Dtype,
        extras: Vec<Field>,
    ) -> Result<Self> {
        if obs.is_empty() {
            return Err(Error::config("observation", "no column", "at least one"));
        }
        if !matches!(reward, Dtype::F32 | Dtype::F64) {
            return Err(Error::config("reward_dtype", reward.name(), "float32 or float64"));
        }
        for (index, column) in obs.iter().enumerate() {
            column.field.check()?;
            if let Some(stack) = column.stack {
                stack.check(&column.field)?;
            }
            if obs.iter().take(index).any(|other| other.field.name == column.field.name) {
                return Err(Error::config("observation", &column.field.name, "each name once"));
            }
        }
        for (extra_index, extra) in extras.iter().enumerate() {
            let is_duplicate = extras.iter().take(extra_index).any(|other| other.name == extra.name);
            if is_duplicate || extra.name.is_empty() || RESERVED.contains(&extra.name.as_str()) {
                let expected = format!("a name of its own, none of {}", RESERVED.join(", "));
                return Err(Error::config("extra column", format!("{:?}", extra.name), expected));
            }
        }
        let mut columns =
            vec![Field::new("actions", action.0, action.1), Field::new("rewards", reward, Vec::new())];
        columns.extend(extras);
        columns.iter().try_for_each(Field::check)?;
        Ok(Self { obs, columns })
    }

    /// Returns the observation columns.
    #[must_use]
    pub fn obs(&self) -> &[ObsField] {
        &self.obs
    }

    /// Returns the other columns: `actions`, `rewards`, then the extras.
    #[must_use]
    pub fn columns(&self) -> &[Field] {
        &self.columns
    }

    /// Returns the extra columns.
    #[must_use]
    pub fn extras(&self) -> &[Field] {
        self.columns.get(2..).unwrap_or_default()
    }

    /// Returns the position of column `name` in [`Schema::columns`].
    ///
    /// # Errors
    /// [`Error::UnknownName`], with the most similar column names.
    pub fn column(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
            Error::unknown_name("column", name, &known)
        })
    }

    /// Describes the columns as text. Two schemas have the same text only if they are equal.
    #[must_use]
    pub fn describe(&self) -> String {
        let field = |f: &Field| format!("{:?}:{}{:?}", f.name, f.dtype.name(), f.shape);
        let obs = self.obs.iter().map(|column| match column.stack {
            Some(stack) => {
                format!("obs {} stack {} {:?}", field(&column.field), stack.size, stack.axis)
            }
            None => format!("obs {}", field(&column.field)),
        });
        obs.chain(self.columns.iter().map(field)).collect::<Vec<_>>().join("; ")
    }
}
