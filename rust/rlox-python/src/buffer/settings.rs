//! Parsing of the constructor arguments that describe a buffer's columns.

use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString, PyTuple, PyType};
use rlox_core::buffer::{FrameStack, ObsField, Schema, StackAxis};
use rlox_core::{Dtype, Field};
use rlox_core::{Error, Result};

use super::columns::Columns;
use crate::convert::coerce::{self, IntegerArg};
use crate::errors::{self, ErrorClass, OrRaise, ReplaceRefusal, is_refusal};

/// The keywords of a constructor.
struct Settings<'a, 'py> {
    py: Python<'py>,
    keywords: Option<&'a Bound<'py, PyDict>>,
}

/// Returns the schema that `obs_dim`, `act_dim` and the keywords describe, for class `T`.
fn read_schema<'py, T: PyTypeInfo>(
    py: Python<'py>,
    obs_dim: IntegerArg<'py>,
    act_dim: IntegerArg<'py>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Schema> {
    let settings = Settings { py, keywords };
    settings.check_names::<T>()?;
    let obs = settings.obs(obs_dim)?;
    let shape = settings.shape_of("act_dim", act_dim, "action_shape")?;
    let shape = settings.require(shape, "act_dim", "act_dim or action_shape")?;
    let action = (settings.dtype("action_dtype")?, shape);
    let reward = settings.dtype("reward_dtype")?;
    let extras = match settings.get("extra_columns")? {
        Some(extras) => parse_fields(&extras, "extra_columns")?,
        None => Vec::new(),
    };
    settings.to_py_result(Schema::new(obs, action, reward, extras))
}

/// Returns the columns and number of environments of a buffer of class `T`.
pub(super) fn read_columns<'py, T: PyTypeInfo>(
    py: Python<'py>,
    obs_dim: IntegerArg<'py>,
    act_dim: IntegerArg<'py>,
    n_envs: &IntegerArg<'py>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Columns> {
    let schema = read_schema::<T>(py, obs_dim, act_dim, keywords)?;
    Ok(Columns::new(py, schema, read_size(n_envs, "n_envs", 1)?))
}

impl<'py> Settings<'_, 'py> {
    fn to_py_result<T>(&self, result: Result<T>) -> PyResult<T> {
        result.or_raise(self.py)
    }

    /// Refuses keywords that are not in the signature of `T`.
    fn check_names<T: PyTypeInfo>(&self) -> PyResult<()> {
        let Some(passed) = self.keywords.filter(|dict| !dict.is_empty()) else { return Ok(()) };
        let signature = T::type_object(self.py).getattr("__text_signature__")?;
        let signature = signature.extract::<String>()?;
        let parts = signature.trim_matches(['(', ')']).split(", ");
        let names = parts.filter_map(|part| part.split('=').next());
        let known: Vec<&str> = names.filter(|name| *name != "*").collect();
        for key in passed.keys() {
            let key = key.cast::<PyString>()?.to_string_lossy().into_owned();
            if !known.contains(&key.as_str()) {
                return self.to_py_result(Err(Error::unknown_name("buffer setting", &key, &known)));
            }
        }
        Ok(())
    }

    /// Returns the value of a keyword that was passed and is not None.
    fn get(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.keywords.map(|dict| dict.get_item(name)).transpose()?.flatten();
        Ok(value.filter(|value| !value.is_none()))
    }

    fn dtype(&self, name: &str) -> PyResult<Dtype> {
        self.get(name)?.map_or(Ok(Dtype::F32), |value| parse_dtype(&value, name))
    }

    /// Returns `(dim,)`, or the shape that was passed in its place.
    fn shape_of(
        &self,
        dim_name: &'static str,
        dim: IntegerArg<'py>,
        shape_name: &str,
    ) -> PyResult<Option<Vec<usize>>> {
        let shape = self.get(shape_name)?.map(|value| parse_shape(&value, shape_name)).transpose()?;
        let Some(dim) = dim.read_optional(dim_name)? else { return Ok(shape) };
        if shape.is_some() {
            let expected = format!("{dim_name} or {shape_name}, not both");
            return self.to_py_result(Err(Error::config(dim_name, dim, expected)));
        }
        Ok(Some(vec![usize::try_from(dim).unwrap_or(usize::MAX)]))
    }

    fn require<T>(&self, value: Option<T>, name: &'static str, expected: &str) -> PyResult<T> {
        self.to_py_result(value.ok_or_else(|| Error::config(name, "missing", expected)))
    }

    fn obs(&self, dim: IntegerArg<'py>) -> PyResult<Vec<ObsField>> {
        let stack = self.get("frame_stack")?;
        let shape = self.shape_of("obs_dim", dim, "obs_shape")?;
        let dtype = self.dtype("obs_dtype")?;
        let Some(spaces) = self.get("obs_spaces")? else {
            let shape = self.require(shape, "obs_dim", "obs_dim, obs_shape or obs_spaces")?;
            let stack = stack.map(|stack| parse_frame_stack(&stack)).transpose()?;
            return Ok(vec![ObsField { field: Field::new("", dtype, shape), stack }]);
        };
        if shape.is_some() {
            let expected = "one of obs_dim, obs_shape and obs_spaces";
            return self.to_py_result(Err(Error::config("obs_spaces", "given with a shape", expected)));
        }
        let stacks = stack.map(|stacks| as_mapping(&stacks, "frame_stack")).transpose()?;
        let mut columns = Vec::new();
        for field in parse_fields(&spaces, "obs_spaces")? {
            if field.name.is_empty() {
                let expected = "names that are not empty";
                return self.to_py_result(Err(Error::config("obs_spaces", "\"\"", expected)));
            }
            let stack = stacks.as_ref().and_then(|stacks| stacks.get_item(&field.name).ok());
            let stack = stack.map(|stack| parse_frame_stack(&stack)).transpose()?;
            columns.push(ObsField { field, stack });
        }
        Ok(columns)
    }
}

/// Reads `{name: (dtype, shape)}`.
fn parse_fields(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<Field>> {
    let mut fields = Vec::new();
    for item in as_mapping(value, name)?.items()?.iter() {
        let spec_error = |_: &PyErr| {
            let message =
                format!("{name} holds {}, expected name: (dtype, shape)", coerce::short_repr(&item));
            errors::new(value.py(), ErrorClass::Config, message)
        };
        let (key, spec): (String, Bound<'_, PyTuple>) =
            item.extract().replace_refusal(value.py(), spec_error)?;
        let (kind, sizes): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
            spec.extract().replace_refusal(value.py(), spec_error)?;
        fields.push(Field::new(key, parse_dtype(&kind, name)?, parse_shape(&sizes, name)?));
    }
    Ok(fields)
}

fn as_mapping<'py>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyMapping>> {
    value.clone().cast_into::<PyMapping>().map_err(|_| {
        let message = format!("{name} is {}, expected a mapping", coerce::short_repr(value));
        errors::new(value.py(), ErrorClass::Config, message)
    })
}

/// Reads a dtype by its name, or anything that NumPy takes as a dtype.
fn parse_dtype(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Dtype> {
    let py = value.py();
    let numpy_dtype = py.import("numpy")?.call_method1("dtype", (value,));
    let name_result = numpy_dtype.and_then(|dtype| dtype.getattr("name")?.extract::<String>());
    if let (Err(raised), Ok(text)) = (&name_result, value.cast::<PyString>())
        && is_refusal(py, raised)
    {
        return Dtype::parse(&text.to_string_lossy()).or_raise(py);
    }
    let dtype_name = name_result.replace_refusal(py, |_| {
        errors::new(
            py,
            ErrorClass::Config,
            format!("{name} is {}, expected a NumPy dtype", coerce::short_repr(value)),
        )
    })?;
    Dtype::parse(&dtype_name).or_raise(py)
}

/// Reads a tuple of sizes, or one size.
fn parse_shape(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<usize>> {
    let sizes = value.extract::<Vec<usize>>().or_else(|_| value.extract().map(|size| vec![size]));
    let sizes: PyResult<Vec<usize>> = sizes;
    sizes.ok().filter(|sizes| sizes.len() <= 12).ok_or_else(|| {
        let message = format!(
            "{name} is {}, expected a tuple of up to 12 positive integers",
            coerce::short_repr(value)
        );
        errors::new(value.py(), ErrorClass::Config, message)
    })
}

/// Reads `(frames, "first")` or `(frames, "last")`.
fn parse_frame_stack(value: &Bound<'_, PyAny>) -> PyResult<FrameStack> {
    let pair = value.extract::<(usize, String)>().ok();
    let axis = pair.as_ref().and_then(|(_, axis)| match axis.as_str() {
        "first" => Some(StackAxis::First),
        "last" => Some(StackAxis::Last),
        _ => None,
    });
    if let (Some((size, _)), Some(axis)) = (pair, axis) {
        return Ok(FrameStack { size, axis });
    }
    let message = format!(
        "frame_stack is {}, expected (frames, \"first\") or (frames, \"last\"): how many \
         frames an observation stacks, oldest first, and along which axis",
        coerce::short_repr(value)
    );
    Err(errors::new(value.py(), ErrorClass::Config, message))
}

/// Makes an instance of `class` with the columns of Gymnasium spaces.
pub(super) fn from_spaces<'py>(
    class: &Bound<'py, PyType>,
    observation_space: &Bound<'py, PyAny>,
    action_space: &Bound<'py, PyAny>,
    capacity: &Bound<'py, PyAny>,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let settings = keywords.map_or_else(|| Ok(PyDict::new(py)), PyDictMethods::copy)?;
    let derived_keywords =
        ["obs_dim", "act_dim", "obs_shape", "obs_dtype", "obs_spaces", "action_shape", "action_dtype"];
    for name in derived_keywords {
        if settings.contains(name)? {
            return Err(Error::config(name, "given", "only the spaces, from which it follows")).or_raise(py);
        }
    }
    let spaces = py.import("gymnasium.spaces")?;
    if observation_space.is_instance(&spaces.getattr("Dict")?)? {
        let columns = PyDict::new(py);
        for item in observation_space.getattr("spaces")?.call_method0("items")?.try_iter()? {
            let (name, space): (Bound<'_, PyString>, Bound<'_, PyAny>) = item?.extract()?;
            columns.set_item(name, space_dtype_and_shape(&space, "observation_space")?)?;
        }
        settings.set_item("obs_spaces", columns)?;
    } else {
        let (dtype, shape) = space_dtype_and_shape(observation_space, "observation_space")?;
        settings.set_item("obs_dtype", dtype)?;
        settings.set_item("obs_shape", shape)?;
    }
    let (dtype, shape) = space_dtype_and_shape(action_space, "action_space")?;
    settings.set_item("action_dtype", dtype)?;
    // A discrete action is one number, as in `act_dim=1`.
    settings.set_item(
        "action_shape",
        if shape.is_empty()? { (1,).into_pyobject(py)? } else { shape.cast_into()? },
    )?;
    class.call((capacity,), Some(&settings))
}

/// Returns the dtype and shape of the rows of a space.
fn space_dtype_and_shape<'py>(
    space: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let (dtype, shape) = (space.getattr("dtype"), space.getattr("shape"));
    match (dtype, shape) {
        (Ok(dtype), Ok(shape)) if !shape.is_none() && !dtype.is_none() => Ok((dtype, shape)),
        _ => {
            let message = format!(
                "{name} is {}, expected a Box, Discrete, MultiDiscrete or MultiBinary space, \
                 or a Dict of these",
                coerce::short_repr(space)
            );
            let class = ErrorClass::UnsupportedSpace;
            Err(errors::new(space.py(), class, message))
        }
    }
}

/// Reads a size argument; a number beyond `usize` becomes `usize::MAX`.
pub(super) fn read_size(number: &IntegerArg<'_>, name: &str, default: u64) -> PyResult<usize> {
    Ok(usize::try_from(number.read(name, default)?).unwrap_or(usize::MAX))
}

/// Reads `env_ids`, one integer per row.
pub(super) fn read_env_ids(value: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let ids = coerce::array(value, "env_ids")?;
    coerce::check_ndim(&ids, "env_ids", &["n"])?;
    let ids = coerce::elements::<i64>(&ids, "env_ids", "iu")?;
    let index =
        |&id: &i64| usize::try_from(id).map_err(|_| Error::config("env_ids", id, "environments from 0 on"));
    ids.slice().iter().map(index).collect::<Result<_>>().or_raise(value.py())
}
