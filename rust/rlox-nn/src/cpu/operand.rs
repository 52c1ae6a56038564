//! Matrices by address, as products take them.

/// A matrix: its first number, and the distances to the next row and to the next column.
#[derive(Clone, Copy)]
pub(super) struct Operand<F> {
    pub(super) start: *const F,
    pub(super) row: usize,
    pub(super) column: usize,
}

/// Computes c = a b, plus the `addend` `[m, n]` if there is one, for a `[m, k]`, b `[k, n]` and c
/// `[m, n]` in row-major order. The addend is c itself or shares no memory with it.
///
/// # Safety
/// The CPU has the vectors; the numbers of a, b and the addend can be read, and those of c be written.
pub(super) type Product<F> =
    unsafe fn(a: Operand<F>, b: Operand<F>, sizes: [usize; 3], addend: Option<Operand<F>>, c: *mut F);
