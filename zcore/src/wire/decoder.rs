//! Records out of a stream of bytes that arrives in pieces of any size.

use super::error::WireError;
use super::head::{HEAD_BYTES, Head, Limits};

/// What a stream of records is made of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Piece<'input> {
    /// A record begins.
    Head(Head),
    /// The next bytes of its address, metadata and payload, in this order. Never empty.
    Body(&'input [u8]),
    /// The record is whole.
    End,
}

/// Reads the records of one connection.
///
/// Holds at most the 32 bytes of one head: body bytes are handed on as they are. The reader may
/// stop after any piece, for instance when a head shows that there is no room for its record, and
/// go on later with the bytes that were left.
#[derive(Clone, Debug)]
pub struct Decoder {
    limits: Limits,
    state: State,
    /// The part of a head that came at the end of an input.
    head: [u8; HEAD_BYTES],
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Some bytes of the next head are there.
    Head { filled: usize },
    /// Some bytes of a record's body are not.
    Body { left: u32 },
    /// There is no next record: nobody knows where it would begin.
    Broken(WireError),
}

impl Decoder {
    /// At the beginning of the first record.
    pub const fn new(limits: Limits) -> Self {
        Self { limits, state: State::Head { filled: 0 }, head: [0; HEAD_BYTES] }
    }

    /// The next piece, or `None` if `input` is used up first.
    ///
    /// Takes the bytes that it used from the front of `input`. Call it until it says `None`, as the
    /// end of a record needs no byte of its own. O(1) but for copying a head that was split, and
    /// never allocates.
    ///
    /// # Errors
    ///
    /// [`WireError`] as soon as a head is wrong, and the same again in every later call: there is
    /// no way to find the next record.
    pub fn next<'input>(
        &mut self,
        input: &mut &'input [u8],
    ) -> Result<Option<Piece<'input>>, WireError> {
        let piece = match self.state {
            State::Head { filled } => self.next_head(filled, input),
            State::Body { left: 0 } => {
                self.state = State::Head { filled: 0 };
                Ok(Some(Piece::End))
            }
            State::Body { left } => Ok(self.next_body(left, input)),
            State::Broken(error) => Err(error),
        };
        self.assert_invariants();
        piece
    }

    /// Whether the stream may end here: no record has begun that is not whole.
    pub const fn is_between_records(&self) -> bool {
        matches!(self.state, State::Head { filled: 0 })
    }

    fn next_head<'input>(
        &mut self,
        filled: usize,
        input: &mut &'input [u8],
    ) -> Result<Option<Piece<'input>>, WireError> {
        let decoded = match input.split_first_chunk() {
            Some((whole, rest)) if filled == 0 => {
                *input = rest;
                Head::decode(whole, &self.limits)
            }
            Some(_) | None => {
                let filled = self.collect(filled, input);
                if filled < HEAD_BYTES {
                    self.state = State::Head { filled };
                    return Ok(None);
                }
                Head::decode(&self.head, &self.limits)
            }
        };
        match decoded {
            Ok(head) => {
                self.state = State::Body { left: head.body_len() };
                Ok(Some(Piece::Head(head)))
            }
            Err(error) => {
                self.state = State::Broken(error);
                Err(error)
            }
        }
    }

    /// Moves bytes from `input` to the head that is being collected; how many are there now.
    fn collect(&mut self, filled: usize, input: &mut &[u8]) -> usize {
        let places = self.head.iter_mut().skip(filled);
        let moved = places.zip(input.iter()).map(|(place, byte)| *place = *byte).count();
        *input = input.get(moved..).unwrap_or_default();
        filled.saturating_add(moved)
    }

    fn next_body<'input>(&mut self, left: u32, input: &mut &'input [u8]) -> Option<Piece<'input>> {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX);
        let (body, rest) = input.split_at_checked(wanted).unwrap_or((*input, &[]));
        if body.is_empty() {
            return None;
        }
        *input = rest;
        let taken = u32::try_from(body.len()).unwrap_or(left);
        self.state = State::Body { left: left.saturating_sub(taken) };
        Some(Piece::Body(body))
    }

    fn assert_invariants(&self) {
        if let State::Head { filled } = self.state {
            debug_assert!(filled < HEAD_BYTES, "a whole head of {filled} B was left undecoded");
        }
    }
}
