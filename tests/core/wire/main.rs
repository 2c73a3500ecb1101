//! The protocol: its bytes, pinned by a golden file; every split of a stream; every wrong byte.
//!
//! `samples` has one value of everything that travels. What decodes must encode to the same bytes
//! again, so that no two byte sequences mean the same.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod golden;
mod heads;
mod hellos;
mod hostile;
mod payloads;
mod samples;
mod streams;
