//! Whole records, sealed for one send.

use bytes::{Buf, Bytes};
use zcore::wire::Kind;
use zcore::{Charge, Given};

/// The longest list of segments in one send: half of the kernel's `IOV_MAX`, and at 16 KiB a chunk
/// far beyond what the byte limit of a batch needs.
pub const SEGMENTS_MAX: usize = 512;

/// Records on their way to the kernel, in the order of their lane.
///
/// A record in a sealed batch counts as handed over: whether the peer has seen it can no longer be
/// known from here.
#[derive(Debug, Default)]
pub struct Batch {
    segments: Vec<Bytes>,
    records: Vec<SealedRecord>,
    /// Records that are sent in full.
    sent_records: usize,
    /// Segments that are sent in full.
    sent_segments: usize,
    /// Bytes sent of the first record that is not sent in full.
    partial: u64,
    unsent: u64,
    /// Its requests, with the numbers that they have once they are given to a peer.
    requests: Vec<HandedOver>,
    /// The pair that it was given to; an Application lane's only.
    pub(crate) generation: u32,
    /// Which life of its lane it was sealed in; a later one does not know its charges.
    pub(crate) epoch: u64,
}

/// A request that is handed to the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HandedOver {
    /// Its id.
    pub id: u64,
    /// Its number among the messages of its pair, from 1 on: what the peer claims is compared with
    /// it (D-25).
    pub number: u64,
}

/// What a batch knows of one of its records.
#[derive(Clone, Copy, Debug)]
pub struct SealedRecord {
    /// Its bytes on the wire.
    pub encoded: u64,
    /// What its queue was charged.
    pub charge: Charge,
    /// What it is.
    pub kind: Kind,
}

impl Batch {
    /// Appends a run of encoded bytes.
    pub fn push_segment(&mut self, segment: Bytes) {
        self.unsent = self.unsent.saturating_add(segment.len() as u64);
        self.segments.push(segment);
    }

    /// Notes that the segments pushed since the last record hold one more.
    pub fn push_record(&mut self, record: SealedRecord) {
        self.records.push(record);
    }

    /// Notes the id of the record that was pushed last, a request.
    pub(crate) fn push_request(&mut self, id: u64) {
        self.requests.push(HandedOver { id, number: 0 });
    }

    /// Counts its messages into what a peer was given, and its requests get their numbers.
    pub(crate) fn give(&mut self, given: &mut Given) {
        let mut requests = self.requests.iter_mut();
        for record in &self.records {
            let number = given.give(record.kind);
            if record.kind == Kind::Request
                && let Some(request) = requests.next()
            {
                request.number = number;
            }
        }
    }

    /// Its requests.
    pub(crate) fn requests(&self) -> &[HandedOver] {
        &self.requests
    }

    /// The segments that are still to be sent; the first may be a rest.
    pub fn segments(&self) -> &[Bytes] {
        self.segments.get(self.sent_segments..).unwrap_or_default()
    }

    /// How many segments are still to be sent.
    pub const fn segment_count(&self) -> usize {
        self.segments.len().saturating_sub(self.sent_segments)
    }

    /// Bytes that are still to be sent.
    pub const fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Moves past `bytes` that the kernel took; the records that are now sent in full.
    pub fn advance(&mut self, bytes: u64) -> &[SealedRecord] {
        debug_assert!(bytes <= self.unsent, "sent {bytes} of {}", self.unsent);
        self.unsent = self.unsent.saturating_sub(bytes);
        self.drop_sent_segments(bytes);
        self.partial = self.partial.saturating_add(bytes);
        let from = self.sent_records;
        while let Some(record) = self.records.get(self.sent_records) {
            let Some(rest) = self.partial.checked_sub(record.encoded) else { break };
            self.partial = rest;
            self.sent_records += 1;
        }
        self.records.get(from..self.sent_records).unwrap_or_default()
    }

    /// The records that are not sent in full.
    pub fn unsent_records(&self) -> &[SealedRecord] {
        self.records.get(self.sent_records..).unwrap_or_default()
    }

    /// How many messages are not sent in full; control is not counted.
    pub fn unsent_messages(&self) -> u64 {
        self.unsent_records().iter().filter(|record| !record.kind.is_control()).count() as u64
    }

    /// How many messages that nobody answers are not sent in full.
    pub(crate) fn unsent_one_way(&self) -> u64 {
        self.unsent_records().iter().filter(|record| record.kind == Kind::Send).count() as u64
    }

    fn drop_sent_segments(&mut self, bytes: u64) {
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        while let Some(segment) = self.segments.get_mut(self.sent_segments) {
            if left < segment.len() {
                segment.advance(left);
                return;
            }
            left -= segment.len();
            *segment = Bytes::new();
            self.sent_segments += 1;
        }
    }
}
