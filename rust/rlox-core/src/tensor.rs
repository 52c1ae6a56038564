//! Borrowed arrays of any element type.

use zerocopy::{FromBytes, IntoBytes};

use crate::dtype::Dtype;
use crate::error::{Error, Result, check_len};

/// A borrowed array in row-major order and in the byte order of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorView<'a> {
    dtype: Dtype,
    shape: &'a [usize],
    bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// Returns a view of `bytes`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `bytes` does not have the size that the shape needs.
    pub fn new(dtype: Dtype, shape: &'a [usize], bytes: &'a [u8]) -> Result<Self> {
        let size = shape.iter().try_fold(dtype.size(), |size, &dim| size.checked_mul(dim));
        if size == Some(bytes.len()) {
            return Ok(Self { dtype, shape, bytes });
        }
        let got = format!("{} bytes", bytes.len());
        let expected = format!("the bytes of shape {shape:?} and dtype {}", dtype.name());
        Err(Error::Shape { name: "tensor".into(), got, expected })
    }

    /// Returns a view of float32 numbers.
    ///
    /// # Errors
    /// [`Error::Shape`] if `values` does not have as many numbers as the shape needs.
    pub fn of_f32(shape: &'a [usize], values: &'a [f32]) -> Result<Self> {
        Self::new(Dtype::F32, shape, values.as_bytes())
    }

    /// Returns the element type.
    #[must_use]
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the dimensions; a scalar has none.
    #[must_use]
    pub const fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Returns the bytes of the elements.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the numbers without a copy. Returns None unless they are float32 and aligned as
    /// float32.
    #[must_use]
    pub fn as_f32(&self) -> Option<&'a [f32]> {
        let values = <[f32]>::ref_from_bytes(self.bytes).ok();
        values.filter(|_| self.dtype == Dtype::F32)
    }

    /// Copies the float32 numbers to `out`. The bytes need no alignment.
    ///
    /// # Errors
    /// [`Error::Config`] for another dtype, [`Error::Shape`] for another number of elements.
    pub fn copy_to_f32(&self, out: &mut [f32]) -> Result<()> {
        if self.dtype != Dtype::F32 {
            return Err(Error::config("dtype", self.dtype.name(), Dtype::F32.name()));
        }
        check_len("out", out.len(), self.bytes.len() / size_of::<f32>(), "as the tensor")?;
        out.as_mut_bytes().copy_from_slice(self.bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_has_as_many_bytes_as_its_shape_needs() {
        let bytes = [0; 24];
        assert!(TensorView::new(Dtype::F64, &[3], &bytes).is_ok());
        assert!(TensorView::new(Dtype::I16, &[2, 3, 2], &bytes).is_ok());
        assert!(TensorView::new(Dtype::Bool, &[], &bytes[..1]).is_ok());
        for shape in [&[4][..], &[], &[usize::MAX, 3], &[0]] {
            let message = TensorView::new(Dtype::F64, shape, &bytes).unwrap_err().to_string();
            assert!(message.starts_with("tensor has 24 bytes, expected the bytes of"), "{message}");
        }
    }

    #[test]
    fn float32_numbers_are_read_back_also_where_they_are_not_aligned() {
        let values = [1.5, -0.0, f32::MAX];
        let view = TensorView::of_f32(&[3, 1], &values).unwrap();
        assert_eq!(view.as_f32(), Some(&values[..]));
        let mut shifted = vec![7];
        shifted.extend_from_slice(view.bytes());
        shifted.insert(0, 7);
        let view = TensorView::new(Dtype::F32, &[3], &shifted[2..]).unwrap();
        let mut out = [0.0; 3];
        view.copy_to_f32(&mut out).unwrap();
        assert_eq!(out.map(f32::to_bits), values.map(f32::to_bits));
        let bytes = [0; 12];
        let integers = TensorView::new(Dtype::I32, &[3], &bytes).unwrap();
        assert_eq!(integers.as_f32(), None);
        let message = integers.copy_to_f32(&mut out).unwrap_err().to_string();
        assert_eq!(message, "dtype is int32, expected float32");
    }
}
