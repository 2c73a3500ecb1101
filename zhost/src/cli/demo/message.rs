//! What a message of the demo carries: who sent it, its number, and filler that shows damage.

use bytes::Bytes;

/// Producer and number of one message. Sends and requests are numbered apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Stamp {
    pub(super) producer: u32,
    pub(super) number: u64,
}

/// The payload of every message, but for its stamp.
#[derive(Clone, Debug)]
pub(super) struct Filler {
    bytes: Box<[u8]>,
}

impl Filler {
    /// A filler of `length` bytes, at least the 12 of a stamp.
    pub(super) fn new(length: usize) -> Self {
        let bytes = (0..length.max(STAMP_BYTES)).map(|place| PATTERN[place % PATTERN.len()]);
        Self { bytes: bytes.collect() }
    }

    /// The payload of the message `stamp`.
    pub(super) fn stamped(&self, stamp: Stamp) -> Bytes {
        let mut payload = Vec::with_capacity(self.bytes.len());
        payload.extend_from_slice(&stamp.producer.to_le_bytes());
        payload.extend_from_slice(&stamp.number.to_le_bytes());
        payload.extend_from_slice(self.rest());
        payload.into()
    }

    /// The stamp of `payload`, or `None` if one byte of it is not as it was sent.
    pub(super) fn read(&self, payload: &[u8]) -> Option<Stamp> {
        let (stamp, rest) = Stamp::split(payload)?;
        (rest == self.rest()).then_some(stamp)
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(STAMP_BYTES..).unwrap_or_default()
    }
}

impl Stamp {
    fn split(payload: &[u8]) -> Option<(Self, &[u8])> {
        let (producer, rest) = payload.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let stamp =
            Self { producer: u32::from_le_bytes(*producer), number: u64::from_le_bytes(*number) };
        Some((stamp, rest))
    }
}

/// What the receiver answers to a request: its stamp, and how it stood when it answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Answer {
    pub(super) stamp: Stamp,
    pub(super) permits: Permits,
}

/// Whether the receiver had a permit left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Permits {
    Free,
    Exhausted,
}

impl Answer {
    pub(super) fn encode(self) -> Bytes {
        let mut payload = Vec::with_capacity(STAMP_BYTES + 1);
        payload.extend_from_slice(&self.stamp.producer.to_le_bytes());
        payload.extend_from_slice(&self.stamp.number.to_le_bytes());
        payload.push(u8::from(self.permits == Permits::Exhausted));
        payload.into()
    }

    pub(super) fn decode(payload: &[u8]) -> Option<Self> {
        let (stamp, rest) = Stamp::split(payload)?;
        let permits = match rest {
            [0] => Permits::Free,
            [1] => Permits::Exhausted,
            _ => return None,
        };
        Some(Self { stamp, permits })
    }
}

const STAMP_BYTES: usize = size_of::<u32>() + size_of::<u64>();

/// Its length is prime to every power of two, so that bytes that slipped by a block are seen.
const PATTERN: &[u8; 47] = b"zlink: overload is a slow send, not a lost one.";

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { producer: 7, number: 1 << 40 };

    #[test]
    fn a_message_comes_back_as_it_was() {
        for length in [0, 12, 13, 1024] {
            let filler = Filler::new(length);
            let payload = filler.stamped(STAMP);
            assert_eq!(payload.len(), length.max(12));
            assert_eq!(filler.read(&payload), Some(STAMP));
        }
    }

    #[test]
    fn damage_is_seen() {
        let filler = Filler::new(64);
        let mut payload = filler.stamped(STAMP).to_vec();
        assert_eq!(filler.read(&payload[..63]), None, "one byte short");
        payload[40] ^= 1;
        assert_eq!(filler.read(&payload), None, "one bit flipped");
    }

    #[test]
    fn an_answer_comes_back_as_it_was() {
        for permits in [Permits::Free, Permits::Exhausted] {
            let answer = Answer { stamp: STAMP, permits };
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        assert_eq!(Answer::decode(&[0; 12]), None, "without the flag");
        assert_eq!(Answer::decode(&[2; 13]), None, "an unknown flag");
    }
}
