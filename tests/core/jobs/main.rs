//! Jobs: permits and their line, pressure, the receive queue, and what is certain of an operation.
//!
//! `histories` walks every history of a small job queue to a stated depth against `model`, which is
//! plainly right, and random longer ones with more sources. The other modules state single lines of
//! the contract.
//!
//! # Mutants
//!
//! Each of these changes was made by hand to `zcore`, and made a test fail with assertions on and
//! with assertions off:
//!
//! * line: a request looks only at free permits and not at who waits; the youngest waiter is served
//!   first; a claimed grant stays in its line; unlinking forgets the tail; a source whose grant
//!   expired does not rejoin;
//! * permits: `cancel` loses what the source held; `start` returns two; a source accumulates; no
//!   bound on what is taken at once; a grant lasts one instant longer; a dead name stays alive;
//! * pressure: judged before the hand-over; the pause rounds down; resumes only below its count;
//! * receive: resumes above the low-water mark; a small record passes the refused one; the refusal
//!   outlives the resume;
//! * outcome: a claimed record counts as safe to retry.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod histories;
mod limits;
mod model;
mod outcome;
mod permits;
mod pressure;
mod receive;
