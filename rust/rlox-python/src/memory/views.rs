//! Access to NumPy's memory: the only unsafe code of this crate.
//!
//! This makes it sound, and reviewers have to check it here and nowhere else:
//! - A view is made only of an array that is C-contiguous, aligned, in native byte order and of the
//!   element type, so its elements are `len` consecutive `T`. It owns a reference to the array.
//! - [`Plain`] types are valid for all bit patterns, so foreign bytes are merely unspecified
//!   numbers. Bools are not: they are read as `u8` and written as `bool` into memory that NumPy has
//!   zeroed or that [`ViewMut::of`] has made valid.
//! - Every view of memory that other code can reach is in one list of [`Claims`] from its creation
//!   until it is dropped, which is after the call's work. Writing excludes every other view of
//!   these bytes, in the same call, in a call around it or in one of another thread.
//! - Memory of new arrays is written before other code sees it: it is zeroed here or by NumPy, or
//!   comes from the pool, whose blocks are zeroed when they are made. No other code knows it, so it
//!   needs no claim.
//!
//! Two things remain the caller's responsibility, as with every function of NumPy itself, while the
//! GIL is released. Another thread may write through NumPy to an array that is in use here; the
//! numbers are then unspecified. Another thread may also free the memory by
//! `array.resize(..., refcheck=False)`, which ignores references and so takes the memory from any
//! call that is using it.

#![expect(unsafe_code, reason = "the audited module of this crate")]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_long};
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;

use numpy::npyffi::NPY_TYPES::{
    self, NPY_BOOL, NPY_BYTE, NPY_DOUBLE, NPY_FLOAT, NPY_INT, NPY_LONG, NPY_LONGLONG, NPY_SHORT, NPY_UBYTE,
    NPY_UINT, NPY_ULONG, NPY_ULONGLONG, NPY_USHORT,
};
use numpy::npyffi::{
    self, NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API, PyArrayAPI,
    npy_intp,
};
use numpy::{Element, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use super::claims::Claims;
use super::pool::{Lease, NUMPY_ZEROED_FROM};
use crate::errors::{self, ErrorClass};

/// An element that is valid for all bit patterns.
pub(crate) trait Plain: OutputElement {}

macro_rules! plain {
    ($($kind:literal: $($type:ty = $number:expr),+;)+) => { $($(
        impl Plain for $type {}

        impl OutputElement for $type {
            const KIND: u8 = $kind;
            const TYPE_NUMBER: c_int = $number as c_int;
            const HAS_INVALID_BYTES: bool = false;
        }
    )+)+ };
}

plain! {
    b'f': f32 = NPY_FLOAT, f64 = NPY_DOUBLE;
    b'i': i8 = NPY_BYTE, i16 = NPY_SHORT, i32 = NPY_INT, i64 = I64;
    b'u': u8 = NPY_UBYTE, u16 = NPY_USHORT, u32 = NPY_UINT, u64 = U64;
}

// C's `long` has 64 bits, or 32 as on Windows.
const I64: NPY_TYPES = if c_long::BITS == 64 { NPY_LONG } else { NPY_LONGLONG };
const U64: NPY_TYPES = if c_long::BITS == 64 { NPY_ULONG } else { NPY_ULONGLONG };

/// An element of an output: a [`Plain`] number or a bool.
pub(crate) trait OutputElement: Element + Copy {
    /// NumPy's dtype kind; with the size it identifies the type.
    const KIND: u8;
    /// NumPy's usual type number.
    const TYPE_NUMBER: c_int;
    /// Whether bytes that other code wrote may be invalid values.
    const HAS_INVALID_BYTES: bool;
}

impl OutputElement for bool {
    const KIND: u8 = b'b';
    const TYPE_NUMBER: c_int = NPY_BOOL as c_int;
    const HAS_INVALID_BYTES: bool = true;
}

/// The list of claims. The thread that holds the GIL has exclusive access to it.
struct GilProtected(UnsafeCell<Claims>);

// SAFETY: only `claims` reaches the list, for a thread that holds the GIL, and one thread at a time
// holds the GIL.
unsafe impl Sync for GilProtected {}

/// Runs `act` on the list. `act` must not run Python code or call this function again.
#[inline]
fn claims<R>(_py: Python<'_>, act: impl FnOnce(&mut Claims) -> R) -> R {
    static CLAIMS: GilProtected = GilProtected(UnsafeCell::new(Claims::new()));
    // SAFETY: `_py` proves that this thread holds the GIL, which `act` keeps, so nobody else has
    // the list; the callers below are a few lines of arithmetic each.
    act(unsafe { &mut *CLAIMS.0.get() })
}

/// Returns a number for the thread that holds the GIL.
#[inline]
fn thread_id(_py: Python<'_>) -> usize {
    // SAFETY: a thread that holds the GIL has a state, whose address is only compared.
    unsafe { pyo3::ffi::PyThreadState_Get() }.addr()
}

/// Releases the claims of threads that do not exist in a forked child.
pub(crate) fn forget_other_threads(py: Python<'_>) {
    claims(py, |claims| claims.keep_only(thread_id(py)));
}

/// A claim on memory, released when it is dropped.
struct Claim<'py> {
    py: Python<'py>,
    /// None for memory that no other code can reach.
    number: Option<usize>,
}

impl<'py> Claim<'py> {
    const fn none(py: Python<'py>) -> Self {
        Self { py, number: None }
    }

    /// Takes a claim with [`Claims::read`] or [`Claims::write`]; None if that refuses.
    #[inline]
    fn new(
        py: Python<'py>,
        span: Range<usize>,
        take: impl FnOnce(&mut Claims, Range<usize>, usize) -> Option<usize>,
    ) -> Option<Self> {
        if span.is_empty() {
            return Some(Self::none(py));
        }
        let number = claims(py, |claims| take(claims, span, thread_id(py)))?;
        Some(Self { py, number: Some(number) })
    }
}

impl Drop for Claim<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(number) = self.number {
            claims(self.py, |claims| claims.release(number));
        }
    }
}

/// The reason why memory cannot be viewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The array has another type, or is not C-contiguous, aligned and in native byte order.
    Layout,
    /// The array is not writeable.
    ReadOnly,
    /// The memory is shared with another argument or another call.
    InUse,
}

/// The elements of an array, for reading.
pub(crate) struct View<'py, T> {
    claim: Claim<'py>,
    /// Keeps the memory alive.
    array: Bound<'py, PyUntypedArray>,
    start: NonNull<T>,
    len: usize,
}

impl<'py, T: Plain> View<'py, T> {
    /// Refuses the array unless it is C-contiguous, aligned, holds `T` in native byte order, and no
    /// call is writing to it.
    #[inline]
    pub(crate) fn of(array: &Bound<'py, PyUntypedArray>) -> Result<Self, Refusal> {
        if has_dtype::<T>(array) && is_contiguous_and_aligned(array) {
            Self::claim_for_reading(array)
        } else {
            Err(Refusal::Layout)
        }
    }

    #[inline]
    fn claim_for_reading(array: &Bound<'py, PyUntypedArray>) -> Result<Self, Refusal> {
        let (start, len) = elements(array);
        let claim = Claim::new(array.py(), addresses(start, len), Claims::read);
        Ok(Self { claim: claim.ok_or(Refusal::InUse)?, array: array.clone(), start, len })
    }

    /// Returns the elements in row-major order.
    pub(crate) fn slice(&self) -> &[T] {
        // SAFETY: `of` checked layout and type, `array` keeps the memory alive, `claim` keeps
        // writers away.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Returns the same memory as bytes.
    pub(crate) fn into_bytes(self) -> View<'py, u8> {
        let (start, len) = (self.start.cast(), self.len * size_of::<T>());
        View { claim: self.claim, array: self.array, start, len }
    }
}

impl<'py> View<'py, u8> {
    /// Views the bytes of a C-contiguous bool array: 0 is false, everything else true.
    pub(crate) fn of_bools(array: &Bound<'py, PyUntypedArray>) -> Result<Self, Refusal> {
        if array.dtype().kind() == b'b' && is_contiguous_and_aligned(array) {
            Self::claim_for_reading(array)
        } else {
            Err(Refusal::Layout)
        }
    }
}

/// The elements of an array, for writing.
pub(crate) struct ViewMut<'py, T> {
    claim: Claim<'py>,
    array: Bound<'py, PyUntypedArray>,
    start: NonNull<T>,
    len: usize,
}

impl<'py, T: OutputElement> ViewMut<'py, T> {
    /// Views the caller's array for writing. Refused while another view uses its memory.
    pub(crate) fn of(array: &Bound<'py, PyUntypedArray>) -> Result<Self, Refusal> {
        if !(has_dtype::<T>(array) && is_contiguous_and_aligned(array)) {
            return Err(Refusal::Layout);
        }
        if !has_flag(array, NPY_ARRAY_WRITEABLE) {
            return Err(Refusal::ReadOnly);
        }
        let (start, len) = elements::<T>(array);
        let claim = Claim::new(array.py(), addresses(start, len), Claims::write);
        let claim = claim.ok_or(Refusal::InUse)?;
        if T::HAS_INVALID_BYTES {
            // SAFETY: `len` bools of one byte, claimed for writing.
            let bytes = unsafe { slice::from_raw_parts_mut(start.as_ptr().cast::<u8>(), len) };
            // A bool array made by `view` may hold other bytes than 0 and 1.
            for byte in bytes {
                *byte = (*byte).min(1);
            }
        }
        Ok(Self { claim, array: array.clone(), start, len })
    }

    /// Makes a new C-contiguous array. Its numbers are unspecified, its bools false.
    ///
    /// # Errors
    /// `MemoryError` if there is not enough memory.
    pub(crate) fn fresh(py: Python<'py>, shape: &[usize]) -> PyResult<Self> {
        let array = allocate::<T>(py, shape)?;
        let (start, len) = elements(&array);
        Ok(Self { claim: Claim::none(py), array, start, len })
    }

    /// Returns the elements in row-major order.
    pub(crate) fn slice_mut(&mut self) -> &mut [T] {
        // SAFETY: layout and type are right, the memory is initialised, and nothing else views it:
        // it is fresh, or claimed by `of`. `array` keeps it alive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Returns the array itself, after the writes.
    pub(crate) fn into_array(self) -> Bound<'py, PyUntypedArray> {
        self.array
    }

    /// Returns the same memory as bytes. NumPy, not Rust, will read them as `T`.
    pub(crate) fn into_bytes(self) -> ViewMut<'py, u8> {
        let (start, len) = (self.start.cast(), self.len * size_of::<T>());
        ViewMut { claim: self.claim, array: self.array, start, len }
    }
}

/// Whether the array holds elements `T` in native byte order, in any layout.
#[inline]
pub(crate) fn has_dtype<T: OutputElement>(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: `array` is a live NumPy array, whose dtype lives as long. (A query of NumPy for the
    // dtype of `T` would cost as much as the rest of a view.)
    let (number, order) = unsafe {
        let dtype = &(*(*fields(array)).descr).fields;
        (dtype.type_num, dtype.byteorder.cast_unsigned())
    };
    number == T::TYPE_NUMBER && matches!(order, b'=' | b'|') || has_equivalent_dtype::<T>(array)
}

/// The slow check, for a dtype that is not the usual one for `T`, such as C's `long long`.
#[cold]
fn has_equivalent_dtype<T: OutputElement>(array: &Bound<'_, PyUntypedArray>) -> bool {
    let dtype = array.dtype();
    dtype.kind() == T::KIND
        && dtype.itemsize() == size_of::<T>()
        && dtype.is_native_byteorder() != Some(false)
}

fn is_contiguous_and_aligned(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: `array` is a live NumPy array.
    let flags = unsafe { (*fields(array)).flags };
    let required = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED;
    flags & required == required
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

/// Largest number of dimensions of an array.
const MAX_DIMS: usize = 16;

fn allocate<'py, T: OutputElement>(py: Python<'py>, shape: &[usize]) -> PyResult<Bound<'py, PyUntypedArray>> {
    let mut dims = [0; MAX_DIMS];
    let ndim = c_int::try_from(shape.len()).unwrap_or(c_int::MAX);
    if shape.len() > MAX_DIMS {
        let message = format!("an array of {ndim} dimensions, expected at most {MAX_DIMS}");
        return Err(errors::new(py, ErrorClass::Shape, message));
    }
    for (dim, &size) in dims.iter_mut().zip(shape) {
        *dim = npy_intp::try_from(size).unwrap_or(npy_intp::MAX);
    }
    let bytes = shape.iter().fold(size_of::<T>(), |bytes, &size| bytes.saturating_mul(size));
    if !T::HAS_INVALID_BYTES
        && let Some(lease) = Lease::take(bytes)
    {
        return array_over_lease::<T>(py, &mut dims, ndim, lease);
    }
    // NumPy releases the GIL while it allocates zeroed memory; a small block is zeroed faster here.
    let is_small = bytes < NUMPY_ZEROED_FROM;
    let dtype = T::get_dtype(py).into_dtype_ptr();
    // SAFETY: NumPy's allocators take over the reference to the dtype and read `ndim` sizes; they
    // return a new array, whose elements take `bytes`, or null with an exception set.
    unsafe {
        let make = if is_small { PyArrayAPI::PyArray_Empty } else { PyArrayAPI::PyArray_Zeros };
        let array = make(&PY_ARRAY_API, py, ndim, dims.as_mut_ptr(), dtype, 0);
        let array = Bound::from_owned_ptr_or_err(py, array)?.cast_into_unchecked();
        if is_small {
            (*fields(&array)).data.write_bytes(0, bytes);
        }
        Ok(array)
    }
}

/// Makes a new array over a pooled block, which returns when the array and all its views are gone.
fn array_over_lease<'py, T: OutputElement>(
    py: Python<'py>,
    dims: &mut [npy_intp; MAX_DIMS],
    ndim: c_int,
    lease: Lease,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let (data, lease) = (lease.address(), Bound::new(py, lease)?);
    let (dtype, null): (_, *mut T) = (T::get_dtype(py).into_dtype_ptr(), std::ptr::null_mut());
    // SAFETY: the block is large enough for the shape, aligned for 8 bytes and alive as long as the
    // lease, which becomes the array's base: both calls take over the references given to them.
    unsafe {
        let array_type = npyffi::get_type_object(py, NpyTypes::PyArray_Type);
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            array_type,
            dtype,
            ndim,
            dims.as_mut_ptr(),
            null.cast(),
            data.cast(),
            NPY_ARRAY_WRITEABLE,
            null.cast(),
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
