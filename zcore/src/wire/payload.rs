//! The payloads that the protocol itself defines.

use super::codes::{Fault, GoodbyeReason};
use super::error::PayloadError;
use super::layout::{first_nonzero, get, put};

/// The payload of an error reply.
pub const ERROR_REPLY_BYTES: usize = 4;

/// The payload of a goodbye.
pub const GOODBYE_BYTES: usize = 8;

/// Why a request has no reply, and whether its handler began.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ErrorReply {
    /// What happened.
    pub fault: Fault,
    /// Whether the handler had begun: it may have had effects.
    pub started: bool,
}

impl ErrorReply {
    /// The bytes on the wire.
    pub const fn encode(self) -> [u8; ERROR_REPLY_BYTES] {
        let started = if self.started { 1 } else { 0 };
        [self.fault.code(), started, 0, 0]
    }

    /// The error reply that a payload is.
    ///
    /// # Errors
    ///
    /// [`PayloadError`] for another length, an unknown code, or reserved bytes that are not zero.
    ///
    /// ```
    /// # use zcore::wire::{ErrorReply, Fault};
    /// let reply = ErrorReply { fault: Fault::NotFound, started: false };
    /// assert_eq!(ErrorReply::decode(&reply.encode()), Ok(reply));
    /// let error = ErrorReply::decode(&[1, 0]).unwrap_err();
    /// assert_eq!(error.to_string(), "a payload of 2 B; valid is 4 B");
    /// ```
    pub fn decode(payload: &[u8]) -> Result<Self, PayloadError> {
        let [code, started, low, high] = *exactly::<ERROR_REPLY_BYTES>(payload)?;
        let fault = Fault::from_code(code).ok_or(PayloadError::UnknownCode { at: 0, code })?;
        let started = match started {
            0 => false,
            1 => true,
            code @ 2.. => return Err(PayloadError::UnknownCode { at: 1, code }),
        };
        check_zero(2, &[low, high])?;
        Ok(Self { fault, started })
    }
}

/// Why a pair ends, and when to come back.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Goodbye {
    /// What happened.
    pub reason: GoodbyeReason,
    /// After a drain the first attempt to reconnect comes at a time drawn uniformly from this many
    /// milliseconds, so that not all peers come back at once (D-17); 0 gives no hint.
    pub window_ms: u32,
}

impl Goodbye {
    /// The bytes on the wire.
    pub const fn encode(self) -> [u8; GOODBYE_BYTES] {
        let mut out = [0; GOODBYE_BYTES];
        put::<0, _, _>(&mut out, [self.reason.code()]);
        put::<4, _, _>(&mut out, self.window_ms.to_le_bytes());
        out
    }

    /// The goodbye that a payload is.
    ///
    /// # Errors
    ///
    /// As [`ErrorReply::decode`].
    pub fn decode(payload: &[u8]) -> Result<Self, PayloadError> {
        let bytes = exactly::<GOODBYE_BYTES>(payload)?;
        let [code] = get::<0, _, _>(bytes);
        let reason =
            GoodbyeReason::from_code(code).ok_or(PayloadError::UnknownCode { at: 0, code })?;
        check_zero(1, &get::<1, 3, _>(bytes))?;
        Ok(Self { reason, window_ms: u32::from_le_bytes(get::<4, _, _>(bytes)) })
    }
}

fn exactly<const N: usize>(payload: &[u8]) -> Result<&[u8; N], PayloadError> {
    payload.try_into().map_err(|_| PayloadError::Length { length: payload.len(), expected: N })
}

fn check_zero(offset: usize, reserved: &[u8]) -> Result<(), PayloadError> {
    first_nonzero(reserved)
        .map_or(Ok(()), |index| Err(PayloadError::Reserved { at: offset.saturating_add(index) }))
}
