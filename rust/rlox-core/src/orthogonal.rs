//! Random orthogonal matrices for initial weights (Saxe et al. 2014, arXiv:1312.6120).

use multiversion::multiversion;

use crate::error::Result;
use crate::seed::Stream;
use crate::{interrupt, threads};

/// Number of partial sums of each sum. It is fixed, so that a sum vectorises and is the same on
/// every CPU.
const LANES: usize = 8;

/// Number of vectors of a panel. They are made orthogonal to the vectors of earlier panels together,
/// so that the earlier vectors are read once for the whole panel.
const PANEL: usize = 64;

/// Number of vectors of a panel that one thread processes and that stay in its cache.
const VECTORS_PER_TASK: usize = 16;

/// Number of vectors whose products with another vector are summed at the same time.
const TILE: usize = 4;

/// Returns a random matrix `[rows, columns]` in row-major order. Its rows (or its columns, if they
/// are fewer) are orthogonal and of length 1, and all such matrices are equally likely. The
/// algorithm is the Gram-Schmidt process on vectors of standard normal numbers, which `stream`
/// draws one vector after the other.
///
/// # Errors
/// [`crate::Error::Interrupted`].
pub fn orthogonal(stream: &mut Stream, rows: usize, columns: usize) -> Result<Vec<f64>> {
    let (n_vectors, vector_len) = (rows.min(columns), rows.max(columns));
    let mut basis = vec![0.0; n_vectors * vector_len];
    for first in (0..n_vectors).step_by(PANEL) {
        let (earlier_panels, rest) = basis.split_at_mut(first * vector_len);
        let panel = rest.get_mut(..PANEL.min(n_vectors - first) * vector_len).unwrap_or_default();
        for vector in panel.chunks_exact_mut(vector_len) {
            stream.fill_normal(vector);
        }
        // After two passes, vectors are orthogonal up to rounding (Giraud et al. 2005).
        for other_vectors in
            earlier_panels.chunks(PANEL * vector_len).chain(earlier_panels.chunks(PANEL * vector_len))
        {
            interrupt::check()?;
            threads::for_each_chunk(panel, VECTORS_PER_TASK * vector_len, |_, vectors| {
                vectors.chunks_exact_mut(vector_len).for_each(|vector| orthogonalize(vector, other_vectors));
            });
        }
        for i in 0..panel.len() / vector_len {
            interrupt::check()?;
            let (earlier_vectors, rest) = panel.split_at_mut(i * vector_len);
            let vector = rest.get_mut(..vector_len).unwrap_or_default();
            for other in
                earlier_vectors.chunks_exact(vector_len).chain(earlier_vectors.chunks_exact(vector_len))
            {
                let projection = dot(vector, other);
                vector.iter_mut().zip(other).for_each(|(x, y)| *x -= projection * y);
            }
            let norm = dot(vector, vector).sqrt();
            for x in vector.iter_mut() {
                *x /= norm;
            }
        }
    }
    Ok(if rows <= columns { basis } else { transpose(&basis, vector_len) })
}

/// Subtracts from `vector` its components along `others`, which are orthogonal to one another. It
/// subtracts [`TILE`] of them at a time.
fn orthogonalize(vector: &mut [f64], others: &[f64]) {
    let vector_len = vector.len();
    let (tiles, rest) = others.split_at(others.len() / (TILE * vector_len) * TILE * vector_len);
    for tile in tiles.chunks_exact(TILE * vector_len) {
        orthogonalize_tile(vector, tile);
    }
    for other in rest.chunks_exact(vector_len) {
        let projection = dot(vector, other);
        vector.iter_mut().zip(other).for_each(|(x, y)| *x -= projection * y);
    }
}

/// Does the work of [`orthogonalize`] for [`TILE`] others.
#[multiversion(targets("x86_64+avx2"))]
fn orthogonalize_tile(vector: &mut [f64], others: &[f64]) {
    let vector_len = vector.len();
    let (ab, cd) = others.split_at(2 * vector_len);
    let ((a, b), (c, d)) = (ab.split_at(vector_len), cd.split_at(vector_len));
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
    let rest = |y: &[f64]| -> f64 { x_rest.iter().zip(y.as_chunks::<LANES>().1).map(|(x, y)| x * y).sum() };
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

/// Returns the transpose of a matrix whose rows have `row_len` numbers.
fn transpose(matrix: &[f64], row_len: usize) -> Vec<f64> {
    let column = |j| matrix.iter().skip(j).step_by(row_len).copied();
    (0..row_len).flat_map(column).collect()
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
        let entry = |i: usize, j: usize| {
            if rows <= columns { matrix[i * columns + j] } else { matrix[j * columns + i] }
        };
        let (n_vectors, vector_len) = (rows.min(columns), rows.max(columns));
        let pairs = (0..n_vectors).flat_map(|a| (0..n_vectors).map(move |b| (a, b)));
        pairs.map(|(a, b)| (0..vector_len).map(|j| entry(a, j) * entry(b, j)).sum()).collect()
    }

    #[test]
    fn rows_or_columns_are_orthonormal_in_every_digit() {
        for (rows, columns) in [(3, 7), (7, 3), (5, 5), (1, 4), (64, 64), (2, 100), (97, 33), (150, 131)] {
            let matrix = orthogonal(&mut Stream::new(1, "init", 0), rows, columns).unwrap();
            assert_eq!(matrix.len(), rows * columns);
            let n_vectors = rows.min(columns);
            for (i, product) in products(&matrix, rows, columns).into_iter().enumerate() {
                let expected = if i / n_vectors == i % n_vectors { 1.0 } else { 0.0 };
                assert!((product - expected).abs() < 1e-14, "{rows}x{columns}: {product}");
            }
        }
    }

    #[test]
    fn the_first_vector_is_the_first_draw_scaled_to_length_1() {
        let matrix = orthogonal(&mut Stream::new(4, "init", 2), 2, 3).unwrap();
        let mut normals = [0.0_f64; 3];
        Stream::new(4, "init", 2).fill_normal(&mut normals);
        let norm = normals.iter().map(|x| x * x).sum::<f64>().sqrt();
        for (x, y) in matrix.iter().zip(normals) {
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
    fn a_matrix_of_several_panels_is_the_same_for_any_number_of_threads() {
        let with_threads = |threads| {
            threads::set(Some(threads)).unwrap();
            orthogonal(&mut Stream::new(2, "init", 0), 200, 130).unwrap()
        };
        let single_threaded = with_threads(1);
        for threads in [2, 7] {
            assert_eq!(with_threads(threads), single_threaded, "{threads} threads");
        }
        threads::set(None).unwrap();
    }

    #[test]
    fn a_matrix_without_rows_is_empty() {
        assert!(orthogonal(&mut Stream::new(0, "init", 0), 0, 3).unwrap().is_empty());
    }
}
