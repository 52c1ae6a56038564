//! Tasks and forks, in every order in which the steps of their threads can happen (loom).
#![allow(clippy::unwrap_used, missing_docs)]

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

#[path = "../src/detach/gate.rs"]
mod gate;

/// Replaces `src/sync.rs` of the crate.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};
    pub(crate) use loom::thread::yield_now as pause;
}

use gate::Gate;
use sync::{AtomicUsize, Ordering};

/// A gate, and whether a task is half done.
struct Process {
    gate: Gate,
    is_half_done: AtomicBool,
}

fn new_process() -> Arc<Process> {
    let gate = Gate(AtomicUsize::new(0));
    Arc::new(Process { gate, is_half_done: AtomicBool::new(false) })
}

fn work(process: &Process) {
    process.gate.enter(false, || Ok::<_, ()>(())).unwrap();
    process.is_half_done.store(true, Ordering::Relaxed);
    process.is_half_done.store(false, Ordering::Relaxed);
    process.gate.leave();
}

/// Forks while this thread runs `own` tasks.
fn fork(process: &Process, own: usize) {
    process.gate.close();
    process.gate.wait(own);
    assert!(!process.is_half_done.load(Ordering::Relaxed), "a child would have half a work for ever");
    process.gate.open();
}

#[test]
fn a_fork_never_sees_half_a_work_of_another_thread_and_both_end() {
    loom::model(|| {
        let process = new_process();
        let other = Arc::clone(&process);
        let worker = thread::spawn(move || work(&other));
        fork(&process, 0);
        worker.join().unwrap();
        assert!(!process.gate.is_busy(0));
    });
}

#[test]
fn a_thread_that_forks_in_its_own_work_waits_for_the_others_only() {
    loom::model(|| {
        let process = new_process();
        process.gate.enter(false, || Ok::<_, ()>(())).unwrap();
        let other = Arc::clone(&process);
        let worker = thread::spawn(move || work(&other));
        fork(&process, 1);
        // A signal handler does this between the fork and the end of the task around it.
        process.gate.enter(true, || Ok::<_, ()>(())).unwrap();
        process.gate.leave();
        process.gate.leave();
        worker.join().unwrap();
        assert!(!process.gate.is_busy(0));
    });
}

#[test]
fn a_work_that_is_told_to_stop_while_a_fork_waits_has_not_begun() {
    loom::model(|| {
        let process = new_process();
        let other = Arc::clone(&process);
        let worker = thread::spawn(move || {
            let entered = other.gate.enter(false, || Err(()));
            if entered.is_ok() {
                other.gate.leave();
            }
        });
        fork(&process, 0);
        worker.join().unwrap();
        assert!(!process.gate.is_busy(0));
    });
}

#[test]
fn a_child_goes_on_with_its_own_works_and_no_fork() {
    loom::model(|| {
        let process = new_process();
        process.gate.enter(false, || Ok::<_, ()>(())).unwrap();
        process.gate.enter(false, || Ok::<_, ()>(())).unwrap();
        process.gate.close();
        process.gate.reset(1);
        assert!(!process.gate.is_busy(1) && process.gate.is_busy(0));
        process.gate.leave();
        process.gate.enter(false, || Err(())).unwrap();
    });
}
