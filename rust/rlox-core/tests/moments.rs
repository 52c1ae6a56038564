//! Compares running moments with their two-pass definition, for whole batches and for parts.
#![allow(clippy::cast_possible_truncation, clippy::indexing_slicing, clippy::unwrap_used)]
#![allow(clippy::float_cmp, missing_docs)]

use rlox_core::Error;
use rlox_core::seed::Stream;
use rlox_core::stats::Moments;

/// Draws `[n, dim]` numbers around 1e6, where sums of squares would lose all digits.
fn rows(seed: u64, n: usize, dim: usize) -> Vec<f64> {
    let mut stream = Stream::new(seed, "moments", 0);
    (0..n * dim).map(|_| 1e6 + stream.normal()).collect()
}

/// Returns the mean and the population variance of one column.
fn reference_moments(rows: &[f64], dim: usize, column: usize) -> (f64, f64) {
    let values: Vec<f64> = rows.iter().copied().skip(column).step_by(dim).collect();
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let n = values.len() as f64;
    let mean = values.iter().map(|x| x - 1e6).sum::<f64>() / n;
    (1e6 + mean, values.iter().map(|x| (x - 1e6 - mean).powi(2)).sum::<f64>() / n)
}

fn assert_matches_definition(moments: &Moments, rows: &[f64], dim: usize) {
    assert_eq!(moments.count() as usize * dim, rows.len());
    for (column, (mean, var)) in moments.mean().iter().zip(moments.var()).enumerate() {
        let expected = reference_moments(rows, dim, column);
        assert!((mean - expected.0).abs() <= 1e-12 * 1e6, "{mean} is not {}", expected.0);
        assert!((var - expected.1).abs() <= 1e-9 * expected.1.max(1e-3), "{var}, {}", expected.1);
    }
}

#[test]
fn a_batch_whatever_its_size_has_the_moments_of_the_definition() {
    for (n, dim) in [(1, 1), (2, 3), (255, 2), (256, 2), (257, 2), (3_000, 5), (50_000, 3)] {
        let rows = rows(n as u64, n, dim);
        let mut moments = Moments::new(dim);
        moments.update(&rows).unwrap();
        assert_matches_definition(&moments, &rows, dim);
    }
}

#[test]
fn parts_in_any_grouping_have_the_moments_of_the_whole() {
    let all = rows(1, 1_000, 2);
    let (mut row_by_row, mut left, mut right) = (Moments::new(2), Moments::new(2), Moments::new(2));
    for row in all.chunks(2) {
        row_by_row.update(row).unwrap();
    }
    left.update(&all[..600]).unwrap();
    right.update(&all[600..700]).unwrap();
    right.update(&all[700..]).unwrap();
    left.merge(&right).unwrap();
    assert_matches_definition(&row_by_row, &all, 2);
    assert_matches_definition(&left, &all, 2);
    let before = left.clone();
    left.merge(&Moments::new(2)).unwrap();
    assert_eq!(left, before);
}

#[test]
fn three_numbers_worked_out_by_hand() {
    let mut moments = Moments::new(1);
    moments.update(&[1.0, 2.0, 6.0]).unwrap();
    assert_eq!((moments.mean(), moments.m2()), (&[3.0][..], &[14.0][..]));
    let mut out = [0.0; 2];
    moments.normalize(&[3.0, 100.0], Some(10.0), 1e-8, &mut out).unwrap();
    assert_eq!(out, [0.0, 10.0]);
}

#[test]
fn what_is_not_finite_is_refused_and_changes_nothing() {
    let mut moments = Moments::new(2);
    moments.update(&[1.0, 2.0, 3.0, 5.0]).unwrap();
    let before = moments.clone();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let got = moments.update(&[0.0, 1.0, 2.0, bad]);
        assert!(matches!(got, Err(Error::NonFinite { index: 3, .. })));
    }
    assert!(matches!(moments.update(&[f64::MAX, 0.0]), Err(Error::NonFinite { .. })));
    assert!(matches!(moments.update(&[1.0, 2.0, 3.0]), Err(Error::Shape { .. })));
    assert!(matches!(moments.merge(&Moments::new(3)), Err(Error::Shape { .. })));
    assert_eq!(moments, before);
}

#[test]
fn saved_parts_are_checked_and_restore_the_object() {
    let mut moments = Moments::new(2);
    moments.update(&[1.0, 2.0, 3.0, 5.0]).unwrap();
    let restored = Moments::from_parts(2, moments.mean().to_vec(), moments.m2().to_vec()).unwrap();
    assert_eq!(restored, moments);
    for (count, mean, m2) in [
        (1, vec![0.0], vec![0.0, 0.0]),
        (1, vec![f64::NAN], vec![0.0]),
        (1, vec![0.0], vec![-1.0]),
        (0, vec![1.0], vec![0.0]),
    ] {
        let got = Moments::from_parts(count, mean, m2);
        assert!(matches!(got, Err(Error::Snapshot { .. })), "{got:?}");
    }
}

#[test]
fn normalizing_checks_its_settings() {
    let (moments, mut out) = (Moments::new(1), [0.0]);
    moments.normalize(&[0.5], None, 1e-300, &mut out).unwrap();
    assert_eq!(out, [0.5]);
    for (clip, eps) in [(None, 0.0), (None, f64::NAN), (Some(-1.0), 1.0), (Some(f64::NAN), 1.0)] {
        let got = moments.normalize(&[0.5], clip, eps, &mut out);
        assert!(matches!(got, Err(Error::Config { .. })));
    }
    let got = moments.normalize(&[f64::NAN], None, 1e-8, &mut out);
    assert!(matches!(got, Err(Error::NonFinite { .. })));
}
