//! Compares prioritized sampling with its definition: frequencies, weights, and updates.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]
#![allow(clippy::cast_precision_loss)]

use rlox_core::Error;
use rlox_core::buffer::{Priorities, SampleRng};
use rlox_core::seed::Stream;

/// Makes priorities with these values in slots 0, 1, and so on.
fn make_priorities(priorities: &[f64], alpha: f64, beta: f64) -> Priorities {
    let mut all = Priorities::new(priorities.len(), alpha, beta).unwrap();
    for (slot, &priority) in priorities.iter().enumerate() {
        all.insert([(0, slot)].into_iter(), Some(&[priority])).unwrap();
    }
    all
}

fn draw_priorities(n: usize) -> Vec<f64> {
    let mut stream = Stream::new(5, "priorities", 0);
    (0..n).map(|_| (4.0 * stream.uniform() - 2.0).exp()).collect()
}

/// Counts how often each slot is drawn in `batches` batches of 64.
fn count_draws(all: &Priorities, stratified: bool, batches: u64) -> Vec<f64> {
    let mut counts = vec![0.0; all.tree().len()];
    for batch in 0..batches {
        let mut stream = SampleRng::new(9, batch);
        for slot in all.sample(stratified, &mut stream, &mut [0.0; 64]).unwrap() {
            counts[slot] += 1.0;
        }
    }
    counts
}

#[test]
fn slots_are_drawn_in_proportion_to_priority_to_the_alpha() {
    let priorities = draw_priorities(50);
    for alpha in [0.0, 0.6, 1.0] {
        let p: Vec<f64> = priorities.iter().map(|x| x.powf(alpha)).collect();
        let total: f64 = p.iter().sum();
        for stratified in [false, true] {
            let all = make_priorities(&priorities, alpha, 0.4);
            let counts = count_draws(&all, stratified, 2_000);
            let n_drawn: f64 = counts.iter().sum();
            let chi_square: f64 = counts
                .iter()
                .zip(&p)
                .map(|(count, p)| (count - n_drawn * p / total).powi(2) / (n_drawn * p / total))
                .sum();
            // 49 degrees of freedom: 85.4 is exceeded once in 1,000 independent samples.
            assert!(chi_square < 85.4, "alpha {alpha} {stratified}: {chi_square}");
            if !stratified && alpha > 0.0 {
                assert!(chi_square > 20.0, "counts too even for independent draws: {chi_square}");
            }
        }
    }
}

#[test]
fn a_stratified_batch_has_one_point_in_each_equal_part() {
    let all = make_priorities(&[1.0; 64], 1.0, 1.0);
    for seed in 0..20 {
        let mut stream = SampleRng::new(seed, 0);
        let slots = all.sample(true, &mut stream, &mut [0.0; 64]).unwrap();
        assert_eq!(slots, (0..64).collect::<Vec<_>>());
    }
}

#[test]
fn weights_at_beta_1_undo_the_preference() {
    let priorities = draw_priorities(200);
    let slot_values: Vec<f64> =
        (0..200).map(|i| f64::from(i % 17) - 3.0 * priorities[usize::try_from(i).unwrap()]).collect();
    let uniform = slot_values.iter().sum::<f64>() / 200.0;
    let all = make_priorities(&priorities, 0.7, 1.0);
    let (mut weighted, mut unweighted, mut weight_sum) = (0.0, 0.0, 0.0);
    for batch in 0..4_000 {
        let mut weights = [0.0; 64];
        let mut stream = SampleRng::new(3, batch);
        let slots = all.sample(false, &mut stream, &mut weights).unwrap();
        for (weight, &slot) in weights.iter().zip(&slots) {
            weighted += weight * slot_values[slot];
            weight_sum += weight;
            unweighted += slot_values[slot];
        }
    }
    assert!((weighted / weight_sum - uniform).abs() < 0.05, "{} {uniform}", weighted / weight_sum);
    assert!((unweighted / 256_000.0 - uniform).abs() > 0.5, "the test needs a preference to undo");
}

#[test]
fn weights_are_those_of_the_paper_over_the_largest_in_the_buffer() {
    let priorities = draw_priorities(100);
    let (alpha, beta) = (0.6, 0.4);
    let p: Vec<f64> = priorities.iter().map(|x| x.powf(alpha)).collect();
    let total: f64 = p.iter().sum();
    let raw_weights: Vec<f64> = p.iter().map(|p| (100.0 * p / total).powf(-beta)).collect();
    let largest = raw_weights.iter().copied().fold(0.0, f64::max);
    let mut all = make_priorities(&priorities, alpha, beta);
    let mut weights = [0.0; 32];
    let slots = all.sample(true, &mut SampleRng::new(0, 0), &mut weights).unwrap();
    for (weight, &slot) in weights.iter().zip(&slots) {
        assert!((weight - raw_weights[slot] / largest).abs() < 1e-12);
    }
    all.set_beta(0.0).unwrap();
    all.sample(true, &mut SampleRng::new(0, 0), &mut weights).unwrap();
    assert_eq!(weights, [1.0; 32]);
}

#[test]
fn a_row_without_a_priority_gets_the_largest_seen_so_far() {
    let mut all = Priorities::new(4, 1.0, 1.0).unwrap();
    all.insert([(0, 0)].into_iter(), None).unwrap();
    assert_eq!(all.tree().get(0), 1.0);
    assert_eq!(all.update(&[0], &[7.0], |_| Ok(Some(0))).unwrap(), 0);
    all.insert([(0, 1)].into_iter(), None).unwrap();
    assert_eq!(all.tree().get(1), 7.0);
    all.update(&[0], &[0.5], |_| Ok(Some(0))).unwrap();
    all.insert([(0, 2)].into_iter(), None).unwrap();
    assert_eq!((all.tree().get(2), all.tree().min()), (7.0, 0.5));
}

#[test]
fn updates_of_rows_that_are_gone_are_left_out_and_counted() {
    let mut all = make_priorities(&[1.0, 2.0, 3.0], 1.0, 1.0);
    let find_slot = |index: u64| Ok(usize::try_from(index).ok().filter(|&slot| slot < 2));
    assert_eq!(all.update(&[0, 2, 1, 9], &[4.0, 50.0, 5.0, 60.0], find_slot).unwrap(), 2);
    assert_eq!([0, 1, 2].map(|slot| all.tree().get(slot)), [4.0, 5.0, 3.0]);
    assert_eq!(all.max(), 5.0);
}

#[test]
fn a_slot_of_priority_0_is_never_drawn_and_not_the_minimum() {
    let mut all = make_priorities(&[0.0, 2.0, 0.0, 8.0], 0.5, 1.0);
    let draw_counts = count_draws(&all, true, 50);
    assert!(draw_counts[0] == 0.0 && draw_counts[2] == 0.0 && draw_counts[1] > 0.0);
    assert_eq!(all.tree().min(), 2.0_f64.sqrt());
    all.update(&[1, 3], &[0.0, 0.0], |slot| Ok(usize::try_from(slot).ok())).unwrap();
    let error = all.sample(true, &mut SampleRng::new(0, 0), &mut [0.0]).unwrap_err();
    assert!(matches!(error, Error::Config { .. }));
}

#[test]
fn an_invalid_priority_is_refused_and_changes_nothing() {
    let mut all = make_priorities(&[1.0, 2.0], 0.6, 0.4);
    let before = all.clone();
    for bad in [f64::NAN, f64::INFINITY] {
        let error = all.update(&[0, 1], &[3.0, bad], |_| Ok(Some(0))).unwrap_err();
        assert!(matches!(error, Error::NonFinite { index: 1, .. }));
    }
    for bad in [-1.0, 1e101] {
        let error = all.update(&[0], &[bad], |_| Ok(Some(0))).unwrap_err();
        assert!(error.to_string().contains("abs(td_error)"), "{error}");
        assert!(all.insert([(0, 0)].into_iter(), Some(&[bad])).is_err());
    }
    assert!(matches!(all.update(&[0, 1], &[1.0], |_| Ok(Some(0))), Err(Error::Shape { .. })));
    assert!(all.set_beta(1.5).is_err() && all.set_beta(f64::NAN).is_err());
    assert!(all == before);
    assert!(Priorities::new(1, -0.1, 0.4).is_err() && Priorities::new(1, 0.6, 2.0).is_err());
}

#[test]
fn restored_priorities_draw_the_same_slots_and_weights() {
    let all = make_priorities(&draw_priorities(300), 0.6, 0.4);
    let (weights, max_priority) = all.state();
    let mut restored = Priorities::new(300, 0.6, 0.4).unwrap();
    restored.restore(&weights, max_priority).unwrap();
    assert!(restored.tree() == all.tree() && restored.max() == all.max());
    let (mut left, mut right) = ([0.0; 32], [0.0; 32]);
    let slots = all.sample(true, &mut SampleRng::new(1, 1), &mut left).unwrap();
    let restored_slots = restored.sample(true, &mut SampleRng::new(1, 1), &mut right).unwrap();
    assert_eq!((slots, left), (restored_slots, right));
    assert!(restored.restore(&weights[1..], max_priority).is_err());
}
