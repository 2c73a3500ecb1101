//! Records as a host hands them over and takes them in.

use bytes::Bytes;
use zcore::wire::{ContentType, Head, Kind, RouteHash};
use zcore::{ByteCount, Charge, Instant};

/// A record to be sent.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// What it is.
    pub kind: Kind,
    /// How its payload is encoded.
    pub content: ContentType,
    /// Correlates a request with its reply.
    pub id: u64,
    /// Which handler it is for; zero for replies.
    pub route: RouteHash,
    /// The Spot or Actor it is for, at most 255 bytes.
    pub address: Bytes,
    /// Encoded metadata, at most 1,024 bytes.
    pub metadata: Bytes,
    /// The payload.
    pub payload: Bytes,
    /// When its caller stops waiting; the rest of the time travels in the header (D-20).
    pub deadline: Option<Instant>,
}

impl Outgoing {
    /// A record without address and metadata.
    pub const fn new(kind: Kind, id: u64, route: RouteHash, payload: Bytes) -> Self {
        Self {
            kind,
            content: ContentType::Bytes,
            id,
            route,
            address: Bytes::new(),
            metadata: Bytes::new(),
            payload,
            deadline: None,
        }
    }

    /// Payload plus metadata.
    pub const fn message_size(&self) -> ByteCount {
        let bytes = self.payload.len().saturating_add(self.metadata.len());
        ByteCount::new(bytes as u64)
    }

    /// What its queue is charged.
    pub fn charge(&self) -> Charge {
        self.head().charge()
    }

    /// The head as it is encoded; lengths beyond their fields saturate and the record is refused as
    /// too large before it is encoded.
    pub(crate) fn head(&self) -> Head {
        Head {
            kind: self.kind,
            content: self.content,
            address_len: u8::try_from(self.address.len()).unwrap_or(u8::MAX),
            metadata_len: u16::try_from(self.metadata.len()).unwrap_or(u16::MAX),
            payload_len: u32::try_from(self.payload.len()).unwrap_or(u32::MAX),
            remaining_ms: 0,
            id: self.id,
            route: self.route,
        }
    }
}

/// A record that arrived.
#[derive(Clone, Debug)]
pub struct Incoming {
    head: Head,
    /// Address, metadata, payload.
    body: Bytes,
    /// The epoch of the peer's Completion lane when it came.
    epoch: u64,
}

impl Incoming {
    pub(crate) const fn new(head: Head, body: Bytes) -> Self {
        Self { head, body, epoch: 0 }
    }

    pub(crate) fn of_epoch(self, epoch: u64) -> Self {
        Self { epoch, ..self }
    }

    /// Which pair it came over: its answer goes back over no other (BU-11).
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The fields of its header.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// The Spot or Actor it is for.
    pub fn address(&self) -> Bytes {
        self.body.slice(..self.address_end())
    }

    /// Its encoded metadata.
    pub fn metadata(&self) -> Bytes {
        self.body.slice(self.address_end()..self.metadata_end())
    }

    /// Its payload, sharing the record's storage.
    pub fn payload(&self) -> Bytes {
        self.body.slice(self.metadata_end()..)
    }

    fn address_end(&self) -> usize {
        usize::from(self.head.address_len).min(self.body.len())
    }

    fn metadata_end(&self) -> usize {
        (self.address_end() + usize::from(self.head.metadata_len)).min(self.body.len())
    }
}
