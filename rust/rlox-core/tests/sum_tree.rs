//! Compares the sum tree with plain vectors: cumulative sums, totals, and minima by linear search.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]

use rlox_core::buffer::SumTree;
use rlox_core::seed::Stream;

/// Draws a number below `n`; the bias of the remainder does not matter here.
fn below(stream: &mut Stream, n: usize) -> usize {
    usize::try_from(stream.next_u64() >> 1).unwrap() % n
}

/// Returns the first leaf whose cumulative sum exceeds `point`.
fn linear_find(weights: &[f64], point: f64) -> usize {
    let mut cumulative = 0.0;
    weights
        .iter()
        .position(|w| {
            cumulative += w;
            cumulative > point
        })
        .unwrap_or_else(|| weights.iter().rposition(|w| *w > 0.0).unwrap_or(0))
}

#[test]
fn a_point_finds_the_leaf_of_the_cumulative_sum_at_every_size() {
    for len in [1, 2, 7, 8, 9, 63, 64, 65, 100, 511, 512, 513, 4_097] {
        let mut stream = Stream::new(1, "tree", len as u64);
        let mut tree = SumTree::new(len).unwrap();
        // Small integers add exactly in any order.
        let weights: Vec<f64> = (0..len).map(|_| [0.0, 1.0, 2.0, 3.0][below(&mut stream, 4)]).collect();
        let all_leaves: Vec<usize> = (0..len).collect();
        tree.set_many(&all_leaves, &weights).unwrap();
        let total: f64 = weights.iter().sum();
        assert_eq!(tree.total().to_bits(), total.to_bits());
        if total == 0.0 {
            continue;
        }
        for _ in 0..200 {
            let point = stream.uniform() * total;
            assert_eq!(tree.find(point), linear_find(&weights, point), "len {len} point {point}");
        }
        // Points exactly on the boundaries.
        let mut boundary = 0.0;
        while boundary < total {
            assert_eq!(tree.find(boundary), linear_find(&weights, boundary), "len {len} at {boundary}");
            boundary += 1.0;
        }
    }
}

#[test]
fn a_point_at_or_beyond_the_end_finds_the_last_leaf_that_is_not_empty() {
    let mut tree = SumTree::new(100).unwrap();
    tree.set_many(&[3, 40, 41], &[0.1, 0.2, 0.3]).unwrap();
    for point in [tree.total(), tree.total() * 2.0, f64::INFINITY] {
        assert_eq!(tree.find(point), 41);
    }
    assert_eq!(tree.find(0.0), 3);
}

#[test]
fn an_empty_leaf_is_never_found() {
    let mut stream = Stream::new(2, "tree", 0);
    let mut tree = SumTree::new(1_000).unwrap();
    let filled_leaves: Vec<usize> = (0..1_000).step_by(37).collect();
    let weights: Vec<f64> = filled_leaves.iter().map(|_| stream.uniform() * 1e-3 + 1e-9).collect();
    tree.set_many(&filled_leaves, &weights).unwrap();
    for _ in 0..20_000 {
        let leaf = tree.find(stream.uniform() * tree.total());
        assert!(filled_leaves.contains(&leaf), "leaf {leaf}");
    }
}

#[test]
fn after_100_000_updates_the_tree_has_the_bits_of_one_built_afresh() {
    let len = 10_007;
    let mut stream = Stream::new(3, "tree", 0);
    let mut weights = vec![0.0; len];
    let mut tree = SumTree::new(len).unwrap();
    for round in 0..1_000 {
        let leaves: Vec<usize> = (0..100).map(|_| below(&mut stream, len)).collect();
        let new_weights: Vec<f64> = leaves
            .iter()
            .map(|_| if round % 7 == 0 { 0.0 } else { (stream.uniform() * 40.0 - 20.0).exp() })
            .collect();
        tree.set_many(&leaves, &new_weights).unwrap();
        for (&leaf, &weight) in leaves.iter().zip(&new_weights) {
            weights[leaf] = weight;
        }
    }
    let mut rebuilt = SumTree::new(len).unwrap();
    rebuilt.set_many(&(0..len).collect::<Vec<_>>(), &weights).unwrap();
    assert!(tree == rebuilt);
    let sum: f64 = weights.iter().sum();
    assert!((tree.total() - sum).abs() <= 1e-12 * sum);
    let min_weight = weights.iter().copied().filter(|w| *w > 0.0).fold(f64::INFINITY, f64::min);
    assert_eq!(tree.min().to_bits(), min_weight.to_bits());
}

#[test]
fn the_minimum_ignores_emptied_leaves() {
    let mut tree = SumTree::new(20).unwrap();
    assert!(tree.is_empty() && tree.min().is_infinite());
    tree.set_many(&[0, 9, 19], &[3.0, 1.0, 2.0]).unwrap();
    assert_eq!(tree.min().to_bits(), 1.0_f64.to_bits());
    tree.set(9, 0.0).unwrap();
    assert_eq!(tree.min().to_bits(), 2.0_f64.to_bits());
    tree.set_many(&[0, 19], &[0.0, 0.0]).unwrap();
    assert!(tree.is_empty() && tree.min().is_infinite());
}

#[test]
fn the_last_weight_wins_where_a_leaf_is_named_twice() {
    let mut tree = SumTree::new(4).unwrap();
    tree.set_many(&[2, 2, 1, 2], &[5.0, 6.0, 1.0, 7.0]).unwrap();
    assert_eq!((tree.get(2), tree.total()), (7.0, 8.0));
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    assert!(SumTree::new(0).is_err());
    assert!(SumTree::new(usize::MAX / 2).is_err());
    let mut tree = SumTree::new(4).unwrap();
    tree.set(1, 2.0).unwrap();
    let before = tree.clone();
    for (leaves, weights) in [
        (vec![0, 4], vec![1.0, 1.0]),
        (vec![0], vec![1.0, 1.0]),
        (vec![0], vec![-1.0]),
        (vec![0], vec![f64::NAN]),
        (vec![0], vec![f64::INFINITY]),
    ] {
        assert!(tree.set_many(&leaves, &weights).is_err());
    }
    assert!(tree == before);
}
