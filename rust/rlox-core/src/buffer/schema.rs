//! What a buffer holds: typed columns, one row per transition.

use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::field::Field;

/// Which axis of an observation counts the frames of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackAxis {
    /// `[frames, ...]`, as PyTorch's images and Gymnasium's `FrameStackObservation`.
    First,
    /// `[..., frames]`, as height x width x channels.
    Last,
}

/// An observation that is a stack of frames, of which each step brings new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameStack {
    /// Frames per stack; divides the length of `axis`.
    pub size: usize,
    /// The axis that is cut into frames, oldest first.
    pub axis: StackAxis,
}

impl FrameStack {
    /// Checks that the stack's axis can be cut into `size` frames.
    fn check(self, field: &Field) -> Result<()> {
        let axis = match self.axis {
            StackAxis::First => field.shape.first(),
            StackAxis::Last => field.shape.last(),
        };
        let fits = |&len: &usize| self.size > 0 && self.size <= 256 && len % self.size == 0;
        if axis.is_some_and(fits) {
            return Ok(());
        }
        let expected = format!(
            "1 to 256 frames that divide the {:?} axis of shape {:?}",
            self.axis, field.shape
        );
        Err(Error::config("frame_stack", self.size, expected.to_lowercase()))
    }
}

/// One observation column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObsField {
    /// Name (empty for an observation that is one array), type and shape.
    pub field: Field,
    /// Set if frames are stored once and shared by the stacks they appear in.
    pub stack: Option<FrameStack>,
}

/// The columns of a buffer, checked.
///
/// Observations are stored once though each is the `next_obs` of one row and the `obs` of the
/// next. The other columns are one record per row: `actions`, `rewards`, then the extras.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    obs: Vec<ObsField>,
    columns: Vec<Field>,
}

/// Names that batches use for something else.
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

    /// The columns `obs`, `action`, the reward and `extras`.
    ///
    /// # Errors
    /// [`Error::Config`] for a row that is empty or too large, a stack that does not divide its
    /// axis, a reward that is no float, or a name that is used twice or reserved.
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
        for (at, column) in obs.iter().enumerate() {
            column.field.check()?;
            if let Some(stack) = column.stack {
                stack.check(&column.field)?;
            }
            if obs.iter().take(at).any(|other| other.field.name == column.field.name) {
                return Err(Error::config("observation", &column.field.name, "each name once"));
            }
        }
        for (at, extra) in extras.iter().enumerate() {
            let twice = extras.iter().take(at).any(|other| other.name == extra.name);
            if twice || extra.name.is_empty() || RESERVED.contains(&extra.name.as_str()) {
                let expected = format!("a name of its own, none of {}", RESERVED.join(", "));
                return Err(Error::config("extra column", format!("{:?}", extra.name), expected));
            }
        }
        let mut columns = vec![
            Field::new("actions", action.0, action.1),
            Field::new("rewards", reward, Vec::new()),
        ];
        columns.extend(extras);
        columns.iter().try_for_each(Field::check)?;
        Ok(Self { obs, columns })
    }

    /// The observation columns.
    #[must_use]
    pub fn obs(&self) -> &[ObsField] {
        &self.obs
    }

    /// The other columns: `actions`, `rewards`, then the extras.
    #[must_use]
    pub fn columns(&self) -> &[Field] {
        &self.columns
    }

    /// The extra columns.
    #[must_use]
    pub fn extras(&self) -> &[Field] {
        self.columns.get(2..).unwrap_or_default()
    }

    /// Position of column `name` in [`Schema::columns`].
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest columns.
    pub fn column(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
            Error::unknown_name("column", name, &known)
        })
    }

    /// The columns as text, the same for two schemas only if they are equal.
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
