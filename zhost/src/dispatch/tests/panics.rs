//! A panic of user code ends its own job only.

use core::future::poll_fn;
use core::task::Poll;
use std::panic::panic_any;
use std::sync::Arc;

use super::{PanicsInDrop, Probe, limit, local, settle, unlimited};

/// One row for each place where user code may panic.
#[test]
fn a_panic_ends_its_own_job_only() {
    let (probe, gate) = (Probe::default(), limit(1));
    let mut tasks = local(&gate);
    tasks.submit(probe.job("in the callback", || panic!("user text")));
    tasks.submit(probe.job("in the first poll", || Box::pin(async { panic!("user text") })));
    let latch = Arc::clone(&probe.latch);
    tasks.submit(probe.job("in a later poll", move || {
        Box::pin(async move {
            latch.opened().await;
            panic!("user text")
        })
    }));
    tasks.submit(probe.job("in its destructor", || {
        let captured = PanicsInDrop;
        Box::pin(poll_fn(move |_| {
            let _ = &captured;
            Poll::Ready(())
        }))
    }));
    tasks.submit(probe.job("in the payload", || panic_any(PanicsInDrop)));
    tasks.submit(probe.quick(1));
    settle(&mut tasks);
    assert_eq!((tasks.counts().panicked.total(), probe.seen()), (2, vec![]));
    probe.latch.open();
    settle(&mut tasks);
    assert_eq!((tasks.counts().panicked.total(), probe.seen()), (5, vec![1]));
    assert_eq!((probe.permits(), gate.running()), (0, 0));
    assert!(tasks.is_empty(), "nothing is left");
}

#[test]
fn the_payload_of_a_panic_is_dropped() {
    let (probe, gate) = (Probe::default(), unlimited());
    let mut tasks = local(&gate);
    let payload = Arc::clone(&probe.latch);
    tasks.submit(probe.job("panics", move || panic_any(payload)));
    settle(&mut tasks);
    assert_eq!(Arc::strong_count(&probe.latch), 1);
}
