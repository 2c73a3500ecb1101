//! Payloads and the types that become one.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zcore::wire::ContentType;

use super::message::Message;
use crate::error::{Error, ErrorKind};

/// A payload and how it is encoded; the content type travels with it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Payload {
    pub(crate) content: ContentType,
    pub(crate) bytes: Bytes,
}

/// Becomes a payload.
pub trait IntoPayload {
    /// Encodes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOperation`] when the value cannot be encoded; nothing was sent.
    fn into_payload(self) -> Result<Payload, Error>;
}

impl IntoPayload for Payload {
    fn into_payload(self) -> Result<Payload, Error> {
        Ok(self)
    }
}

impl IntoPayload for Bytes {
    fn into_payload(self) -> Result<Payload, Error> {
        Ok(Payload { content: ContentType::Bytes, bytes: self })
    }
}

impl IntoPayload for Vec<u8> {
    fn into_payload(self) -> Result<Payload, Error> {
        Bytes::from(self).into_payload()
    }
}

impl IntoPayload for &'static [u8] {
    fn into_payload(self) -> Result<Payload, Error> {
        Bytes::from_static(self).into_payload()
    }
}

impl IntoPayload for () {
    fn into_payload(self) -> Result<Payload, Error> {
        Bytes::new().into_payload()
    }
}

/// A value that travels as JSON.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Json<T>(pub T);

impl<T: Serialize> IntoPayload for Json<T> {
    fn into_payload(self) -> Result<Payload, Error> {
        let encoded = serde_json::to_vec(&self.0).map_err(|_| {
            Error::at_once(ErrorKind::InvalidOperation, "the value cannot be written as JSON")
        })?;
        Ok(Payload { content: ContentType::Json, bytes: encoded.into() })
    }
}

/// The payload is not what was asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mismatch;

/// What a handler takes.
pub trait FromMessage: Sized {
    /// Decodes.
    ///
    /// # Errors
    ///
    /// [`Mismatch`] when the content type or the payload is another's: the caller of a request gets
    /// [`ErrorKind::TypeMismatch`], a one-way message is counted as `decode_error`.
    fn from_message(message: Message) -> Result<Self, Mismatch>;
}

impl FromMessage for Message {
    fn from_message(message: Message) -> Result<Self, Mismatch> {
        Ok(message)
    }
}

impl FromMessage for Bytes {
    fn from_message(message: Message) -> Result<Self, Mismatch> {
        match message.content() {
            ContentType::Bytes => Ok(message.payload()),
            ContentType::Json
            | ContentType::MessagePack
            | ContentType::Postcard
            | ContentType::Protobuf => Err(Mismatch),
        }
    }
}

impl<T: DeserializeOwned> FromMessage for Json<T> {
    fn from_message(message: Message) -> Result<Self, Mismatch> {
        from_json(message.content(), &message.payload()).map(Json)
    }
}

/// Decodes JSON, if that is what the bytes are.
pub(crate) fn from_json<T: DeserializeOwned>(
    content: ContentType,
    bytes: &[u8],
) -> Result<T, Mismatch> {
    if content != ContentType::Json {
        return Err(Mismatch);
    }
    serde_json::from_slice(bytes).map_err(|_| Mismatch)
}
