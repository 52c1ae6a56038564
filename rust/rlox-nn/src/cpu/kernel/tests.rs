//! Tests that products have the bits of `matrixmultiply`.

use super::*;

/// Returns numbers in [-1, 1).
fn numbers(n: usize, seed: &mut u64) -> Vec<f32> {
    let next = |_| {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f32::from(u16::try_from(*seed >> 48).unwrap()) / 32_768.0 - 1.0
    };
    (0..n).map(next).collect()
}

fn products() -> Vec<(&'static str, Product<f32>)> {
    let mut found: Vec<(&str, Product<f32>)> = Vec::new();
    if is_x86_feature_detected!("avx512f") {
        found.push(("AVX-512", avx512::multiply));
    }
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        found.push(("AVX2", avx2::multiply));
    }
    found
}

/// Returns the distances to the next row and column of a matrix, or of one stored as its transpose.
fn strides(rows: usize, columns: usize, transposed: bool) -> (usize, usize) {
    if transposed { (1, rows) } else { (columns, 1) }
}

/// What a product is added to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Added {
    Nothing,
    Result,
    Row,
}

fn assert_same_bits(sizes: [usize; 3], transposed: (bool, bool), summand: Added, seed: &mut u64) {
    let [m, k, n] = sizes;
    let (left, right) = (numbers(m * k, seed), numbers(k * n, seed));
    let (start, bias) = (numbers(m * n, seed), numbers(n, seed));
    let ((a_row, a_column), (b_row, b_column)) = (strides(m, k, transposed.0), strides(k, n, transposed.1));
    let distance = |n: usize| isize::try_from(n).unwrap();
    let mut expected = if summand == Added::Row { bias.repeat(m) } else { start.clone() };
    // SAFETY: the strides are those of the vectors' numbers.
    unsafe {
        matrixmultiply::sgemm(
            m,
            k,
            n,
            1.0,
            left.as_ptr(),
            distance(a_row),
            distance(a_column),
            right.as_ptr(),
            distance(b_row),
            distance(b_column),
            if summand == Added::Nothing { 0.0 } else { 1.0 },
            expected.as_mut_ptr(),
            distance(n),
            1,
        );
    }
    let left = Operand { start: left.as_ptr(), row: a_row, column: a_column };
    let right = Operand { start: right.as_ptr(), row: b_row, column: b_column };
    for (name, product) in products() {
        let mut found = start.clone();
        let out = found.as_mut_ptr();
        let of = |start: *const f32, row| Some(Operand { start, row, column: 1 });
        let addend = match summand {
            Added::Nothing => None,
            Added::Result => of(out, n),
            Added::Row => of(bias.as_ptr(), 0),
        };
        // SAFETY: the CPU has the vectors; the strides are those of the vectors' numbers.
        unsafe { product(left, right, sizes, addend, out) };
        let same = expected.iter().zip(&found).all(|(x, y)| x.to_bits() == y.to_bits());
        assert!(same, "{name}: {sizes:?}, transposed {transposed:?}, {summand:?}");
    }
}

#[test]
fn products_have_the_bits_of_matrixmultiply_for_any_sizes_and_orders() {
    let mut seed = 1;
    let edges = [1, 6, 7, 8, 12, 13, 16, 17, 24, 33, 64];
    let depths = [1, 8, 9, 64, 255, 256, 257, 512, 513];
    for (i, &m) in edges.iter().enumerate() {
        for (j, &n) in edges.iter().enumerate() {
            let k = depths[(i * edges.len() + j) % depths.len()];
            for added in [Added::Nothing, Added::Result, Added::Row] {
                for case in 0..4 {
                    assert_same_bits([m, k, n], (case & 1 > 0, case & 2 > 0), added, &mut seed);
                }
            }
        }
    }
    assert_same_bits([256, 256, 256], (false, true), Added::Row, &mut seed);
}

#[test]
fn a_product_of_some_columns_of_wider_matrices_has_the_bits_of_the_whole_product() {
    let (m, k, n, width) = (13, 40, 48, 90);
    let mut seed = 2;
    let (left, right) = (numbers(m * width, &mut seed), numbers(k * width, &mut seed));
    let copy = |x: &[f32], columns: usize| -> Vec<f32> {
        x.chunks(width).flat_map(|row| row[7..7 + columns].to_vec()).collect()
    };
    let (left_part, right_part) = (copy(&left, k), copy(&right, n));
    for (name, product) in products() {
        let (mut expected, mut found) = (vec![0.0; m * n], vec![f32::NAN; m * n]);
        let of = |x: &[f32], row| Operand { start: x.as_ptr(), row, column: 1 };
        // SAFETY: the CPU has the vectors; the parts lie within their matrices.
        unsafe {
            product(of(&left_part, k), of(&right_part, n), [m, k, n], None, expected.as_mut_ptr());
            product(of(&left[7..], width), of(&right[7..], width), [m, k, n], None, found.as_mut_ptr());
        }
        assert_eq!(expected, found, "{name}");
    }
}

#[test]
fn a_row_of_a_product_does_not_depend_on_the_number_of_other_rows() {
    let (most, k, n) = (70, 300, 50);
    let mut seed = 3;
    let (a, b) = (numbers(most * k, &mut seed), numbers(n * k, &mut seed));
    let b_transposed = Operand { start: b.as_ptr(), row: 1, column: k };
    for (name, product) in products() {
        let mut whole = vec![0.0; most * n];
        let rows_from = |first: usize| Operand { start: a[first * k..].as_ptr(), row: k, column: 1 };
        // SAFETY: the CPU has the vectors; the rows exist.
        unsafe { product(rows_from(0), b_transposed, [most, k, n], None, whole.as_mut_ptr()) };
        for (first, rows) in [(0, 1), (3, 2), (20, 5), (11, 12), (1, 40), (69, 1)] {
            let mut part = vec![0.0; rows * n];
            // SAFETY: the CPU has the vectors; the rows exist.
            unsafe { product(rows_from(first), b_transposed, [rows, k, n], None, part.as_mut_ptr()) };
            assert_eq!(part, whole[first * n..(first + rows) * n], "{name}");
        }
    }
}
