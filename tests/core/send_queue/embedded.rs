//! The same queue for a program without an allocator: the caller lends the memory, and its size is
//! known when the program is built.

use core::mem::size_of;

use zcore::ByteCount;
use zcore::DeadlineSlot;
use zcore::Effect;
use zcore::Family;
use zcore::HighWaterMark;
use zcore::Instant;
use zcore::QueueId;
use zcore::Quota;
use zcore::SendQueue;
use zcore::Submission;
use zcore::WaitSpaceFull;
use zcore::WaiterSlot;
use zcore::Waiters;

use crate::world::charge_of;

const SLOTS: usize = 4;

const _: () = {
    assert!(size_of::<WaiterSlot>() == 40, "what one waiting operation takes");
    assert!(size_of::<DeadlineSlot>() == 16, "what its deadline takes");
    assert!(size_of::<SendQueue>() == 88, "what one target takes");
};

/// Constants, so that a static may hold them.
static EMPTY_SLOTS: [WaiterSlot; SLOTS] = [WaiterSlot::EMPTY; SLOTS];
static EMPTY_DEADLINES: [DeadlineSlot; SLOTS] = [DeadlineSlot::EMPTY; SLOTS];

const MARK: HighWaterMark = HighWaterMark::Limit(ByteCount::new(200));
const QUEUE: SendQueue = SendQueue::new(QueueId::new(0), MARK, ByteCount::new(300));
const NOW: Instant = Instant::EPOCH;

/// The wait space fills, empties through the queue and fills again.
fn exercise<S, D>(mut waiters: Waiters<S, D>)
where
    S: AsRef<[WaiterSlot]> + AsMut<[WaiterSlot]>,
    D: AsRef<[DeadlineSlot]> + AsMut<[DeadlineSlot]>,
{
    let mut queue = QUEUE;
    assert_eq!(queue.submit(charge_of(200)), Submission::Admitted, "it is empty");
    for round in 0..5 {
        let deadline = Instant::from_nanos(10 + round);
        let tokens = [64, 64, 64, 80].map(|charge| {
            assert_eq!(queue.submit(charge_of(charge)), Submission::MustWait, "it is full");
            queue.wait(&mut waiters, Family::Send, charge_of(charge), deadline).unwrap()
        });
        let fifth = queue.wait(&mut waiters, Family::Send, charge_of(64), deadline);
        assert_eq!(fifth, Err(WaitSpaceFull), "there are four slots");
        assert!(tokens.iter().all(|token| token.slot() < 4), "a token names a slot");
        let [first, second, third, last] = tokens;
        let admitted = [first, second, third].map(Effect::Admit);
        let effects = queue.sent(&mut waiters, charge_of(200), NOW);
        assert!(effects.eq(admitted), "three fit, the fourth does not");
        let effects = queue.expire(&mut waiters, last, deadline);
        assert!(effects.eq([Effect::Expire(last)]), "the fourth was due");
        assert_eq!(waiters.next_deadline(), None, "nobody waits");
        for _ in 0..3 {
            let effects = queue.sent(&mut waiters, charge_of(64), NOW);
            assert_eq!(effects.count(), 0, "nobody waits");
        }
        assert_eq!(queue.submit(charge_of(200)), Submission::Admitted, "it is empty again");
    }
}

const QUOTAS: [Quota; Family::COUNT] = [Quota::DEFAULT; Family::COUNT];

#[test]
fn a_queue_waits_in_a_full_length_heapless_vec() {
    let slots: heapless::Vec<_, SLOTS> = EMPTY_SLOTS.iter().copied().collect();
    let deadlines: heapless::Vec<_, SLOTS> = EMPTY_DEADLINES.iter().copied().collect();
    exercise(Waiters::new(slots, deadlines, QUOTAS));
}

#[test]
fn a_queue_waits_in_arrays_and_in_lent_slices() {
    exercise(Waiters::new(EMPTY_SLOTS, EMPTY_DEADLINES, QUOTAS));
    let (mut slots, mut deadlines) = (EMPTY_SLOTS, EMPTY_DEADLINES);
    exercise(Waiters::new(&mut slots[..], &mut deadlines[..], QUOTAS));
    exercise(Waiters::new(&mut slots[..], &mut deadlines[..], QUOTAS));
}

#[test]
fn the_shorter_of_two_storages_is_the_bound() {
    exercise(Waiters::new([WaiterSlot::EMPTY; 4], [DeadlineSlot::EMPTY; 9], QUOTAS));
    exercise(Waiters::new([WaiterSlot::EMPTY; 9], [DeadlineSlot::EMPTY; 4], QUOTAS));
}

#[test]
fn no_storage_means_nobody_waits() {
    let slots: heapless::Vec<WaiterSlot, SLOTS> = heapless::Vec::new();
    let mut waiters = Waiters::new(slots, [DeadlineSlot::EMPTY; SLOTS], QUOTAS);
    let mut queue = QUEUE;
    assert_eq!(queue.submit(charge_of(200)), Submission::Admitted);
    let refused = queue.wait(&mut waiters, Family::Send, charge_of(64), NOW);
    assert_eq!(refused, Err(WaitSpaceFull));
    assert_eq!(waiters.next_deadline(), None);
}
