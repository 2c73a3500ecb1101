//! How other threads tell a shard that there is work, and end its sleep only when they must.
//!
//! There is no command queue. Whoever changes state under a lane's lock sets a bit here, and the
//! set of bits cannot be full. A sleeping shard has published the instant at which it wakes by
//! itself; the eventfd is written only if that is too late. Both sides store, fence and load: at
//! least one of them sees the other.

use core::fmt;
use core::sync::atomic::Ordering;

use zcore::Instant;

use crate::sync::{AtomicBool, AtomicU64, OnceLock, fence};

/// What there is to do for a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Errand {
    /// Its Application lane has records to send.
    SendApplication,
    /// Its Completion lane has records to send.
    SendCompletion,
    /// A permit was handed to it.
    Granted,
    /// It is to be detached.
    Detach,
}

impl Errand {
    const COUNT: u32 = 4;
    const ALL: [Self; 4] =
        [Self::SendApplication, Self::SendCompletion, Self::Granted, Self::Detach];

    const fn bit(self) -> u32 {
        match self {
            Self::SendApplication => 0,
            Self::SendCompletion => 1,
            Self::Granted => 2,
            Self::Detach => 3,
        }
    }
}

const PEERS_PER_WORD: u32 = u64::BITS / Errand::COUNT;

/// The shard is running and looks at the bits before it sleeps.
const AWAKE: u64 = 0;

/// The bits and the published sleep of one shard.
pub struct Doorbell {
    words: Box<[AtomicU64]>,
    /// Whether any word may hold a bit.
    rung: AtomicBool,
    /// [`AWAKE`], or the nanosecond at which the shard wakes by itself.
    sleeps_until: AtomicU64,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Doorbell {
    /// A doorbell for peers with slots below `peers_max`.
    pub fn new(peers_max: u32) -> Self {
        let words = peers_max.div_ceil(PEERS_PER_WORD);
        Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            rung: AtomicBool::new(false),
            sleeps_until: AtomicU64::new(AWAKE),
            wake: OnceLock::new(),
        }
    }

    /// Sets how to end the shard's sleep; once, by the shard itself.
    pub fn connect(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let fresh = self.wake.set(wake).is_ok();
        debug_assert!(fresh, "a doorbell belongs to one shard");
    }

    /// Leaves an errand for the shard.
    pub fn ring(&self, peer: u32, errand: Errand) {
        let shift = (peer % PEERS_PER_WORD) * Errand::COUNT + errand.bit();
        let index = usize::try_from(peer / PEERS_PER_WORD).unwrap_or(usize::MAX);
        let Some(word) = self.words.get(index) else {
            debug_assert!(false, "peer {peer} is above the doorbell's {} words", self.words.len());
            return;
        };
        if word.fetch_or(1 << shift, Ordering::Release) & (1 << shift) == 0 {
            self.knock();
        }
    }

    /// Makes the shard run a turn.
    pub fn knock(&self) {
        // A swap, so that the shard which takes the last ring sees what every ringer did before.
        self.rung.swap(true, Ordering::AcqRel);
        self.end_sleep_if(|_| true);
    }

    /// Makes sure that the shard is awake by `deadline`, which is registered already.
    pub fn wake_by(&self, deadline: Instant) {
        self.end_sleep_if(|until| deadline.as_nanos() < until);
    }

    /// Takes all errands out. The shard calls it; O(peers / 16), and one load when there are none.
    pub fn take(&self, mut run: impl FnMut(u32, Errand)) {
        if !self.rung.swap(false, Ordering::Acquire) {
            return;
        }
        for (word, base) in self.words.iter().zip((0_u32..).step_by(PEERS_PER_WORD as usize)) {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                let shift = bits.trailing_zeros();
                bits &= bits - 1;
                for errand in Errand::ALL {
                    if errand.bit() == shift % Errand::COUNT {
                        run(base + shift / Errand::COUNT, errand);
                    }
                }
            }
        }
    }

    /// Whether [`Doorbell::take`] may find something.
    pub fn is_rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// Publishes that the shard sleeps until `deadline`. How long it may sleep; `None` if it must
    /// not, as work came in first.
    ///
    /// `next_deadline` is read afterwards, so that an earlier one which is registered meanwhile is
    /// not slept through. Every sleep ends in [`Doorbell::wake_up`].
    pub fn fall_asleep(
        &self,
        deadline: Instant,
        next_deadline: impl FnOnce() -> Instant,
    ) -> Option<Instant> {
        // Released, so that whoever ends this sleep knows how: the shard has connected before.
        self.sleeps_until.store(deadline.as_nanos().max(1), Ordering::Release);
        fence(Ordering::SeqCst);
        if self.is_rung() {
            self.wake_up();
            return None;
        }
        Some(next_deadline().min(deadline))
    }

    /// Publishes that the shard is awake.
    pub fn wake_up(&self) {
        self.sleeps_until.store(AWAKE, Ordering::Relaxed);
    }

    fn end_sleep_if(&self, too_late: impl Fn(u64) -> bool) {
        fence(Ordering::SeqCst);
        let until = self.sleeps_until.load(Ordering::Relaxed);
        if until == AWAKE || !too_late(until) {
            return;
        }
        // Only one of many threads pays for the system call. The sleep that it ends may be a later
        // one than it saw, so it acquires what was done before that one.
        if self.sleeps_until.swap(AWAKE, Ordering::Acquire) != AWAKE
            && let Some(wake) = self.wake.get()
        {
            wake();
        }
    }
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { words, rung, sleeps_until, wake } = self;
        f.debug_struct("Doorbell")
            .field("words", &words.len())
            .field("rung", rung)
            .field("sleeps_until", sleeps_until)
            .field("connected", &wake.get().is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Doorbell, Errand};
    use core::sync::atomic::{AtomicU32, Ordering};
    use std::sync::Arc;
    use zcore::Instant;

    fn doorbell() -> (Arc<Doorbell>, Arc<AtomicU32>) {
        let bell = Arc::new(Doorbell::new(40));
        let wakes = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&wakes);
        bell.connect(Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        }));
        (bell, wakes)
    }

    #[test]
    fn every_errand_of_every_peer_comes_out_once() {
        let (bell, _) = doorbell();
        for peer in [0, 15, 16, 39] {
            for errand in Errand::ALL {
                bell.ring(peer, errand);
                bell.ring(peer, errand);
            }
        }
        let mut seen = Vec::new();
        bell.take(|peer, errand| seen.push((peer, errand)));
        let expected: Vec<_> =
            [0, 15, 16, 39].into_iter().flat_map(|peer| Errand::ALL.map(|e| (peer, e))).collect();
        assert_eq!(seen, expected, "each pair of peer and errand");
        bell.take(|peer, _| panic!("peer {peer} came out twice"));
    }

    /// Publishes a sleep until `deadline`, and reads no earlier one then.
    fn falls_asleep(bell: &Doorbell, deadline: Instant) -> bool {
        bell.fall_asleep(deadline, || deadline).is_some()
    }

    #[test]
    fn a_sleeping_shard_is_woken_once_for_many_errands() {
        let (bell, wakes) = doorbell();
        assert!(falls_asleep(&bell, Instant::FAR_FUTURE), "nothing is to be done");
        for peer in 0..40 {
            bell.ring(peer, Errand::SendApplication);
        }
        assert_eq!(wakes.load(Ordering::Relaxed), 1, "one system call");
    }

    #[test]
    fn an_awake_shard_is_never_woken() {
        let (bell, wakes) = doorbell();
        bell.ring(3, Errand::Granted);
        bell.wake_by(Instant::EPOCH);
        assert_eq!(wakes.load(Ordering::Relaxed), 0, "it looks before it sleeps");
        assert!(!falls_asleep(&bell, Instant::FAR_FUTURE), "there is an errand");
    }

    #[test]
    fn only_an_earlier_deadline_ends_a_sleep() {
        let (bell, wakes) = doorbell();
        assert!(falls_asleep(&bell, Instant::from_nanos(100)), "nothing is to be done");
        bell.wake_by(Instant::from_nanos(100));
        bell.wake_by(Instant::from_nanos(200));
        assert_eq!(wakes.load(Ordering::Relaxed), 0, "it wakes by itself in time");
        bell.wake_by(Instant::from_nanos(99));
        assert_eq!(wakes.load(Ordering::Relaxed), 1, "it would sleep too long");
    }

    #[test]
    fn a_shard_sleeps_until_the_earlier_of_what_it_published_and_what_it_read_then() {
        let (bell, _) = doorbell();
        for (then, until) in [(50, 50), (100, 100), (200, 100)] {
            let slept = bell.fall_asleep(Instant::from_nanos(100), || Instant::from_nanos(then));
            assert_eq!(slept, Some(Instant::from_nanos(until)), "{then} was read");
        }
    }
}
