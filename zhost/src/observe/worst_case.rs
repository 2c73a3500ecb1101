//! The most that is in flight, term by term.

use core::fmt;
use std::io;

use zcore::limits::CONTROL_ALLOWANCE;
use zcore::{ByteCount, HighWaterMark};
use ztransport::ByteLimits;
use ztransport::limits::KERNEL_SEGMENT_MAX;
use ztransport::socket::{self, SocketBuffers};

use crate::dispatch::RunningLimit;
use crate::engine::Shared;

/// The most bytes in flight from one host to another that is set up like it, and what the receiving
/// host holds behind that for all of its peers together. [`ByteCount::MAX`] where an option says
/// unlimited.
///
/// Each is a bound of its own: no peer takes the room of another (B-05). It prints as the formula,
/// filled in, one line a term (B-105). Memory that does not grow with what is in flight is not in
/// it: the drivers' buffers, tables, and what the allocator adds.
#[derive(Clone, Copy, Debug)]
pub struct WorstCase {
    limits: ByteLimits,
    asked: SocketBuffers,
    granted: SocketBuffers,
    carry: ByteCount,
    permits: u32,
    running: RunningLimit,
}

impl WorstCase {
    pub(crate) fn of(shared: &Shared) -> io::Result<Self> {
        let asked = shared.settings.socket_buffers;
        let (jobs, _) = shared.permits.snapshot();
        Ok(Self {
            limits: *shared.peers.limits(),
            asked,
            granted: socket::granted(asked)?,
            carry: carry(shared),
            permits: jobs.limit,
            running: shared.settings.running,
        })
    }

    /// Charged by the sender's queue (D-02, D-24).
    pub const fn send_queue(&self) -> ByteCount {
        self.limits.send_worst_case()
    }

    /// In the sender's kernel: its buffer as granted, and the segment that was begun when there was
    /// still room.
    pub const fn kernel_send(&self) -> ByteCount {
        self.granted.send.saturating_add(ByteCount::new(KERNEL_SEGMENT_MAX))
    }

    /// In the receiver's kernel: its buffer as granted. TCP offers no larger window.
    pub const fn kernel_receive(&self) -> ByteCount {
        self.granted.receive
    }

    /// Received behind a record that found no room, until receiving has stopped.
    pub const fn carry(&self) -> ByteCount {
        self.carry
    }

    /// Charged by the receiver's queue (D-02, D-24).
    pub const fn receive_queue(&self) -> ByteCount {
        self.limits.receive_worst_case()
    }

    /// All of the above: one direction of one peer.
    pub const fn one_direction(&self) -> ByteCount {
        self.send_queue()
            .saturating_add(self.kernel_send())
            .saturating_add(self.kernel_receive())
            .saturating_add(self.carry())
            .saturating_add(self.receive_queue())
    }

    /// Held by the jobs of a host that wait for their handlers: a permit each.
    pub fn jobs(&self) -> ByteCount {
        let (permits, each) = (u64::from(self.permits), self.limits.charge_max().get());
        ByteCount::new(permits.saturating_mul(each))
    }

    /// Held by the handlers of a host that have started (D-14).
    pub fn handlers(&self) -> ByteCount {
        match self.running {
            RunningLimit::Limit(limit) => {
                let (running, each) = (u64::from(limit.get()), self.limits.message_size_max.get());
                ByteCount::new(running.saturating_mul(each))
            }
            RunningLimit::Unlimited => ByteCount::MAX,
        }
    }
}

/// Shards have drivers of their own: the largest counts. One without a driver has no connections.
fn carry(shared: &Shared) -> ByteCount {
    let choices = shared.crew.iter().filter_map(|seat| seat.driver.get());
    ByteCount::new(choices.map(|choice| choice.carry_max).max().unwrap_or(0))
}

impl fmt::Display for WorstCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limits, asked, granted, carry, permits, running } = self;
        let (largest, control) = (limits.charge_max().get(), CONTROL_ALLOWANCE.get());
        let queue = |mark: HighWaterMark| match mark {
            HighWaterMark::Limit(mark) => format!("max({}, {largest}) + {control}", mark.get()),
            HighWaterMark::Unlimited => "no high-water mark".into(),
        };
        let handlers = match running {
            RunningLimit::Limit(limit) => format!("{limit} x {}", limits.message_size_max.get()),
            RunningLimit::Unlimited => "no limit of running handlers".into(),
        };
        let (kernel_send, kernel_receive) = (granted.send.get(), granted.receive.get());
        let lines = [
            ("send queue", self.send_queue(), queue(limits.send)),
            (
                "kernel, sending",
                self.kernel_send(),
                format!("{kernel_send} granted for {} + {KERNEL_SEGMENT_MAX}", asked.send.get()),
            ),
            (
                "kernel, receiving",
                self.kernel_receive(),
                format!("{kernel_receive} granted for {}", asked.receive.get()),
            ),
            ("carry", self.carry(), format!("{}", carry.get())),
            ("receive queue", self.receive_queue(), queue(limits.receive)),
            ("one direction of one peer", self.one_direction(), "the sum".into()),
            ("jobs of the host", self.jobs(), format!("{permits} x {largest}")),
            ("handlers of the host", self.handlers(), handlers),
        ];
        for (index, (name, bytes, formula)) in lines.into_iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            write!(f, "{gap}{name:<25}")?;
            match bytes {
                ByteCount::MAX => write!(f, " {:>22} = {formula}", "unlimited")?,
                bytes => write!(f, " {:>20} B = {formula}", bytes.get())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{RunningLimit, WorstCase};
    use core::num::NonZeroU32;
    use zcore::{ByteCount, HighWaterMark};
    use ztransport::ByteLimits;
    use ztransport::socket::SocketBuffers;

    fn worst_case(mark: HighWaterMark, running: RunningLimit) -> WorstCase {
        let kib = |send, receive| SocketBuffers {
            send: ByteCount::kib(send),
            receive: ByteCount::kib(receive),
        };
        let limits =
            ByteLimits { send: mark, receive: mark, message_size_max: ByteCount::new(100_000) };
        let carry = ByteCount::kib(256);
        let (asked, granted) = (kib(64, 32), kib(128, 64));
        WorstCase { limits, asked, granted, carry, permits: 3, running }
    }

    #[test]
    fn b_105_bo_003_the_formula_is_printed_term_by_term() {
        let mark = HighWaterMark::Limit(ByteCount::new(200_000));
        let running = RunningLimit::Limit(NonZeroU32::new(2).unwrap());
        let expected = "\
send queue                              216640 B = max(200000, 101375) + 16640
kernel, sending                         196608 B = 131072 granted for 65536 + 65536
kernel, receiving                        65536 B = 65536 granted for 32768
carry                                   262144 B = 262144
receive queue                           216640 B = max(200000, 101375) + 16640
one direction of one peer               957568 B = the sum
jobs of the host                        304125 B = 3 x 101375
handlers of the host                    200000 B = 2 x 100000";
        assert_eq!(worst_case(mark, running).to_string(), expected);
    }

    #[test]
    fn b_105_bo_003_a_message_above_the_mark_counts_in_its_place() {
        let mark = HighWaterMark::Limit(ByteCount::new(1_000));
        let worst = worst_case(mark, RunningLimit::Limit(NonZeroU32::MIN));
        assert_eq!(worst.send_queue(), ByteCount::new(101_375 + 16_640));
        assert_eq!(worst.receive_queue(), worst.send_queue());
    }

    #[test]
    fn b_105_without_a_limit_no_number_is_given() {
        let worst = worst_case(HighWaterMark::Unlimited, RunningLimit::Unlimited);
        assert_eq!(worst.one_direction(), ByteCount::MAX);
        assert_eq!(worst.handlers(), ByteCount::MAX);
        let printed = worst.to_string();
        let unlimited = printed.lines().filter(|line| line.contains(" unlimited = "));
        assert_eq!(unlimited.count(), 4, "both queues, the sum, and the handlers: {printed}");
        assert!(!printed.contains(&u64::MAX.to_string()), "{printed}");
    }
}
