//! Reads a safetensors file and checks everything in it.

// A file may contain any number, so operations that could overflow are denied.
#![deny(clippy::arithmetic_side_effects)]

use rlox_core::{Error, Result};
use safetensors::tensor::{Dtype, Metadata, SafeTensors};

/// The tensors of a file and the metadata of its header.
#[derive(Debug)]
pub(super) struct File<'a> {
    /// The name of the file in messages.
    name: &'a str,
    header: Metadata,
    data: &'a [u8],
}

/// A number type that a tensor may have.
pub(super) trait TensorNumber: Sized {
    const DTYPE: Dtype;

    /// Decodes all numbers of the bytes, little-endian.
    fn decode(bytes: &[u8]) -> Vec<Self>;

    /// Returns whether the value is neither NaN nor infinite.
    fn is_finite_number(&self) -> bool;
}

macro_rules! impl_tensor_number {
    ($type:ty, $dtype:expr, $is_finite:expr) => {
        impl TensorNumber for $type {
            const DTYPE: Dtype = $dtype;

            fn decode(bytes: &[u8]) -> Vec<Self> {
                bytes.as_chunks().0.iter().copied().map(Self::from_le_bytes).collect()
            }

            fn is_finite_number(&self) -> bool {
                $is_finite(self)
            }
        }
    };
}

impl_tensor_number!(f32, Dtype::F32, |x: &f32| x.is_finite());
impl_tensor_number!(f64, Dtype::F64, |x: &f64| x.is_finite());
impl_tensor_number!(i64, Dtype::I64, |_: &i64| true);

impl<'a> File<'a> {
    /// Reads the header of these bytes.
    ///
    /// # Errors
    /// [`Error::Config`] for bytes that are no safetensors file, or only a part of one.
    pub(super) fn new(bytes: &'a [u8], name: &'a str) -> Result<Self> {
        let (length, header) = SafeTensors::read_metadata(bytes).map_err(|cause| {
            let got = format!("{} bytes that are no safetensors file ({cause})", bytes.len());
            Error::config(name.to_owned(), got, "a whole file as `rlox export` writes it")
        })?;
        let data = bytes.get(length.saturating_add(8)..).unwrap_or_default();
        Ok(Self { name, header, data })
    }

    /// Returns an [`Error::Config`] about a part of the file.
    pub(super) fn config_error(
        &self,
        part: impl std::fmt::Display,
        got: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Error {
        Error::config(format!("{}: {part}", self.name), got, expected)
    }

    /// Returns the text of this key in the header.
    ///
    /// # Errors
    /// [`Error::Config`] if it is missing.
    pub(super) fn text(&self, key: &str) -> Result<&str> {
        let texts = self.header.metadata().as_ref();
        let value = texts.and_then(|texts| texts.get(key));
        value.map(String::as_str).ok_or_else(|| {
            let expected = "that of a policy, as `rlox export` writes it";
            self.config_error(format_args!("description {key:?}"), "missing", expected)
        })
    }

    /// Returns the numbers of a tensor of this shape.
    ///
    /// # Errors
    /// [`Error::Config`] if the tensor is missing, has another shape or number type, or has a
    /// number that is not finite.
    pub(super) fn tensor<T: TensorNumber>(&self, tensor: &str, shape: &[usize]) -> Result<Vec<T>> {
        let part = format_args!("tensor {tensor}");
        let expected = || format!("{:?} {shape:?}", T::DTYPE);
        let info = self.header.info(tensor).ok_or_else(|| self.config_error(part, "missing", expected()))?;
        if info.dtype != T::DTYPE || info.shape != shape {
            let got = format!("{:?} {:?}", info.dtype, info.shape);
            return Err(self.config_error(part, got, expected()));
        }
        let (start, end) = info.data_offsets;
        let all = T::decode(self.data.get(start..end).unwrap_or_default());
        let n_numbers = shape.iter().try_fold(1_usize, |all, &n| all.checked_mul(n));
        if n_numbers != Some(all.len()) {
            return Err(self.config_error(part, format!("{} numbers", all.len()), expected()));
        }
        match all.iter().position(|x| !x.is_finite_number()) {
            Some(bad_index) => Err(self.config_error(
                part,
                format!("not finite at flat index {bad_index}"),
                "finite numbers; train again, or export an earlier checkpoint",
            )),
            None => Ok(all),
        }
    }
}
