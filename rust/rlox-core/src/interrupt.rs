//! Long work that can be interrupted.
//!
//! A caller that serves a person (the Python boundary) runs the work inside [`interruptible`]. It
//! passes a question that only the calling thread can answer, such as "was Ctrl-C pressed?". Long
//! loops call [`check`] between pieces of at most a few milliseconds. They pass the token of
//! [`current`] to other threads, which call [`Token::check`]; that costs one load from memory.
//! Outside of [`interruptible`] nothing interrupts the work.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// Minimum time between two calls of the question.
const PERIOD: Duration = Duration::from_millis(20);

/// A function that returns whether the work must stop. The thread that runs the work calls it.
pub type Question = fn() -> bool;

thread_local! {
    static CURRENT_WORK: RefCell<Option<(Question, Token)>> = const { RefCell::new(None) };
    static LAST_ASKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Tells the threads that help with some work whether the work must stop.
#[derive(Debug, Clone, Default)]
pub struct Token(Option<Arc<AtomicBool>>);

impl Token {
    /// Checks whether the work may continue.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the work must stop.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match &self.0 {
            Some(stop_flag) if stop_flag.load(Ordering::Relaxed) => Err(Error::Interrupted),
            _ => Ok(()),
        }
    }
}

/// Runs `work`, in which [`check`] asks `question`.
pub fn interruptible<T>(question: Question, work: impl FnOnce() -> T) -> T {
    let token = Token(Some(Arc::default()));
    let outer = CURRENT_WORK.replace(Some((question, token)));
    LAST_ASKED.set(Some(Instant::now()));
    let _restore = Restore(outer);
    work()
}

/// Runs `work`, such as cleanup, without interruption.
pub fn uninterruptible<T>(work: impl FnOnce() -> T) -> T {
    let _restore = Restore(CURRENT_WORK.replace(None));
    work()
}

/// Restores the outer work, also if the inner work panics.
struct Restore(Option<(Question, Token)>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT_WORK.set(self.0.take());
    }
}

/// Returns the token of the work that this thread runs.
#[must_use]
pub fn current() -> Token {
    CURRENT_WORK.with_borrow(|running| running.as_ref().map(|(_, token)| token.clone())).unwrap_or_default()
}

/// Checks whether the work that this thread runs may continue.
///
/// # Errors
/// [`Error::Interrupted`] if the work must stop.
pub fn check() -> Result<()> {
    let is_due = CURRENT_WORK.with_borrow(|work| {
        let Some((_, token)) = work else { return Ok(false) };
        token.check()?;
        let now = Instant::now();
        if LAST_ASKED.get().is_some_and(|last| now.duration_since(last) < PERIOD) {
            return Ok(false);
        }
        LAST_ASKED.set(Some(now));
        Ok(true)
    })?;
    if !is_due {
        return Ok(());
    }
    // cloned: the question may begin other work
    let Some((question, token)) = CURRENT_WORK.with_borrow(Clone::clone) else { return Ok(()) };
    if question()
        && let Some(stop_flag) = &token.0
    {
        stop_flag.store(true, Ordering::Relaxed);
    }
    token.check()
}

/// The callback for threads that wait for a lock and hold none. They call it between two tries.
static WAIT_CALLBACK: OnceLock<fn()> = OnceLock::new();

/// Sets a callback for threads that wait for a lock and hold none. They call it every few
/// milliseconds. In it they may wait for something else, such as a fork. Only the first call sets
/// the callback.
pub fn set_wait_callback(callback: fn()) {
    WAIT_CALLBACK.get_or_init(|| callback);
}

/// Calls the callback of [`set_wait_callback`].
pub(crate) fn run_wait_callback() {
    if let Some(callback) = WAIT_CALLBACK.get() {
        callback();
    }
}

/// Elements of a loop between two checks: a few milliseconds of the slowest loop.
pub(crate) const PIECE: usize = 1 << 16;

/// Elements that several threads process between two checks.
pub(crate) const SHARED_PIECE: usize = 1 << 22;

/// Calls [`check`] about once per [`PIECE`] elements of a loop.
#[derive(Debug, Default)]
pub(crate) struct CheckPace(usize);

impl CheckPace {
    /// Counts `elements`. Loops call this once for every few elements.
    ///
    /// # Errors
    /// As [`check`].
    #[inline]
    pub(crate) fn spend(&mut self, elements: usize) -> Result<()> {
        self.0 += elements;
        if self.0 < PIECE {
            return Ok(());
        }
        self.0 = 0;
        check()
    }
}

/// Returns the result of `work`, which cannot be interrupted, such as forcing a file to its device.
///
/// Inside [`interruptible`], `work` runs on its own thread, which goes on alone after an
/// interruption. If the system refuses to create that thread, the calling thread runs `work`.
///
/// # Errors
/// [`Error::Interrupted`] if the work that this thread runs must stop.
pub fn run_blocking<T, F>(work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    if CURRENT_WORK.with_borrow(Option::is_none) {
        return Ok(work());
    }
    let (sender, receiver) = mpsc::channel();
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<_>>| work.lock().take();
    let helper_work = Arc::clone(&work);
    // After an interruption of the caller nobody receives the result.
    let run_helper = move || drop(take(&helper_work).map(|work: F| sender.send(work())));
    if std::thread::Builder::new().spawn(run_helper).is_err()
        && let Some(work) = take(&work)
    {
        return Ok(work());
    }
    loop {
        match receiver.recv_timeout(PERIOD) {
            Ok(result) => return Ok(result),
            Err(mpsc::RecvTimeoutError::Timeout) => check()?,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Error::internal("a thread that was waited for has panicked"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of a check that asks the question, whenever it was asked last.
    fn check_when_due() -> Result<()> {
        LAST_ASKED.set(None);
        check()
    }

    /// Returns the result of a check that comes too soon after the last question, however slow this
    /// thread is.
    fn check_too_soon() -> Result<()> {
        LAST_ASKED.set(Some(Instant::now() + 1_000 * PERIOD));
        check()
    }

    #[test]
    fn work_and_its_helper_threads_stop_when_the_answer_is_yes() {
        interruptible(
            || true,
            || {
                let token = current();
                assert_eq!((check_too_soon(), token.check()), (Ok(()), Ok(())), "asked too soon");
                assert_eq!(check_when_due(), Err(Error::Interrupted));
                let helper = std::thread::spawn(move || token.check());
                assert_eq!(helper.join().unwrap(), Err(Error::Interrupted));
                assert_eq!(check_too_soon(), Err(Error::Interrupted), "it stays stopped");
            },
        );
        assert_eq!(check_when_due(), Ok(()), "the next work is not stopped");
    }

    #[test]
    fn a_question_is_due_a_period_after_the_beginning_and_after_the_last_question() {
        LAST_ASKED.set(None);
        interruptible(
            || false,
            || {
                let start_time = LAST_ASKED.get().expect("the clock runs from the beginning of the work");
                while Instant::now() < start_time + PERIOD {
                    check().unwrap();
                }
                check().unwrap();
                let last_asked = LAST_ASKED.get().unwrap();
                assert!(last_asked >= start_time + PERIOD, "asked sooner, or not at all");
            },
        );
    }

    #[test]
    fn a_loop_checks_once_per_piece_not_for_every_element() {
        interruptible(
            || true,
            || {
                let mut pace = CheckPace::default();
                LAST_ASKED.set(None);
                assert_eq!((1..PIECE).map(|_| pace.spend(1)).find(Result::is_err), None);
                assert_eq!(pace.spend(1), Err(Error::Interrupted));
            },
        );
    }

    #[test]
    fn work_goes_on_while_the_answer_is_no_and_where_nobody_asks() {
        assert_eq!(interruptible(|| false, check_when_due), Ok(()));
        assert_eq!((check_when_due(), current().check()), (Ok(()), Ok(())));
    }

    #[test]
    fn the_caller_waits_for_blocking_work_until_it_is_interrupted() {
        let slow = || run_blocking(|| std::thread::sleep(4 * PERIOD));
        assert_eq!((slow(), interruptible(|| false, slow)), (Ok(()), Ok(())));
        let (sender, receiver) = mpsc::channel::<()>();
        // The wait ends when this test ends, or after a minute if nothing can interrupt it.
        let wait = || run_blocking(move || receiver.recv_timeout(3_000 * PERIOD).is_ok());
        assert_eq!(interruptible(|| true, wait), Err(Error::Interrupted));
        drop(sender);
    }
}
