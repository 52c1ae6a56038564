//! The thread pool: its size, its helper threads, and results that do not depend on its size.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rlox_core::advantage::{Discount, Ends, gae};
use rlox_core::env::{Actions, PARALLEL_FROM, Seeding, StepOut, VecEnv};
use rlox_core::seed::Stream;
use rlox_core::stats::Moments;
use rlox_core::threads;

/// Runs `work` with a pool of `count` threads. The size is global, so tests that set it take turns.
fn with_threads<T>(count: usize, work: impl FnOnce() -> T) -> T {
    static LOCK: Mutex<()> = Mutex::new(());
    let _guard: MutexGuard<'_, ()> = LOCK.lock().unwrap();
    threads::set(Some(count)).unwrap();
    let result = work();
    threads::set(None).unwrap();
    result
}

/// Timeout that only a hanging test reaches.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Sends a signal to the other side. Returns whether the other side sent one too.
fn exchange_signals((sender, receiver): (Sender<()>, Receiver<()>)) -> bool {
    sender.send(()).unwrap();
    receiver.recv_timeout(TIMEOUT).is_ok()
}

#[test]
fn both_halves_of_a_join_run_at_the_same_time() {
    let ((to_right, from_left), (to_left, from_right)) = (channel(), channel());
    let (left, right) = ((to_right, from_right), (to_left, from_left));
    let has_met = with_threads(2, || threads::join(|| exchange_signals(left), || exchange_signals(right)));
    assert_eq!(has_met, (true, true));
}

#[test]
fn one_thread_means_the_calling_thread() {
    let caller_id = thread::current().id();
    let id = || thread::current().id();
    assert_eq!(with_threads(1, || threads::join(id, id)), (caller_id, caller_id));
}

#[test]
fn another_size_takes_effect_at_the_next_call() {
    for count in [3, 2, 5] {
        let (thread_ids, condvar) = (Mutex::new(Vec::new()), Condvar::new());
        let mut parts = vec![(); 64];
        with_threads(count, || {
            assert_eq!(threads::count(), count);
            threads::for_each_chunk(&mut parts, 1, |_, _| {
                let mut ids = thread_ids.lock().unwrap();
                ids.push(thread::current().id());
                condvar.notify_all();
                // The first thread waits for another one, however late that one comes.
                let is_single_thread = |seen: &mut Vec<_>| seen.iter().all(|id| *id == seen[0]);
                drop(condvar.wait_timeout_while(ids, TIMEOUT, is_single_thread).unwrap());
            });
        });
        let mut distinct_ids = thread_ids.into_inner().unwrap();
        assert_eq!(distinct_ids.len(), 64);
        distinct_ids.sort_by_key(|id| format!("{id:?}"));
        distinct_ids.dedup();
        assert!((2..=count).contains(&distinct_ids.len()), "{} of {count} threads", distinct_ids.len());
    }
}

#[test]
fn every_part_is_processed_once_with_its_index_and_the_last_may_be_short() {
    let mut all = vec![0; 23];
    with_threads(2, || {
        threads::for_each_chunk(&mut all, 5, |part, rows| {
            assert_eq!(rows.len(), if part == 4 { 3 } else { 5 });
            for row in rows {
                *row += 1 + part;
            }
        });
    });
    let expected: Vec<usize> = (0..23).map(|row| 1 + row / 5).collect();
    assert_eq!(all, expected);
    threads::for_each_chunk(&mut Vec::<u8>::new(), 5, |_, _| panic!("there is no part"));
}

#[test]
fn a_panic_of_a_helper_reaches_the_caller() {
    let work = || threads::join(|| (), || panic!("as expected"));
    let caught = with_threads(2, || std::panic::catch_unwind(work));
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "as expected");
}

#[test]
fn invalid_sizes_are_refused_and_change_nothing() {
    let before = with_threads(2, || {
        for wrong in [0, threads::MAX + 1, usize::MAX] {
            let message = threads::set(Some(wrong)).unwrap_err().to_string();
            assert_eq!(message, format!("number of threads is {wrong}, expected 1 to 1024"));
        }
        threads::count()
    });
    assert_eq!(before, 2);
}

/// Computes a rollout's advantages, the moments of its rewards, and the state of many environments.
fn compute_results() -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (n_envs, n_steps) = (300, 500);
    let mut stream = Stream::new(3, "threads", 0);
    let rewards: Vec<f64> = (0..n_envs * n_steps).map(|_| stream.uniform()).collect();
    let dones: Vec<bool> = rewards.iter().map(|reward| *reward < 0.02).collect();
    let (mut advantages, mut returns) = (rewards.clone(), rewards.clone());
    gae::env_major(
        &rewards,
        &rewards,
        gae::NextValueSource::Bootstrap(&vec![0.5; n_envs]),
        Ends::without_truncation(&dones),
        n_steps,
        Discount::new(0.99, 0.95).unwrap(),
        gae::Out { advantages: &mut advantages, returns: &mut returns },
    )
    .unwrap();
    let mut moments = Moments::new(3);
    moments.update(&rewards).unwrap();
    let n = PARALLEL_FROM + 100;
    let mut envs = VecEnv::new("Pendulum-v1", n, Seeding::Run(1)).unwrap();
    let (mut obs, mut env_rewards) = (vec![0.0; 3 * n], vec![0.0; n]);
    let (mut terminated, mut truncated) = (vec![false; n], vec![false; n]);
    for _ in 0..3 {
        let out = StepOut {
            obs: &mut obs,
            rewards: &mut env_rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        envs.step_into(Actions::Box(&vec![0.3; n]), out).unwrap();
    }
    (advantages, moments.m2().to_vec(), envs.snapshot().unwrap().state)
}

#[test]
fn results_are_the_same_bits_on_any_number_of_threads() {
    let expected = with_threads(1, compute_results);
    for count in [2, 3, 8] {
        assert_eq!(with_threads(count, compute_results), expected, "{count} threads");
    }
}
