//! Admitted records, encoded and in order, until the transport seals them into a batch.

use core::time::Duration;
use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use zcore::wire::{Kind, REMAINING_AT};
use zcore::{ByteCount, Charge, Instant};

use crate::batch::{Batch, SEGMENTS_MAX, SealedRecord};
use crate::record::Outgoing;

/// What a lane encodes into at a time.
const CHUNK_BYTES: usize = 16 << 10;

/// What an empty lane encodes into first: room for a probe, or for a few small replies. Many idle
/// lanes are probed at the same time, and a page that was written once stays with the process.
const FIRST_CHUNK_BYTES: usize = 256;

/// Lists of so few places are made anew for the next record: an idle lane then holds nothing, and
/// what that costs a lane with one record at a time is small beside the system call it takes.
const SHORT_LIST: usize = 4;

/// Payloads up to this are copied next to their header; longer ones ride as segments of their own.
/// Measured: copying and gathering cost the same at 1 KiB.
const COPY_MAX: usize = 1 << 10;

/// The number of a record in its lane, counted over all generations.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Ordinal(u64);

/// A queued record.
#[derive(Debug)]
struct Queued {
    /// Bytes in the chunks: header, address, metadata and a short payload.
    inline: usize,
    /// A long payload.
    payload: Bytes,
    charge: Charge,
    deadline: Option<Instant>,
    id: u64,
    kind: Kind,
    address: u8,
    retracted: bool,
}

impl Queued {
    /// Payload plus metadata.
    fn message_size(&self) -> ByteCount {
        let encoded = self.inline.saturating_add(self.payload.len());
        let head = zcore::wire::HEAD_BYTES.saturating_add(usize::from(self.address));
        ByteCount::new(encoded.saturating_sub(head) as u64)
    }

    /// Takes it out of what will be sent; its payload is the caller's to drop, outside its lock.
    fn retract(&mut self) -> Retracted {
        self.retracted = true;
        let record = SealedRecord { encoded: 0, charge: self.charge, kind: self.kind };
        Retracted { record, id: self.id, payload: core::mem::take(&mut self.payload) }
    }
}

/// A record that was taken back.
#[derive(Debug)]
pub(crate) struct Retracted {
    pub(crate) record: SealedRecord,
    pub(crate) id: u64,
    /// To be dropped outside the lane's lock.
    pub(crate) payload: Bytes,
}

/// Records that will not be sent.
#[derive(Debug, Default)]
pub(crate) struct Cleared {
    records: VecDeque<Queued>,
}

impl Cleared {
    /// How many messages there are; control is not counted.
    pub(crate) fn messages(&self) -> u64 {
        let is_message = |record: &&Queued| !record.retracted && !record.kind.is_control();
        self.records.iter().filter(is_message).count() as u64
    }
}

/// The records of one lane that are admitted and not yet sealed.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Encoded bytes; each record's inline part lies within one chunk.
    chunks: VecDeque<BytesMut>,
    records: VecDeque<Queued>,
    /// The ordinal of the first record, which is the number of records sealed so far.
    sealed: u64,
}

impl Chain {
    /// Appends a record. What is left of it is the caller's to drop, outside its lock: a payload's
    /// owner may run code of its own.
    pub(crate) fn push(&mut self, record: &mut Outgoing) -> Ordinal {
        let ordinal = Ordinal(self.sealed + self.records.len() as u64);
        let head = record.head();
        let charge = head.charge();
        let copies = record.payload.len() <= COPY_MAX;
        let mut inline = zcore::wire::HEAD_BYTES + record.address.len() + record.metadata.len();
        if copies {
            inline += record.payload.len();
        }
        let chunk = self.chunk_for(inline);
        chunk.extend_from_slice(&head.encode());
        chunk.extend_from_slice(&record.address);
        chunk.extend_from_slice(&record.metadata);
        let mut payload = Bytes::new();
        if copies {
            chunk.extend_from_slice(&record.payload);
        } else {
            payload = core::mem::take(&mut record.payload);
        }
        self.records.push_back(Queued {
            inline,
            payload,
            charge,
            deadline: record.deadline,
            id: record.id,
            kind: record.kind,
            address: head.address_len,
            retracted: false,
        });
        ordinal
    }

    /// Takes a record back that is not sealed yet: it will not be sent. `None` if it is sealed or
    /// taken back already.
    pub(crate) fn retract(&mut self, ordinal: Ordinal) -> Option<Retracted> {
        let index = ordinal.0.checked_sub(self.sealed)?;
        let record = self.records.get_mut(usize::try_from(index).ok()?)?;
        (!record.retracted).then(|| record.retract())
    }

    /// Takes back every message whose payload plus metadata is above a limit. O(records).
    pub(crate) fn retract_larger(&mut self, size_max: ByteCount) -> Vec<Retracted> {
        let is_larger = |record: &&mut Queued| {
            !record.retracted && !record.kind.is_control() && record.message_size() > size_max
        };
        self.records.iter_mut().filter(is_larger).map(Queued::retract).collect()
    }

    /// Cuts the next batch: whole records up to `bytes_max`, at least one.
    pub(crate) fn seal(&mut self, bytes_max: u64, now: impl Fn() -> Instant) -> Option<Batch> {
        let mut batch = Batch::default();
        let mut run = Run::default();
        let mut bytes: u64 = 0;
        while let Some(record) = self.records.front() {
            let encoded = (record.inline + record.payload.len()) as u64;
            let is_full = bytes + encoded > bytes_max || batch.segment_count() + 2 > SEGMENTS_MAX;
            if bytes > 0 && is_full && !record.retracted {
                break;
            }
            if let (Some(deadline), false) = (record.deadline, record.retracted) {
                self.write_remaining(run.bytes, deadline.since(now()));
            }
            let Some(record) = self.records.pop_front() else { break };
            self.sealed += 1;
            if record.retracted {
                run.cut(&mut self.chunks, &mut batch);
                Run::skip(&mut self.chunks, record.inline);
                continue;
            }
            bytes += encoded;
            run.bytes += record.inline;
            batch.push_record(SealedRecord { encoded, charge: record.charge, kind: record.kind });
            if record.kind == Kind::Request {
                batch.push_request(record.id);
            }
            if !record.payload.is_empty() {
                run.cut(&mut self.chunks, &mut batch);
                batch.push_segment(record.payload);
            }
            run.end_chunk(&mut self.chunks, &mut batch);
        }
        run.cut(&mut self.chunks, &mut batch);
        (batch.unsent() > 0).then_some(batch)
    }

    /// Lets every record go; the caller drops them, outside its lock.
    pub(crate) fn clear(&mut self) -> Cleared {
        self.sealed += self.records.len() as u64;
        self.chunks.clear();
        Cleared { records: core::mem::take(&mut self.records) }
    }

    /// Gives the memory of an idle lane back.
    pub(crate) fn trim(&mut self) {
        if self.records.is_empty() {
            self.chunks.clear();
            if self.records.capacity() <= SHORT_LIST {
                self.rest();
            }
        }
    }

    /// Gives the lists of an idle lane back, too, which have grown with its longest queue.
    pub(crate) fn rest(&mut self) {
        if self.records.is_empty() {
            self.chunks = VecDeque::new();
            self.records = VecDeque::new();
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.records.len() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Every record with a lower ordinal was handed over, or will not be.
    pub(crate) const fn sealed(&self) -> Ordinal {
        Ordinal(self.sealed)
    }

    fn chunk_for(&mut self, inline: usize) -> &mut BytesMut {
        let fits = self.chunks.back().is_some_and(|chunk| chunk.capacity() - chunk.len() >= inline);
        if !fits {
            // A used-up chunk in front of others would hide them from `seal`.
            if self.chunks.back().is_some_and(BytesMut::is_empty) {
                self.chunks.pop_back();
            }
            let is_first = self.chunks.is_empty();
            let bytes = if is_first { FIRST_CHUNK_BYTES } else { CHUNK_BYTES };
            self.chunks.push_back(BytesMut::with_capacity(bytes.max(inline)));
        }
        let last = self.chunks.len() - 1;
        &mut self.chunks[last]
    }

    /// Writes how long the caller still waits into the head at `offset` of the first chunk.
    fn write_remaining(&mut self, offset: usize, remaining: Duration) {
        let millis = u32::try_from(remaining.as_millis()).unwrap_or(u32::MAX).max(1);
        let at = offset + REMAINING_AT;
        if let Some(field) = self.chunks.front_mut().and_then(|chunk| chunk.get_mut(at..at + 4)) {
            field.copy_from_slice(&millis.to_le_bytes());
        }
    }
}

/// Consecutive records at the front of the first chunk, to become one segment.
#[derive(Debug, Default)]
struct Run {
    bytes: usize,
}

impl Run {
    /// Makes a segment of the run.
    fn cut(&mut self, chunks: &mut VecDeque<BytesMut>, batch: &mut Batch) {
        if let (Some(chunk), true) = (chunks.front_mut(), self.bytes > 0) {
            batch.push_segment(chunk.split_to(self.bytes).freeze());
        }
        self.bytes = 0;
        Self::drop_used_up(chunks);
    }

    /// Makes a segment of the run if it used the first chunk up.
    fn end_chunk(&mut self, chunks: &mut VecDeque<BytesMut>, batch: &mut Batch) {
        if chunks.front().is_some_and(|chunk| chunk.len() == self.bytes) {
            self.cut(chunks, batch);
        }
    }

    /// Leaves `inline` bytes of the first chunk out.
    fn skip(chunks: &mut VecDeque<BytesMut>, inline: usize) {
        if let Some(chunk) = chunks.front_mut() {
            chunk.advance(inline.min(chunk.len()));
        }
        Self::drop_used_up(chunks);
    }

    /// A used-up chunk goes, unless it is the last and can still be filled.
    fn drop_used_up(chunks: &mut VecDeque<BytesMut>) {
        if chunks.len() > 1 && chunks.front().is_some_and(BytesMut::is_empty) {
            chunks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{COPY_MAX, Chain};
    use crate::record::{Incoming, Outgoing};
    use bytes::{Bytes, BytesMut};
    use core::time::Duration;
    use zcore::wire::{Decoder, Kind, Lane, Limits, Piece, RouteHash};
    use zcore::{ByteCount, Instant};

    fn record(id: u64, payload: usize) -> Outgoing {
        let filler = Bytes::from(vec![u8::try_from(id % 251).unwrap(); payload]);
        Outgoing::new(Kind::Request, id, RouteHash::of(&[b"orders"]), filler)
    }

    fn now() -> Instant {
        Instant::from_nanos(1_000_000_000)
    }

    /// Seals everything and decodes what would be sent.
    fn decode(chain: &mut Chain, bytes_max: u64) -> Vec<Incoming> {
        let mut stream = Vec::new();
        while let Some(batch) = chain.seal(bytes_max, now) {
            for segment in batch.segments() {
                stream.extend_from_slice(segment);
            }
        }
        let limits = Limits { lane: Lane::Application, max_message_size: ByteCount::mib(16) };
        let (mut decoder, mut input) = (Decoder::new(limits), stream.as_slice());
        let (mut head, mut body, mut records) = (None, BytesMut::new(), Vec::new());
        while let Some(piece) = decoder.next(&mut input).unwrap() {
            match piece {
                Piece::Head(new) => head = Some(new),
                Piece::Body(bytes) => body.extend_from_slice(bytes),
                Piece::End => {
                    records.push(Incoming::new(head.take().unwrap(), body.split().freeze()));
                }
            }
        }
        records
    }

    #[test]
    fn records_of_every_size_leave_whole_and_in_order() {
        for bytes_max in [1, 5_000, 256 << 10] {
            let mut chain = Chain::default();
            let sizes = [0, 1, COPY_MAX, COPY_MAX + 1, 70_000, 3, 15_000, 900];
            for id in 0..200_u64 {
                chain.push(&mut record(id, sizes[usize::try_from(id).unwrap() % sizes.len()]));
            }
            let records = decode(&mut chain, bytes_max);
            let ids: Vec<u64> = records.iter().map(|incoming| incoming.head().id).collect();
            assert_eq!(ids, (0..200).collect::<Vec<_>>(), "batches of {bytes_max} B");
            for incoming in records {
                let id = incoming.head().id;
                let size = sizes[usize::try_from(id).unwrap() % sizes.len()];
                assert_eq!(incoming.payload(), record(id, size).payload, "record {id}");
            }
        }
    }

    #[test]
    fn a_retracted_record_is_not_sent_and_its_neighbours_are() {
        for retracted in [0, 1, 57, 99] {
            let mut chain = Chain::default();
            let ordinals: Vec<_> = (0..100)
                .map(|id| chain.push(&mut record(id, usize::try_from(id * 37).unwrap() % 3_000)))
                .collect();
            let charge = chain.retract(ordinals[retracted]);
            assert!(charge.is_some(), "it was queued");
            assert!(chain.retract(ordinals[retracted]).is_none(), "only once");
            let ids: Vec<u64> =
                decode(&mut chain, 10_000).iter().map(|incoming| incoming.head().id).collect();
            let expected: Vec<u64> = (0..100).filter(|id| *id != retracted as u64).collect();
            assert_eq!(ids, expected, "all but {retracted}");
            assert!(chain.retract(ordinals[50]).is_none(), "a sealed record cannot be taken back");
        }
    }

    #[test]
    fn the_time_left_is_written_when_the_record_is_sealed() {
        let mut chain = Chain::default();
        chain.push(&mut record(1, 10));
        let deadline = Some(now().saturating_add(Duration::from_millis(250)));
        chain.push(&mut Outgoing { deadline, ..record(2, 10) });
        let records = decode(&mut chain, 1 << 20);
        assert_eq!(records[0].head().remaining_ms, 0, "no deadline");
        assert_eq!(records[1].head().remaining_ms, 250, "the rest of the caller's time");
    }

    #[test]
    fn records_may_be_added_while_a_batch_is_in_flight() {
        let mut chain = Chain::default();
        chain.push(&mut record(1, 100));
        let batch = chain.seal(1 << 20, now).unwrap();
        let sealed: Vec<Bytes> = batch.segments().to_vec();
        let before: Vec<u8> = sealed.concat();
        chain.push(&mut record(2, 100));
        assert_eq!(sealed.concat(), before, "the sealed bytes do not change");
        assert_eq!(decode(&mut chain, 1 << 20).len(), 1, "and the new record follows");
    }
}
