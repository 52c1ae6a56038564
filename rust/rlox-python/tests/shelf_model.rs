//! The shelf of results, in every order in which the steps of its threads can happen (loom).
#![allow(clippy::unwrap_used, missing_docs)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

#[path = "../src/memory/shelf.rs"]
mod shelf;

/// Replaces `src/sync.rs` of the crate.
mod sync {
    pub(crate) use std::sync::PoisonError;

    pub(crate) use loom::sync::Mutex;
}

use shelf::Shelf;
use sync::Mutex;

const SIZE: usize = 8;

fn shelf<B>(blocks: impl IntoIterator<Item = B>) -> Arc<Shelf<B>> {
    let blocks = blocks.into_iter().map(|block| (SIZE, block)).collect();
    Arc::new(Shelf(Mutex::new(blocks)))
}

/// Runs `work` in `threads` threads with their numbers, and waits for them.
fn in_threads<B: Send + 'static>(
    shelf: &Arc<Shelf<B>>,
    threads: usize,
    work: impl Fn(&Shelf<B>, usize) + Send + Copy + 'static,
) {
    let threads: Vec<_> = (0..threads)
        .map(|thread| {
            let shelf = Arc::clone(shelf);
            thread::spawn(move || work(&shelf, thread))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

fn shelf_blocks<B: Clone>(shelf: &Shelf<B>) -> Vec<B> {
    shelf.0.lock().unwrap().iter().map(|(_, block)| block.clone()).collect()
}

#[test]
fn a_block_is_lent_to_one_at_a_time() {
    loom::model(|| {
        let shelf = shelf([Arc::new(AtomicBool::new(false))]);
        in_threads(&shelf, 2, |shelf, _| {
            let block = shelf.take(SIZE).unwrap_or_else(|| Arc::new(AtomicBool::new(false)));
            assert!(!block.swap(true, Ordering::Relaxed), "lent twice");
            block.store(false, Ordering::Relaxed);
            shelf.give(SIZE, block, 4 * SIZE);
        });
        assert!((1..=2).contains(&shelf_blocks(&shelf).len()));
    });
}

#[test]
fn no_block_is_lost_or_doubled_and_another_size_is_never_lent() {
    loom::model(|| {
        let shelf = shelf([10]);
        in_threads(&shelf, 2, |shelf, thread| {
            assert_eq!(shelf.take(2 * SIZE), None);
            if thread == 0 {
                shelf.give(SIZE, 11, 4 * SIZE);
            } else if let Some(block) = shelf.take(SIZE) {
                shelf.give(SIZE, block, 4 * SIZE);
            }
        });
        let mut blocks = shelf_blocks(&shelf);
        blocks.sort_unstable();
        assert_eq!(blocks, [10, 11]);
    });
}

#[test]
fn no_more_is_kept_than_the_limit_and_the_newest_stay() {
    loom::model(|| {
        let shelf = shelf([10, 11]);
        in_threads(&shelf, 2, |shelf, thread| {
            shelf.give(SIZE, thread, 2 * SIZE);
            assert!(shelf_blocks(shelf).len() <= 2);
        });
        let mut blocks = shelf_blocks(&shelf);
        blocks.sort_unstable();
        assert_eq!(blocks, [0, 1]);
    });
}
