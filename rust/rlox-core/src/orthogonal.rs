//! Random orthogonal matrices, which weights begin as (Saxe et al. 2014, arXiv:1312.6120).

use crate::error::Result;
use crate::interrupt;
use crate::seed::Stream;

/// Numbers that a sum takes side by side, so that it vectorises and is the same on every CPU.
const LANES: usize = 8;

/// A matrix `[rows, columns]`, row by row, whose rows (columns, where they are fewer) are orthogonal and of
/// length 1, all such matrices equally likely: Gram and Schmidt's of standard normal numbers, which
/// `stream` gives vector after vector.
///
/// # Errors
/// Where the caller is stopped in the middle.
pub fn orthogonal(stream: &mut Stream, rows: usize, columns: usize) -> Result<Vec<f64>> {
    let (few, long) = (rows.min(columns), rows.max(columns));
    let mut basis = vec![0.0; few * long];
    for i in 0..few {
        interrupt::check()?;
        let (before, rest) = basis.split_at_mut(i * long);
        let vector = rest.get_mut(..long).unwrap_or_default();
        stream.fill_normal(vector);
        // Twice is enough to be orthogonal in every digit (Giraud et al. 2005).
        for _ in 0..2 {
            for other in before.chunks_exact(long) {
                let along = dot(vector, other);
                vector.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
            }
        }
        let norm = dot(vector, vector).sqrt();
        for x in vector.iter_mut() {
            *x /= norm;
        }
    }
    Ok(if rows <= columns { basis } else { turned(&basis, long) })
}

/// The transposed matrix of one whose rows have so many numbers.
fn turned(matrix: &[f64], long: usize) -> Vec<f64> {
    let column = |j| matrix.iter().skip(j).step_by(long).copied();
    (0..long).flat_map(column).collect()
}

/// The sum of products, in an order that depends on the length alone.
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

    /// Products of every two rows, or columns.
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
        for (rows, columns) in [(3, 7), (7, 3), (5, 5), (1, 4), (64, 64), (2, 100), (97, 33)] {
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
        // The mean of 64 x 64 entries of variance 1/64: within five standard errors of 0.
        let matrix = orthogonal(&mut Stream::new(9, "init", 0), 64, 64).unwrap();
        let sum: f64 = matrix.iter().sum();
        assert!((sum / 4096.0).abs() < 5.0 * (1.0 / 64.0_f64).sqrt() / 64.0, "{sum}");
    }

    #[test]
    fn a_matrix_without_rows_is_empty() {
        assert!(orthogonal(&mut Stream::new(0, "init", 0), 0, 3).unwrap().is_empty());
    }
}
