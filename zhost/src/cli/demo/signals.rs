//! SIGTERM and SIGINT: a wish to end, not an end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::control::{Cause, Failure};

/// From here on these signals do not end the process.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

/// Begins to catch the signals.
///
/// # Errors
///
/// When the kernel refuses.
pub(super) fn catch() -> Result<Signals, Failure> {
    let caught = |kind| {
        signal(kind).map_err(|error| Failure {
            cause: Cause::Run,
            sentence: format!("signals cannot be caught: {error}"),
        })
    };
    Ok(Signals {
        terminate: caught(SignalKind::terminate())?,
        interrupt: caught(SignalKind::interrupt())?,
    })
}

impl Signals {
    /// Waits for a signal and names it.
    pub(super) async fn next(&mut self) -> &'static str {
        let (terminate, interrupt) = (&mut self.terminate, &mut self.interrupt);
        core::future::poll_fn(|context| {
            if terminate.poll_recv(context).is_ready() {
                core::task::Poll::Ready("SIGTERM")
            } else {
                interrupt.poll_recv(context).map(|_| "SIGINT")
            }
        })
        .await
    }
}
