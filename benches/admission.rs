//! Queue admission on one thread: bytes, permits, and the hand-over to a waiter.
//!
//! One operation is a pair of taking and giving back. Compare rows of one run; the absolute figures
//! are those of the machine.

use core::hint::black_box;
use core::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use zcore::{
    ByteCount, Charge, DeadlineSlot, Family, HighWaterMark, Instant, JobQueue, PermitLimit,
    QueueId, Quota, SendQueue, SourceSlot, Thresholds, WaiterSlot, Waiters,
};

const fn send_queue() -> SendQueue {
    let mark = HighWaterMark::Limit(ByteCount::mib(1));
    SendQueue::new(QueueId::new(0), mark, ByteCount::mib(16))
}

fn bytes(criterion: &mut Criterion) {
    let charge = Charge::of_encoded(96);
    let mut queue = send_queue();
    criterion.bench_function("bytes/admit and release", |bencher| {
        bencher.iter(|| {
            let submission = queue.submit(black_box(charge));
            queue.release(charge);
            submission
        });
    });
}

fn waiters(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bytes/hand over to the oldest waiter");
    for waiting in [1_u32, 64, 4_000] {
        group.bench_with_input(
            BenchmarkId::from_parameter(waiting),
            &waiting,
            |bencher, waiting| {
                let slots = vec![WaiterSlot::EMPTY; 4_096];
                let deadlines = vec![DeadlineSlot::EMPTY; 4_096];
                let quota = Quota::with_default_share(5_000, ByteCount::mib(64));
                let mut space = Waiters::new(slots, deadlines, [quota; Family::COUNT]);
                // A mark of one record: each release admits exactly one waiter.
                let charge = Charge::of_encoded(96);
                let mark = HighWaterMark::Limit(charge.bytes());
                let mut queue = SendQueue::new(QueueId::new(0), mark, ByteCount::mib(16));
                queue.submit(charge);
                let deadline = Instant::EPOCH.saturating_add(Duration::from_secs(1));
                for _ in 0..*waiting {
                    queue.wait(&mut space, Family::Send, charge, deadline).ok();
                }
                bencher.iter(|| {
                    let admitted = queue.sent(&mut space, charge, Instant::EPOCH).count();
                    queue.wait(&mut space, Family::Send, charge, deadline).ok();
                    admitted
                });
            },
        );
    }
    group.finish();
}

fn permits(criterion: &mut Criterion) {
    let slots = vec![SourceSlot::EMPTY; 64];
    let limit = PermitLimit::automatic(2, zcore::ApplicationJobQueueProfile::Balanced);
    let Ok(mut jobs) = JobQueue::new(slots, limit, Thresholds::DEFAULT) else { return };
    let Ok(source) = jobs.register() else { return };
    criterion.bench_function("permits/take, claim and start", |bencher| {
        bencher.iter(|| {
            let request = jobs.request(black_box(source), 1, Instant::EPOCH);
            jobs.claim(source);
            (request, jobs.start(Instant::EPOCH))
        });
    });
}

criterion_group!(admission, bytes, waiters, permits);
criterion_main!(admission);
