//! A message as its handler sees it.

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use zcore::Instant;
use zcore::wire::{ContentType, Label};
use ztransport::{Incoming, Peer};

use super::payload::{Mismatch, from_json};

/// A message or a request that arrived.
#[derive(Clone, Debug)]
pub struct Message {
    record: Incoming,
    peer: Arc<Peer>,
    deadline: Option<Instant>,
}

impl Message {
    pub(crate) const fn new(record: Incoming, peer: Arc<Peer>, deadline: Option<Instant>) -> Self {
        Self { record, peer, deadline }
    }

    /// The payload, sharing the record's storage.
    pub fn payload(&self) -> Bytes {
        self.record.payload()
    }

    /// The encoded metadata.
    pub fn metadata(&self) -> Bytes {
        self.record.metadata()
    }

    /// How the payload is encoded.
    pub const fn content(&self) -> ContentType {
        self.record.head().content
    }

    /// The payload as JSON.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] when it is no JSON, or not of this shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Mismatch> {
        from_json(self.content(), &self.payload())
    }

    /// The node that sent it.
    pub fn sender(&self) -> Option<&Label> {
        self.peer.node()
    }

    /// When its caller stops waiting, by this host's clock; `None` for one-way messages.
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}
