//! Random orthogonal matrices for initial weights (Saxe et al. 2014, arXiv:1312.6120).

use multiversion::multiversion;

use crate::error::Result;
use crate::seed::Stream;
use crate::{interrupt, threads};

/// Number of partial sums of a sum, so that it vectorises and is the same on every CPU.
const LANES: usize = 8;

/// Number of vectors that are made orthogonal to earlier vectors together, so that the earlier ones
/// are read once for all of them.
const PANEL: usize = 64;

/// Number of vectors of a panel that one thread processes and that stay in its cache.
const SHARE: usize = 16;

/// Number of vectors whose products with another vector are summed at the same time.
const TILE: usize = 4;

/// Returns a random matrix `[rows, columns]` in row-major order. Its rows (its columns, if there
/// are fewer) are orthogonal and of length 1, and all such matrices are equally likely. The
/// algorithm is the Gram-Schmidt process on standard normal numbers, which `stream` gives vector
/// after vector.
///
/// # Errors
/// [`crate::Error::Interrupted`].
pub fn orthogonal(stream: &mut Stream, rows: usize, columns: usize) -> Result<Vec<f64>> {
    let (few, long) = (rows.min(columns), rows.max(columns));
    let mut basis = vec![0.0; few * long];
    for first in (0..few).step_by(PANEL) {
        let (before, rest) = basis.split_at_mut(first * long);
        let panel = rest.get_mut(..PANEL.min(few - first) * long).unwrap_or_default();
        for vector in panel.chunks_exact_mut(long) {
            stream.fill_normal(vector);
        }
        // Two passes are enough to be orthogonal in every digit (Giraud et al. 2005).
        for others in before.chunks(PANEL * long).chain(before.chunks(PANEL * long)) {
            interrupt::check()?;
            threads::for_each_chunk(panel, SHARE * long, |_, vectors| {
                vectors.chunks_exact_mut(long).for_each(|vector| leave(vector, others));
            });
        }
        for i in 0..panel.len() / long {
            interrupt::check()?;
            let (before, rest) = panel.split_at_mut(i * long);
            let vector = rest.get_mut(..long).unwrap_or_default();
            for other in before.chunks_exact(long).chain(before.chunks_exact(long)) {
                let along = dot(vector, other);
                vector.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
            }
            let norm = dot(vector, vector).sqrt();
            for x in vector.iter_mut() {
                *x /= norm;
            }
        }
    }
    Ok(if rows <= columns { basis } else { turned(&basis, long) })
}

/// Subtracts from `vector` its components along `others`, which are orthogonal to one another, a
/// few at a time.
fn leave(vector: &mut [f64], others: &[f64]) {
    let long = vector.len();
    let (tiles, rest) = others.split_at(others.len() / (TILE * long) * TILE * long);
    for tile in tiles.chunks_exact(TILE * long) {
        leave_tile(vector, tile);
    }
    for other in rest.chunks_exact(long) {
        let along = dot(vector, other);
        vector.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
    }
}

/// Does the work of [`leave`] for [`TILE`] others.
#[multiversion(targets("x86_64+avx2"))]
fn leave_tile(vector: &mut [f64], others: &[f64]) {
    let long = vector.len();
    let (ab, cd) = others.split_at(2 * long);
    let ((a, b), (c, d)) = (ab.split_at(long), cd.split_at(long));
    let mut sums = [[0.0; LANES]; TILE];
    let blocks = [a, b, c, d].map(|other| other.as_chunks::<LANES>().0);
    let [in_a, in_b, in_c, in_d] = blocks;
    let (x_blocks, x_rest) = vector.as_chunks::<LANES>();
    for ((((x, a), b), c), d) in x_blocks.iter().zip(in_a).zip(in_b).zip(in_c).zip(in_d) {
        for (sums, y) in sums.iter_mut().zip([a, b, c, d]) {
            for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
                *sum += x * y;
            }
        }
    }
    let rest = |y: &[f64]| -> f64 {
        x_rest.iter().zip(y.as_chunks::<LANES>().1).map(|(x, y)| x * y).sum()
    };
    let [along_a, along_b, along_c, along_d] = [
        total(&sums[0]) + rest(a),
        total(&sums[1]) + rest(b),
        total(&sums[2]) + rest(c),
        total(&sums[3]) + rest(d),
    ];
    for ((((x, a), b), c), d) in vector.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *x -= (along_a * a + along_b * b) + (along_c * c + along_d * d);
    }
}

fn total(sums: &[f64; LANES]) -> f64 {
    sums.iter().sum()
}

/// Returns the transpose of a matrix whose rows have `long` numbers.
fn turned(matrix: &[f64], long: usize) -> Vec<f64> {
    let column = |j| matrix.iter().skip(j).step_by(long).copied();
    (0..long).flat_map(column).collect()
}

/// Returns the sum of products, in an order that depends on the length alone.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for ((sum, x), y) in sums.iter_mut().zip(a).zip(b) {
            *sum += x * y;
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the products of every two rows, or of every two columns if there are fewer columns.
    fn products(matrix: &[f64], rows: usize, columns: usize) -> Vec<f64> {
        let at = |i: usize, j: usize| {
            if rows <= columns { matrix[i * columns + j] } else { matrix[j * columns + i] }
        };
        let (few, long) = (rows.min(columns), rows.max(columns));
        let pairs = (0..few).flat_map(|a| (0..few).map(move |b| (a, b)));
        pairs.map(|(a, b)| (0..long).map(|j| at(a, j) * at(b, j)).sum()).collect()
    }

    #[test]
    fn rows_or_columns_are_orthonormal_in_every_digit() {
        for (rows, columns) in
            [(3, 7), (7, 3), (5, 5), (1, 4), (64, 64), (2, 100), (97, 33), (150, 131)]
        {
            let matrix = orthogonal(&mut Stream::new(1, "init", 0), rows, columns).unwrap();
            assert_eq!(matrix.len(), rows * columns);
            let few = rows.min(columns);
            for (i, product) in products(&matrix, rows, columns).into_iter().enumerate() {
                let expected = if i / few == i % few { 1.0 } else { 0.0 };
                assert!((product - expected).abs() < 1e-14, "{rows}x{columns}: {product}");
            }
        }
    }

    #[test]
    fn the_first_vector_is_that_of_the_stream_at_length_one() {
        let matrix = orthogonal(&mut Stream::new(4, "init", 2), 2, 3).unwrap();
        let mut drawn = [0.0_f64; 3];
        Stream::new(4, "init", 2).fill_normal(&mut drawn);
        let norm = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
        for (x, y) in matrix.iter().zip(drawn) {
            assert!((x - y / norm).abs() < 1e-15);
        }
    }

    #[test]
    fn entries_are_as_likely_above_zero_as_below() {
        // The mean of 64 x 64 entries of variance 1/64 is within five standard errors of 0.
        let matrix = orthogonal(&mut Stream::new(9, "init", 0), 64, 64).unwrap();
        let sum: f64 = matrix.iter().sum();
        assert!((sum / 4096.0).abs() < 5.0 * (1.0 / 64.0_f64).sqrt() / 64.0, "{sum}");
    }

    #[test]
    fn one_of_several_panels_is_the_same_whatever_the_number_of_threads() {
        let of = |threads| {
            threads::set(Some(threads)).unwrap();
            orthogonal(&mut Stream::new(2, "init", 0), 200, 130).unwrap()
        };
        let alone = of(1);
        for threads in [2, 7] {
            assert_eq!(of(threads), alone, "{threads} threads");
        }
        threads::set(None).unwrap();
    }

    #[test]
    fn a_matrix_without_rows_is_empty() {
        assert!(orthogonal(&mut Stream::new(0, "init", 0), 0, 3).unwrap().is_empty());
    }
}
