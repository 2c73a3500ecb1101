//! A job, and the line that a panic of user code does not cross.

use core::any::Any;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::panic::catch_unwind;

use super::counts::DispatchCounts;

/// A handler that has begun.
pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A message with its permit, whose handler has not begun.
///
/// Dropping it instead of starting it is always right: its own guards return the permit and answer
/// the request.
pub(crate) type Job = Box<dyn Start>;

/// What an executor needs to know of a job.
pub(crate) trait Start: Send {
    /// Returns the permit and calls the user's callback, in this order and with nothing between
    /// them (B-11).
    ///
    /// May panic: executors call it inside `catch_unwind`.
    fn start(self: Box<Self>) -> HandlerFuture;

    /// The handler's name for logs. Executors copy it before they start the job.
    fn name(&self) -> &str;
}

/// What one poll of user code came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Polled {
    /// It waits for a wake-up.
    Pending,
    /// It returned.
    Ended,
    /// It panicked and must not be polled again.
    Panicked,
}

/// Calls user code; `None` if it panicked.
///
/// The panic's payload is dropped unread: its text may hold a message's content. (The process's
/// panic hook has seen it by then; that one belongs to the application.)
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    // Whatever the call touched is dropped and never looked at again, and our own state is not
    // reachable from it: a broken invariant has no reader.
    catch_unwind(AssertUnwindSafe(call)).map_err(discard).ok()
}

/// Polls user code once.
pub(crate) fn poll_caught<F>(future: Pin<&mut F>, context: &mut Context<'_>) -> Polled
where
    F: Future<Output = ()> + ?Sized,
{
    match caught(|| future.poll(context)) {
        Some(Poll::Pending) => Polled::Pending,
        Some(Poll::Ready(())) => Polled::Ended,
        None => Polled::Panicked,
    }
}

/// Drops user code that has ended; its destructors may panic as well.
///
/// Counts and logs at most one panic of this handler, whether in the poll or in the drop.
pub(crate) fn finish<F>(future: F, last: Polled, name: &str, counts: &DispatchCounts) {
    let dropped = caught(|| drop(future));
    if last == Polled::Panicked || dropped.is_none() {
        report_panic(name, counts);
    }
}

/// Counts and logs a panic, without its text.
pub(crate) fn report_panic(name: &str, counts: &DispatchCounts) {
    counts.panicked.raise();
    tracing::error!(handler = name, "a handler panicked; only its own job ended");
}

/// Drops a panic's payload, which is a value of the user's and may panic in its own drop.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // A payload whose drop panics with a payload: leaking it is the only end.
        Box::leak(again);
    }
}
