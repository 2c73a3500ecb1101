//! What ZLink decides: admit, wait, refuse, grant, expire.
//!
//! `zcore` does no I/O, reads no clock, allocates nothing and never panics. Time is an argument,
//! storage is lent by the caller, and a message is only its [`Charge`]: names and payloads stay
//! outside. The same state machines serve a Linux server and a microcontroller.
//!
//! # The model
//!
//! Two resources bound everything, and they never meet:
//!
//! * **Bytes** held by queues: [`Account`], [`SendQueue`], [`ReceiveQueue`]. A high-water mark
//!   limits the *accounted* bytes of one origin in one direction (B-05).
//! * **Jobs** that wait for a handler to start: [`JobQueue`], whose *permits* are one count for the
//!   whole host (B-06), watched by its [`Pressure`].
//!
//! No function turns one into the other (B-07).
//!
//! Beside them stands what two nodes know of each other from one connection to the next:
//! [`Acquaintance`] says which connection they use, [`Given`] and [`Claims`] what of the last one
//! arrived.
//!
//! # Invariants worth naming
//!
//! * Accounted bytes never exceed the larger of the mark and one record, plus the control records
//!   of [`limits::CONTROL_ALLOWANCE`] (B-26).
//! * A new submission never passes a waiter of its queue, and no waiter passes an older one.
//! * A waiting operation ends exactly once: admitted, expired, withdrawn or refused (B-35).
//! * Permits in use plus free permits equal the limit, always (B-41).
//!
//! Every mutating call ends in `assert_invariants` where debug assertions are on.
//!
//! # Calling order
//!
//! Calls that may settle waiters return a borrowing iterator of effects. The borrow is the
//! contract: the machine cannot be used again before its effects are drained or dropped, and
//! dropping them early delays an admission to the next call instead of losing it.
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::as_conversions, clippy::arithmetic_side_effects, clippy::indexing_slicing)]

mod account;
mod acquaintance;
mod charge;
mod deadlines;
mod job_queue;
pub mod limits;
mod outcome;
mod pressure;
mod receive_queue;
mod resume;
mod send_queue;
mod time;
mod units;
mod waiters;
pub mod wire;

pub use account::{Account, HighWaterMark};
pub use acquaintance::{Acquaintance, Order, Ruling, Run, Speaker, Standing, rule_on_dial};
pub use charge::Charge;
pub use deadlines::{DeadlineSlot, Deadlines};
pub use job_queue::{
    ApplicationJobQueueProfile, Grants, JobCounts, JobQueue, NoSourceSlots, PermitLimit,
    PermitLimitOutOfRange, Request, SourceId, SourceSlot, SourcesFull,
};
pub use outcome::{Certainty, Progress, ProgressEvent, Stage, Verdict};
pub use pressure::{Pressure, PressureMarks, Thresholds, ThresholdsError};
pub use receive_queue::{Arrival, Flow, ReceiveCounts, ReceiveQueue};
pub use resume::{Claims, Given, Settlement, Statement, Tally};
pub use send_queue::{Effect, Effects, Ending, QueueId, SendQueue, Submission};
pub use time::{Instant, Timeout, TimeoutOutOfRange};
pub use units::ByteCount;
pub use waiters::{Family, Quota, QuotaError, WaitSpaceFull, WaiterSlot, WaiterToken, Waiters};
