//! Compares the language-model primitives with their definitions, their special cases, and numbers
//! worked out by hand.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]

use rlox_core::Error;
use rlox_core::llm::group::{Scale, Scaling, group_advantages};
use rlox_core::llm::kl::{Estimator, Reduction, Tokens, batch_token_kl, token_kl};
use rlox_core::llm::packing::{Description, Packing, Place};
use rlox_core::llm::preference::DpoPair;
use rlox_core::seed::Stream;
use rlox_core::threads;

const ESTIMATORS: [Estimator; 4] = [Estimator::Exact, Estimator::K1, Estimator::K2, Estimator::K3];

fn advantages(rewards: &[f64], group_size: usize, scale: Scale, ddof: usize) -> Vec<f64> {
    let mut out = vec![f64::NAN; rewards.len()];
    let scaling = Scaling::new(scale, ddof, 0.0).unwrap();
    group_advantages(rewards, group_size, scaling, &mut out).unwrap();
    out
}

fn assert_close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((got - expected).abs() <= tolerance, "at {i}: {got} is not {expected}");
    }
}

#[test]
fn a_group_becomes_its_population_z_score() {
    let got = advantages(&[0.9, 0.3, 0.7, 0.1], 4, Scale::Group, 0);
    let by_hand = [4.0, -2.0, 2.0, -4.0].map(|x: f64| x / 10.0_f64.sqrt());
    assert_close(&got, &by_hand, 1e-15);
}

#[test]
fn scaling_none_only_centres_and_batch_divides_by_one_number() {
    let rewards = [1.0, 3.0, 10.0, 14.0];
    assert_eq!(advantages(&rewards, 2, Scale::None, 0), [-1.0, 1.0, -2.0, 2.0]);
    // mean 7, squares 36 + 16 + 9 + 49
    let std = (110.0_f64 / 3.0).sqrt();
    let expected = [-1.0, 1.0, -2.0, 2.0].map(|x| x / std);
    assert_close(&advantages(&rewards, 2, Scale::Batch, 1), &expected, 1e-15);
}

#[test]
fn rewards_that_differ_only_by_rounding_give_advantages_of_0() {
    for group in [[0.1; 3], [0.3, 0.1 + 0.2, 0.3], [1e300; 3], [0.0; 3], [5e-324; 3]] {
        for scale in [Scale::Group, Scale::Batch, Scale::None] {
            assert_eq!(advantages(&group, 3, scale, 0), [0.0; 3], "{group:?}");
        }
    }
    assert_eq!(advantages(&[7.0], 1, Scale::Group, 0), [0.0]);
    for ddof in [2, 3, usize::MAX] {
        assert_eq!(advantages(&[7.0, 8.0], 2, Scale::Group, ddof), [0.0; 2]);
        assert_eq!(advantages(&[-1e300, 1e300], 2, Scale::Group, ddof), [0.0; 2]);
        assert_eq!(advantages(&[7.0, 8.0], 2, Scale::Batch, ddof), [0.0; 2]);
        assert_eq!(advantages(&[7.0, 8.0], 2, Scale::None, ddof), [-0.5, 0.5]);
    }
}

#[test]
fn rewards_at_the_ends_of_the_range_are_scaled_not_lost() {
    for unit in [1e308, 1e200, 1e-200, 1e-320] {
        let pair = [-unit, unit];
        assert_close(&advantages(&pair, 2, Scale::Group, 0), &[-1.0, 1.0], 1e-15);
        assert_close(&advantages(&pair, 2, Scale::Batch, 0), &[-1.0, 1.0], 1e-15);
        assert_eq!(advantages(&pair, 2, Scale::None, 0), pair);
    }
    let mixed = advantages(&[1e-200, -1e-200, 1.0, 3.0], 2, Scale::Group, 0);
    assert_close(&mixed, &[1.0, -1.0, -1.0, 1.0], 1e-15);
}

#[test]
fn every_group_size_gives_mean_0_and_deviation_1() {
    let mut stream = Stream::new(1, "rewards", 0);
    for group_size in 2..70 {
        let rewards: Vec<f64> = (0..group_size * 19).map(|_| 50.0 + stream.normal()).collect();
        let got = advantages(&rewards, group_size, Scale::Group, 0);
        for (group, rewards) in got.chunks(group_size).zip(rewards.chunks(group_size)) {
            let count = f64::from(u32::try_from(group_size).unwrap());
            assert!(group.iter().sum::<f64>().abs() < 1e-12);
            assert!((group.iter().map(|x| x * x).sum::<f64>() / count - 1.0).abs() < 1e-12);
            let slope = (group[1] - group[0]) / (rewards[1] - rewards[0]);
            assert!(slope > 0.0, "the order of rewards is kept");
        }
    }
}

#[test]
fn a_reward_that_is_not_finite_is_named_by_its_index() {
    for (bad, scale) in [(f64::NAN, Scale::Group), (f64::INFINITY, Scale::None)] {
        let mut rewards = vec![0.5; 40];
        rewards[37] = bad;
        let scaling = Scaling::new(scale, 0, 0.0).unwrap();
        let error = group_advantages(&rewards, 2, scaling, &mut [0.0; 40]).unwrap_err();
        let is_named = matches!(&error, Error::NonFinite { name, index: 37, .. } if name == "rewards");
        assert!(is_named, "{error}");
    }
    let scaling = Scaling::new(Scale::Batch, 0, 0.0).unwrap();
    let error = group_advantages(&[1.0, f64::NAN], 1, scaling, &mut [0.0; 2]).unwrap_err();
    assert!(matches!(error, Error::NonFinite { index: 1, .. }));
}

#[test]
fn sizes_and_settings_that_do_not_fit_are_refused() {
    let scaling = Scaling::new(Scale::Group, 0, 0.0).unwrap();
    assert!(group_advantages(&[0.0; 5], 2, scaling, &mut [0.0; 5]).is_err());
    assert!(group_advantages(&[0.0; 4], 0, scaling, &mut [0.0; 4]).is_err());
    assert!(group_advantages(&[0.0; 4], 2, scaling, &mut [0.0; 3]).is_err());
    assert!(Scaling::new(Scale::Group, 0, -1.0).is_err());
    assert!(Scaling::new(Scale::Group, 0, f64::NAN).is_err());
    assert!(Scale::from_name("groups").unwrap_err().to_string().contains("group"));
    assert!(Estimator::from_name("k4").is_err() && Reduction::from_name("max").is_err());
}

/// Computes a term with the standard library, in float64.
fn reference_term(estimator: Estimator, log_p: f64, log_q: f64) -> f64 {
    let d = log_q - log_p;
    match estimator {
        Estimator::Exact if log_p == f64::NEG_INFINITY => 0.0,
        Estimator::Exact => log_p.exp() * (log_p - log_q),
        Estimator::K1 => -d,
        Estimator::K2 => d * d / 2.0,
        // e^d - 1 - d cancels for small d, so the series is summed.
        Estimator::K3 if d.abs() < 0.5 => {
            (2..24).rev().fold(0.0, |sum, n| (sum + 1.0) * d / f64::from(n)) * d
        }
        Estimator::K3 => d.exp_m1() - d,
    }
}

fn without_mask<'a, F>(log_p: &'a [F], log_q: &'a [F]) -> Tokens<'a, F, bool> {
    Tokens { log_p, log_q, mask: None }
}

fn single_term(estimator: Estimator, log_p: f64, log_q: f64) -> f64 {
    token_kl(without_mask(&[log_p], &[log_q]), estimator, Reduction::Sum).unwrap()
}

#[test]
fn terms_equal_their_definition_over_the_whole_range() {
    let mut stream = Stream::new(2, "tokens", 0);
    let mut worst = 0.0_f64;
    for i in 0..40_000 {
        let width = [1e-12, 1e-6, 1e-2, 1.0, 30.0, 600.0][i % 6];
        let (log_p, log_q) = (-stream.uniform() * 5.0, -stream.uniform() * width);
        for estimator in ESTIMATORS {
            // With log p = 0 the difference log q - log p has no rounding error.
            let log_p = if estimator == Estimator::K3 { 0.0 } else { log_p };
            let expected = reference_term(estimator, log_p, log_q);
            let error = (single_term(estimator, log_p, log_q) - expected).abs();
            let bound = if estimator == Estimator::K3 { 16.0 } else { 4.0 } * f64::EPSILON;
            worst = worst.max(error / expected.abs());
            assert!(error <= bound * expected.abs(), "{estimator:?} {log_p} {log_q}: {error:e}");
        }
    }
    assert!(worst > 0.0);
}

#[test]
fn float32_terms_of_k3_keep_their_precision_near_zero() {
    let mut stream = Stream::new(3, "tokens", 0);
    for i in 0..40_000 {
        let width = [1e-9, 1e-4, 1e-1, 1.0, 30.0, 80.0][i % 6];
        #[expect(clippy::cast_possible_truncation, reason = "the input of the test")]
        let d = (stream.normal() * width).min(85.0) as f32;
        let got = token_kl(without_mask(&[0.0], &[d]), Estimator::K3, Reduction::Sum).unwrap();
        let expected = reference_term(Estimator::K3, 0.0, f64::from(d));
        let error = (got - expected).abs();
        assert!(error <= 16.0 * f64::from(f32::EPSILON) * expected, "{d}: {got} {expected}");
        assert!(got >= 0.0);
    }
}

#[test]
fn infinite_log_probabilities_have_defined_results() {
    let infinity = f64::INFINITY;
    assert_eq!(single_term(Estimator::Exact, -infinity, -1.0), 0.0);
    assert_eq!(single_term(Estimator::Exact, -infinity, -infinity), 0.0);
    assert_eq!(single_term(Estimator::Exact, -1.0, -infinity), infinity);
    assert_eq!(single_term(Estimator::Exact, -800.0, -1.0), 0.0);
    for (log_p, log_q) in [(-infinity, -1.0), (-1.0, -infinity), (-800.0, 0.0)] {
        assert_eq!(single_term(Estimator::K3, log_p, log_q), infinity, "{log_p} {log_q}");
    }
    assert_eq!(single_term(Estimator::K3, 0.0, -1e300), 1e300);
    assert_eq!(single_term(Estimator::K3, -0.5, -0.5), 0.0);
    for estimator in ESTIMATORS {
        assert!(single_term(estimator, f64::NAN, -1.0).is_nan());
        assert!(single_term(estimator, -1.0, f64::NAN).is_nan());
    }
    for estimator in [Estimator::K1, Estimator::K2, Estimator::K3] {
        assert!(single_term(estimator, -infinity, -infinity).is_nan());
    }
}

#[test]
fn every_length_and_mask_gives_the_sum_over_the_kept_tokens() {
    let mut stream = Stream::new(4, "tokens", 0);
    for len in (0..70).chain([255, 256, 257, 1000]) {
        let mut draw = || (0..len).map(|_| -3.0 * stream.uniform()).collect::<Vec<f64>>();
        let (mut log_p, mut log_q, mask_draws) = (draw(), draw(), draw());
        let mask: Vec<bool> = mask_draws.iter().map(|x| *x < -1.0).collect();
        for estimator in ESTIMATORS {
            let terms = |i: usize| reference_term(estimator, log_p[i], log_q[i]);
            let total: f64 = (0..len).map(terms).sum();
            let got = token_kl(without_mask(&log_p, &log_q), estimator, Reduction::Sum).unwrap();
            assert_close(&[got], &[total], 1e-11);
        }
        let token_indices: Vec<usize> = (0..len).filter(|&i| mask[i]).collect();
        let terms = |i: &usize| reference_term(Estimator::K3, log_p[*i], log_q[*i]);
        let count = f64::from(u32::try_from(token_indices.len().max(1)).unwrap());
        let mean = token_indices.iter().map(terms).sum::<f64>() / count;
        for i in (0..len).filter(|&i| !mask[i]) {
            (log_p[i], log_q[i]) = (f64::NAN, [f64::NEG_INFINITY, f64::INFINITY][i % 2]);
        }
        let tokens = Tokens { log_p: &log_p, log_q: &log_q, mask: Some(&mask) };
        assert_close(&[token_kl(tokens, Estimator::K3, Reduction::Mean).unwrap()], &[mean], 1e-12);
    }
}

#[test]
fn a_batch_equals_its_sequences_bit_for_bit_on_any_number_of_threads() {
    let (n, seq_len) = (700, 1000);
    let mut stream = Stream::new(5, "tokens", 0);
    let log_p: Vec<f64> = (0..n * seq_len).map(|_| -stream.uniform()).collect();
    let log_q: Vec<f64> = (0..n * seq_len).map(|_| -stream.uniform()).collect();
    let run = |threads| {
        let mut out = vec![0.0; n];
        threads::set(Some(threads)).unwrap();
        let tokens = without_mask(&log_p, &log_q);
        batch_token_kl(tokens, seq_len, Estimator::K3, Reduction::Sum, &mut out).unwrap();
        threads::set(None).unwrap();
        out
    };
    let out = run(1);
    assert_eq!(out, run(3));
    for (row, kl) in out.iter().enumerate() {
        let part = row * seq_len..(row + 1) * seq_len;
        let tokens = without_mask(&log_p[part.clone()], &log_q[part]);
        assert_eq!(*kl, token_kl(tokens, Estimator::K3, Reduction::Sum).unwrap());
    }
}

#[test]
fn token_slices_that_do_not_fit_are_refused() {
    let row = [0.0; 4];
    assert!(token_kl(without_mask(&row, &row[..3]), Estimator::K1, Reduction::Sum).is_err());
    let tokens = Tokens { log_p: &row, log_q: &row, mask: Some(&[true; 3]) };
    assert!(token_kl(tokens, Estimator::K1, Reduction::Sum).is_err());
    for (seq_len, n) in [(0, 1), (3, 1), (2, 3)] {
        let mut out = vec![0.0; n];
        let tokens = without_mask(&row, &row);
        let result = batch_token_kl(tokens, seq_len, Estimator::K1, Reduction::Sum, &mut out);
        assert!(result.is_err(), "seq_len {seq_len}, out {n}");
    }
}

/// Packs by first-fit decreasing; tries every row in turn.
fn slow_first_fit(lengths: &[i64], max_len: usize) -> Vec<Place> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&i| -lengths[i]);
    let (mut used, mut places) = (Vec::<usize>::new(), Vec::new());
    for sequence in order {
        let len = usize::try_from(lengths[sequence]).unwrap();
        let bin = used.iter().position(|used| used + len <= max_len).unwrap_or_else(|| {
            used.push(0);
            used.len() - 1
        });
        places.push(Place { sequence, bin, start: used[bin], len });
        used[bin] += len;
    }
    places.sort_by_key(|place| (place.bin, place.start));
    places
}

#[test]
fn packing_is_first_fit_decreasing_and_stable() {
    let mut stream = Stream::new(6, "lengths", 0);
    for n in 0..60 {
        #[expect(clippy::cast_possible_truncation, reason = "a length")]
        let lengths: Vec<i64> = (0..n).map(|_| (stream.uniform() * 20.0) as i64 + 1).collect();
        let packing = Packing::first_fit_decreasing(&lengths, 20).unwrap();
        let expected = slow_first_fit(&lengths, 20);
        assert_eq!(packing.places(), expected);
        assert_eq!(packing.n_bins(), expected.iter().map(|p| p.bin + 1).max().unwrap_or(0));
    }
}

#[test]
fn rows_describe_every_token_and_restore_the_sequences() {
    let sequences: [&[i64]; 4] = [&[1, 2, 3], &[4, 5, 6, 7, 8], &[9], &[10, 11]];
    let packing = Packing::first_fit_decreasing(&[3, 5, 1, 2], 6).unwrap();
    let mut tokens = vec![-7; 12];
    packing.write_tokens(&sequences, 0, &mut tokens).unwrap();
    assert_eq!(tokens, [4, 5, 6, 7, 8, 9, 1, 2, 3, 10, 11, 0]);
    let (mut packed, mut masks, mut positions) = (vec![0; 12], vec![false; 12], vec![9; 12]);
    let out = Description { packed: &mut packed, masks: &mut masks, positions: &mut positions };
    packing.describe(out).unwrap();
    assert_eq!(packed, [1, 1, 1, 1, 1, 2, 0, 0, 0, 3, 3, -1]);
    assert_eq!(positions, [0, 1, 2, 3, 4, 0, 0, 1, 2, 0, 1, 0]);
    assert_eq!(masks.iter().filter(|mask| !**mask).count(), 1);
    assert_eq!(packing.cumulative_lengths(), [0, 5, 6, 9, 11]);
    let pieces = Packing::pieces(&packed, 6).unwrap();
    for ((bin, start, len), sequence) in pieces.into_iter().zip(sequences) {
        assert_eq!(&tokens[bin * 6 + start..bin * 6 + start + len], sequence);
    }
    packed.swap(0, 11);
    assert!(Packing::pieces(&packed, 6).is_err(), "a sequence in two pieces");
    assert!(Packing::pieces(&[0, 2], 2).is_err(), "a sequence that is missing");
    assert!(packing.write_tokens(&sequences[..3], 0, &mut tokens).is_err());
    assert!(packing.write_tokens(&sequences, 0, &mut tokens[..11]).is_err());
}

#[test]
fn a_length_that_cannot_be_packed_is_named_by_its_index() {
    for bad in [0, -1, 9, i64::MAX, i64::MIN] {
        let error = Packing::first_fit_decreasing(&[3, bad], 8).unwrap_err().to_string();
        assert!(error.contains(&format!("{bad} at index 1")), "{error}");
    }
    assert!(Packing::first_fit_decreasing(&[], 0).is_err());
    let huge = Packing::first_fit_decreasing(&[1; 3], usize::MAX);
    assert!(huge.unwrap_err().to_string().contains("2^31"));
    let message = Packing::first_fit_decreasing(&[1 << 30; 2], 1 << 30).unwrap_err().to_string();
    assert!(message.contains("number of rows 2"), "{message}");
}

#[test]
fn a_pair_needs_two_completions() {
    let pair = DpoPair::new(vec![], vec![1], vec![2, 3]).unwrap();
    assert_eq!((pair.prompt(), pair.chosen(), pair.rejected()), (&[][..], &[1][..], &[2, 3][..]));
    let error = DpoPair::new(vec![1], vec![1], vec![]).unwrap_err().to_string();
    assert!(error.starts_with("rejected_tokens has no tokens"), "{error}");
}
