//! A freestanding program that uses zcore, as an embedded one would.
//!
//! It defines its own panic handler and no allocator. Whatever links std brings a second panic
//! handler, whatever links alloc asks for a global allocator: either one fails the build. In
//! release code the handler calls a symbol that exists nowhere, so the link fails as soon as one
//! panic can be reached.
//!
//! To extend the proof, call more of zcore from `exercise` and fold the results into its value, or
//! the optimiser takes the calls out. Arguments that the optimiser knew would let it prove panics
//! away that others could reach; they come from `input`.
#![no_std]

use core::hint::black_box;
use core::time::Duration;

use zcore::wire::{Decoder, ErrorReply, Goodbye, HELLO_BYTES, Hello, Label, Lane, Limits, Piece};
use zcore::{
    Account, ByteCount, Charge, DeadlineSlot, Ending, Family, HighWaterMark, Instant, JobQueue,
    PermitLimit, QueueId, Quota, ReceiveQueue, Request, SendQueue, SourceSlot, Thresholds, Timeout,
    WaiterSlot, Waiters,
};

const SLOTS: usize = 4;

#[cfg(feature = "poison-std")]
extern crate std;

#[cfg(feature = "poison-alloc")]
extern crate alloc;

/// The entry point that the linker keeps.
// SAFETY: no other symbol of the linked program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn zcore_proof(input: u64) -> u64 {
    exercise(black_box(input))
}

fn exercise(input: u64) -> u64 {
    #[cfg(feature = "poison-alloc")]
    let input = black_box(alloc::vec![input])[0];
    #[cfg(feature = "poison-panic")]
    let input = [1, 2, 3][usize::try_from(input).unwrap_or(usize::MAX)];
    let results =
        [bytes(input), timeouts(input), sends(input), receives(input), jobs(input), wire(input)];
    results.into_iter().fold(0, u64::wrapping_add)
}

/// Makes the optimiser compute a value that nobody needs.
fn keep<T>(value: T) {
    black_box(value);
}

fn bytes(input: u64) -> u64 {
    let mut account = Account::new(HighWaterMark::Limit(ByteCount::new(input)));
    let charge = Charge::of_encoded(black_box(input));
    if account.admits(charge) {
        account.charge(charge);
    }
    let held = black_box(&mut account).accounted().get();
    account.release(charge);
    held.wrapping_add(account.peak().get())
}

fn timeouts(input: u64) -> u64 {
    match Timeout::new(Duration::from_nanos(input)) {
        Ok(timeout) => u64::from(timeout.get().subsec_nanos()),
        Err(_) => 0,
    }
}

fn sends(input: u64) -> u64 {
    let mark = HighWaterMark::Limit(ByteCount::new(input));
    let charge = Charge::of_encoded(black_box(input));
    let now = Instant::from_nanos(input);
    let mut waiters = Waiters::new(
        [WaiterSlot::EMPTY; SLOTS],
        [DeadlineSlot::EMPTY; SLOTS],
        [Quota::DEFAULT; Family::COUNT],
    );
    let mut queue = SendQueue::new(QueueId::new(0), mark, ByteCount::new(black_box(input)));
    let mut settled = 0;
    for _ in 0..black_box(input) {
        keep(queue.submit(charge));
        keep(queue.submit_control(charge));
        if let Ok(token) = queue.wait(&mut waiters, Family::Send, charge, now) {
            settled += queue.expire(&mut waiters, token, now).count();
            settled += usize::from(queue.withdraw(&mut waiters, token, now).is_some());
        }
        settled += queue.sent(&mut waiters, charge, black_box(now)).count();
    }
    settled += queue.set_mark(&mut waiters, mark, now).count();
    settled += queue.end(&mut waiters, Ending::Detached, now).count();
    let deadline = waiters.next_deadline().map_or(0, Instant::as_nanos);
    deadline.wrapping_add(u64::try_from(settled).unwrap_or(u64::MAX))
}

fn receives(input: u64) -> u64 {
    let mut queue = ReceiveQueue::new(HighWaterMark::Limit(ByteCount::new(input)));
    let charge = Charge::of_encoded(black_box(input));
    keep(queue.arrive(charge));
    queue.arrive_control(charge);
    keep(queue.hand_over(charge));
    queue.discard(charge);
    black_box(&mut queue).account().peak().get()
}

fn jobs(input: u64) -> u64 {
    let wanted = u32::try_from(input).unwrap_or(u32::MAX);
    let now = Instant::from_nanos(input);
    let Ok(limit) = PermitLimit::new(wanted) else { return 0 };
    let Ok(thresholds) = Thresholds::new(wanted, black_box(wanted)) else { return 0 };
    let Ok(mut jobs) = JobQueue::new([SourceSlot::EMPTY; SLOTS], limit, thresholds) else {
        return 0;
    };
    let mut granted = 0;
    while let Ok(source) = jobs.register() {
        if matches!(jobs.request(source, wanted, now), Request::Taken(_)) {
            granted += u32::from(jobs.claim(source));
        }
        keep(jobs.start(now));
        keep(jobs.classify_as_control(now));
        keep(jobs.start_many(wanted, now).count());
        keep(jobs.cancel(source, now).count());
    }
    keep(jobs.expire_grants(now).count());
    keep(jobs.take_pressure_change());
    u64::from(granted)
}

/// Decodes bytes that nobody knows.
fn wire(input: u64) -> u64 {
    let bytes = black_box([input; HELLO_BYTES / 8]).map(u64::to_le_bytes);
    let bytes = bytes.as_flattened();
    if let Some(hello) = bytes.first_chunk() {
        keep(Hello::decode(hello).map(|hello| hello.encode()));
    }
    keep(Label::from_bytes(bytes).is_ok());
    keep(ErrorReply::decode(bytes).map(ErrorReply::encode));
    keep(Goodbye::decode(bytes).map(Goodbye::encode));
    let limits = Limits { lane: Lane::Application, max_message_size: ByteCount::new(input) };
    let mut decoder = Decoder::new(limits);
    let mut rest = bytes;
    let mut seen = 0_u64;
    while let Ok(Some(piece)) = decoder.next(&mut rest) {
        seen = seen.wrapping_add(match piece {
            Piece::Head(head) => head.encode().iter().copied().map(u64::from).sum(),
            Piece::Body(body) => body.iter().copied().map(u64::from).sum(),
            Piece::End => 1,
        });
    }
    seen
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    #[cfg(not(debug_assertions))]
    {
        unsafe extern "C" {
            safe fn zcore_can_panic() -> !;
        }
        zcore_can_panic()
    }
    #[cfg(debug_assertions)]
    loop {
        core::hint::spin_loop();
    }
}
