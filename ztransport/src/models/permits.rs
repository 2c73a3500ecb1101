//! Permits that come back while a shard asks for one.

use std::sync::Arc;

use loom::thread::{self, JoinHandle};
use zcore::{Instant, JobQueue, PermitLimit, SourceId, SourceSlot, Thresholds};

use super::{Sleeper, context, doorbell, explore, join};
use crate::clock::VirtualClock;
use crate::doorbell::Doorbell;
use crate::lane::LaneContext;
use crate::permits::{Permit, Permits};

const READY: u32 = 20;

/// The only permit of a host is held, and comes back at any time.
struct Scarcity {
    permits: Arc<Permits>,
    handler: JoinHandle<()>,
    /// Of the peer [`READY`], which has a record.
    source: SourceId,
}

impl Scarcity {
    /// The shard of the peers is at `bell`.
    fn new(bell: &Arc<Doorbell>, timekeeper: &Arc<Doorbell>) -> Self {
        let clock = Arc::new(VirtualClock::new());
        let slots = vec![SourceSlot::EMPTY; 2].into_boxed_slice();
        let limit = PermitLimit::new(1).unwrap();
        let queue = JobQueue::new(slots, limit, Thresholds::DEFAULT).unwrap();
        let permits = Arc::new(Permits::new(queue, Arc::<VirtualClock>::clone(&clock)));
        let lanes = LaneContext { bell: Arc::clone(bell), ..context(timekeeper, clock) };
        let busy = permits.register(&lanes, 3).unwrap();
        let source = permits.register(&lanes, READY).unwrap();
        let mut held = Vec::new();
        permits.take(busy, 1, Instant::EPOCH, &mut held);
        assert_eq!(held.len(), 1, "the only permit is taken");
        let handler = thread::spawn(move || drop(held));
        Self { permits, handler, source }
    }
}

#[test]
fn a_permit_that_comes_back_reaches_the_source_that_waits() {
    explore(|| {
        let bell = doorbell();
        let sleeper = Sleeper::connect(&bell);
        let Scarcity { permits, handler, source } = Scarcity::new(&bell, &bell);
        let mut taken: Vec<Permit> = Vec::new();
        permits.take(source, 1, Instant::EPOCH, &mut taken);
        sleeper.run(vec![handler], || {
            bell.take(|peer, _| {
                assert_eq!(peer, READY, "nobody else waits");
                permits.take(source, 1, Instant::EPOCH, &mut taken);
            });
        });
        assert_eq!(taken.len(), 1, "the shard has the permit before it sleeps for ever");
    });
}

/// The shard that is granted the permit is held up by a handler, and claims nothing (D-12).
#[test]
fn the_end_of_a_grant_is_not_slept_through() {
    explore(|| {
        let (bell, timekeeper) = (doorbell(), doorbell());
        let sleeper = Sleeper::connect(&timekeeper);
        let Scarcity { permits, handler, source } = Scarcity::new(&bell, &timekeeper);
        let mut taken: Vec<Permit> = Vec::new();
        permits.take(source, 1, Instant::EPOCH, &mut taken);
        let next_deadline = || permits.next_deadline().unwrap_or(Instant::FAR_FUTURE);
        let until = timekeeper.fall_asleep(next_deadline(), next_deadline).unwrap();
        join([handler]);
        let due = permits.next_deadline().unwrap_or(Instant::FAR_FUTURE);
        assert!(until <= due || sleeper.eventfd.read(), "it sleeps until {until:?}, due {due:?}");
        timekeeper.wake_up();
    });
}
