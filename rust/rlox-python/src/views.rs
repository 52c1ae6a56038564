//! The audited door to NumPy's memory: the only unsafe code of this crate.
//!
//! What makes it sound, and what a reader has to check here and nowhere else:
//! - A view is made only of an array that is C-contiguous, aligned, in native byte order and of the
//!   element type, so its elements are `len` consecutive `T`. It owns a reference to the array, and
//!   NumPy does not move or free the memory of an array that is referenced.
//! - [`Plain`] types are valid whatever their bits are, so foreign and uninitialised bytes are
//!   merely unspecified numbers. Bools are not: they are read as `u8` and written as `bool` into
//!   memory that NumPy has zeroed or that only this module's callers have claimed.
//! - Memory of the caller is written only through [`ViewMut::of`], which takes every other view of
//!   the call and refuses overlap. Fresh arrays are not yet known to anyone else.
//! - While the GIL is released, another Python thread may write to an array that is being read, as
//!   with every function of NumPy itself; the numbers read are then unspecified.

#![expect(unsafe_code, reason = "the audited module of this crate")]

use std::ffi::c_int;
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;

use numpy::npyffi::{
    self, NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API,
    npy_intp,
};
use numpy::{Element, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors::{self, Class};
use crate::pool::Lease;

/// An element that is valid whatever its bits are.
pub(crate) trait Plain: Element + Copy {
    /// NumPy's dtype kind; with the size it names the type.
    const KIND: u8;
}

macro_rules! plain {
    ($($kind:literal: $($type:ty)+;)+) => { $($(impl Plain for $type { const KIND: u8 = $kind; })+)+ };
}

plain! {
    b'f': f32 f64;
    b'i': i8 i16 i32 i64;
    b'u': u8 u16 u32 u64;
}

/// What an output may hold: [`Plain`] numbers and bools.
pub(crate) trait Written: Element + Copy {
    /// NumPy's dtype kind.
    const KIND: u8;
    /// Whether fresh memory has to be zeroed to hold valid values.
    const ZEROED: bool;
}

impl<T: Plain> Written for T {
    const KIND: u8 = T::KIND;
    const ZEROED: bool = false;
}

impl Written for bool {
    const KIND: u8 = b'b';
    const ZEROED: bool = true;
}

/// The addresses that a view covers.
pub(crate) trait Span {
    /// First address, and one past the last.
    fn span(&self) -> Range<usize>;
}

/// The elements of an array, for reading.
pub(crate) struct View<'py, T> {
    /// Keeps the memory alive.
    array: Bound<'py, PyUntypedArray>,
    start: NonNull<T>,
    len: usize,
}

impl<'py, T: Plain> View<'py, T> {
    /// None unless the array is C-contiguous, aligned and holds `T` in native byte order.
    pub(crate) fn of(array: &Bound<'py, PyUntypedArray>) -> Option<Self> {
        (holds::<T>(array, T::KIND) && is_plain(array)).then(|| Self::trusted(array))
    }

    fn trusted(array: &Bound<'py, PyUntypedArray>) -> Self {
        let (start, len) = elements(array);
        Self { array: array.clone(), start, len }
    }

    /// The elements in row-major order.
    pub(crate) fn slice(&self) -> &[T] {
        // SAFETY: `of` checked layout and type, `array` keeps the memory alive.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<'py> View<'py, u8> {
    /// The bytes of a C-contiguous bool array: 0 is false, everything else true.
    pub(crate) fn of_bools(array: &Bound<'py, PyUntypedArray>) -> Option<Self> {
        (array.dtype().kind() == b'b' && is_plain(array)).then(|| Self::trusted(array))
    }
}

impl<'py, T: Plain> View<'py, T> {
    /// The same memory as bytes.
    pub(crate) fn into_bytes(self) -> View<'py, u8> {
        View { array: self.array, start: self.start.cast(), len: self.len * size_of::<T>() }
    }
}

impl<T> Span for View<'_, T> {
    fn span(&self) -> Range<usize> {
        addresses(self.start, self.len)
    }
}

/// The elements of an array, for writing.
pub(crate) struct ViewMut<'py, T> {
    array: Bound<'py, PyUntypedArray>,
    start: NonNull<T>,
    len: usize,
}

/// Why memory of the caller cannot be written.
pub(crate) enum Refusal {
    /// Another type, or not C-contiguous, aligned and in native byte order.
    Layout,
    /// Not writeable.
    ReadOnly,
    /// Shared with another argument.
    Overlap,
}

impl<'py, T: Written> ViewMut<'py, T> {
    /// The caller's array for writing; `others` are all other views alive in this call.
    pub(crate) fn of(
        array: &Bound<'py, PyUntypedArray>,
        others: &[&dyn Span],
    ) -> Result<Self, Refusal> {
        if !(holds::<T>(array, T::KIND) && is_plain(array)) {
            return Err(Refusal::Layout);
        }
        if !has_flag(array, NPY_ARRAY_WRITEABLE) {
            return Err(Refusal::ReadOnly);
        }
        let (start, len) = elements::<T>(array);
        let own = addresses(start, len);
        let overlaps = |other: &&dyn Span| {
            let other = other.span();
            own.start < other.end && other.start < own.end
        };
        if others.iter().any(overlaps) {
            return Err(Refusal::Overlap);
        }
        if T::ZEROED {
            // SAFETY: `len` bools of one byte that nothing else of this call views.
            let bytes = unsafe { slice::from_raw_parts_mut(start.as_ptr().cast::<u8>(), len) };
            // A bool array made by `view` may hold other bytes than 0 and 1.
            for byte in bytes {
                *byte = (*byte).min(1);
            }
        }
        Ok(Self { array: array.clone(), start, len })
    }

    /// A new C-contiguous array; its numbers are unspecified, its bools false.
    ///
    /// # Errors
    /// `MemoryError` if there is not enough memory.
    pub(crate) fn fresh(py: Python<'py>, shape: &[usize]) -> PyResult<Self> {
        let array = allocate::<T>(py, shape)?;
        let (start, len) = elements(&array);
        Ok(Self { array, start, len })
    }

    /// The elements in row-major order.
    pub(crate) fn slice_mut(&mut self) -> &mut [T] {
        // SAFETY: layout and type are right and nothing else of this call views the memory: it is
        // fresh, or `of` compared it with the others. `array` keeps it alive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// The array itself, once it is written.
    pub(crate) fn into_array(self) -> Bound<'py, PyUntypedArray> {
        self.array
    }
}

impl<'py, T: Written> ViewMut<'py, T> {
    /// The same memory as bytes; NumPy, not Rust, will read what is written there as a `T`.
    pub(crate) fn into_bytes(self) -> ViewMut<'py, u8> {
        ViewMut { array: self.array, start: self.start.cast(), len: self.len * size_of::<T>() }
    }
}

impl<T> Span for ViewMut<'_, T> {
    fn span(&self) -> Range<usize> {
        addresses(self.start, self.len)
    }
}

/// Whether the array's dtype is `T` in native byte order.
#[inline]
fn holds<T: Element>(array: &Bound<'_, PyUntypedArray>, kind: u8) -> bool {
    let own = T::get_dtype(array.py());
    // SAFETY: `array` is a live NumPy array; the pointers are only compared.
    if std::ptr::eq(unsafe { (*fields(array)).descr }, own.as_dtype_ptr()) {
        return true;
    }
    holds_alike::<T>(array, kind)
}

/// [`holds`] of a dtype that is not NumPy's own object for it, such as an unpickled one.
#[cold]
fn holds_alike<T>(array: &Bound<'_, PyUntypedArray>, kind: u8) -> bool {
    let dtype = array.dtype();
    dtype.kind() == kind
        && dtype.itemsize() == size_of::<T>()
        && dtype.is_native_byteorder() != Some(false)
}

/// Whether the array holds elements `T` in native byte order, in whatever layout.
pub(crate) fn is_of<T: Plain>(array: &Bound<'_, PyUntypedArray>) -> bool {
    holds::<T>(array, T::KIND)
}

fn is_plain(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: `array` is a live NumPy array.
    let flags = unsafe { (*fields(array)).flags };
    let plain = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED;
    flags & plain == plain
}

fn has_flag(array: &Bound<'_, PyUntypedArray>, flag: c_int) -> bool {
    // SAFETY: `array` is a live NumPy array.
    unsafe { (*fields(array)).flags & flag != 0 }
}

fn fields(array: &Bound<'_, PyUntypedArray>) -> *const npyffi::PyArrayObject_fields {
    // SAFETY: `array` is a live NumPy array.
    unsafe { npyffi::_PyArray_GET_ITEM_DATA(array.as_array_ptr()) }
}

fn elements<T>(array: &Bound<'_, PyUntypedArray>) -> (NonNull<T>, usize) {
    // SAFETY: `array` is a live NumPy array.
    let data = unsafe { (*fields(array)).data };
    match (NonNull::new(data.cast::<T>()), array.len()) {
        (Some(start), len) if len > 0 => (start, len),
        // An empty array's address may be anything.
        _ => (NonNull::dangling(), 0),
    }
}

fn addresses<T>(start: NonNull<T>, len: usize) -> Range<usize> {
    let first = start.as_ptr() as usize;
    first..first + len * size_of::<T>()
}

/// Dimensions of an array, at most.
const MOST_DIMS: usize = 16;

fn allocate<'py, T: Written>(
    py: Python<'py>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let mut dims = [0; MOST_DIMS];
    let ndim = c_int::try_from(shape.len()).unwrap_or(c_int::MAX);
    if shape.len() > MOST_DIMS {
        let message = format!("an array of {ndim} dimensions, expected at most {MOST_DIMS}");
        return Err(errors::new(py, Class::Shape, message));
    }
    for (dim, &size) in dims.iter_mut().zip(shape) {
        *dim = npy_intp::try_from(size).unwrap_or(npy_intp::MAX);
    }
    let bytes = shape.iter().fold(size_of::<T>(), |bytes, &size| bytes.saturating_mul(size));
    if !T::ZEROED
        && let Some(lease) = Lease::of(bytes)
    {
        return lent::<T>(py, &mut dims, ndim, lease);
    }
    let dtype = T::get_dtype(py).into_dtype_ptr();
    // SAFETY: NumPy's allocators take over the reference to the dtype and read `ndim` sizes; they
    // return a new array or null with an exception set.
    unsafe {
        let array = if T::ZEROED {
            PY_ARRAY_API.PyArray_Zeros(py, ndim, dims.as_mut_ptr(), dtype, 0)
        } else {
            PY_ARRAY_API.PyArray_Empty(py, ndim, dims.as_mut_ptr(), dtype, 0)
        };
        Ok(Bound::from_owned_ptr_or_err(py, array)?.cast_into_unchecked())
    }
}

/// A new array over a lent block, which goes back when the array and all its views are gone.
fn lent<'py, T: Written>(
    py: Python<'py>,
    dims: &mut [npy_intp; MOST_DIMS],
    ndim: c_int,
    lease: Lease,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let (data, lease) = (lease.address(), Bound::new(py, lease)?);
    let (dtype, none): (_, *mut T) = (T::get_dtype(py).into_dtype_ptr(), std::ptr::null_mut());
    // SAFETY: the block is large enough for the shape, aligned for 8 bytes and alive as long as the
    // lease, which becomes the array's base: both calls take over the references given to them.
    unsafe {
        let kind = npyffi::get_type_object(py, NpyTypes::PyArray_Type);
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            kind,
            dtype,
            ndim,
            dims.as_mut_ptr(),
            none.cast(),
            data.cast(),
            NPY_ARRAY_WRITEABLE,
            none.cast(),
        );
        let array: Bound<'py, PyUntypedArray> =
            Bound::from_owned_ptr_or_err(py, array)?.cast_into_unchecked();
        let base = lease.into_ptr();
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_array_ptr(), base) < 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(array)
    }
}
