//! Names of nodes and topologies.

use core::fmt;
use core::str::FromStr;

use super::layout::{get, put};

/// The longest name.
pub const LABEL_MAX: usize = 63;

/// A label as a hello carries it: its length in one byte, then the name, padded with zeros.
pub(super) const LABEL_BYTES: usize = 1 + LABEL_MAX;

/// The name of a node or a topology: 1 to 63 bytes of `A-Z a-z 0-9 . _ -`.
///
/// With nothing else in it a name can be logged, used in a metric and typed at a prompt, even if it
/// came from a peer. Labels are ordered by their bytes.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Label {
    /// Zero behind the name: zero comes before every byte of a name, so comparing the arrays
    /// compares the names.
    name: [u8; LABEL_MAX],
    length: u8,
}

impl Label {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`LabelError`] for a length outside `1..=63` and for the first other byte.
    ///
    /// ```
    /// # use zcore::wire::Label;
    /// assert_eq!(Label::new("node-1")?.as_str(), "node-1");
    /// let error = Label::new("node 1").unwrap_err();
    /// assert_eq!(error.to_string(), "byte 4 of a name is none of `A-Z a-z 0-9 . _ -`");
    /// # Ok::<(), zcore::wire::LabelError>(())
    /// ```
    pub fn new(name: &str) -> Result<Self, LabelError> {
        Self::from_bytes(name.as_bytes())
    }

    /// Checks a name.
    ///
    /// # Errors
    ///
    /// As [`Label::new`].
    pub fn from_bytes(name: &[u8]) -> Result<Self, LabelError> {
        let length = u8::try_from(name.len()).ok().filter(|length| LENGTHS.contains(length));
        let length = length.ok_or(LabelError::Length { length: name.len() })?;
        if let Some(at) = name.iter().position(|byte| !is_letter(*byte)) {
            return Err(LabelError::Letter { at });
        }
        let mut bytes = [0; LABEL_MAX];
        for (place, byte) in bytes.iter_mut().zip(name) {
            *place = *byte;
        }
        Ok(Self { name: bytes, length })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let name = self.name.get(..usize::from(self.length)).unwrap_or_default();
        core::str::from_utf8(name).unwrap_or_default()
    }

    pub(super) const fn to_field(self) -> [u8; LABEL_BYTES] {
        let mut field = [0; LABEL_BYTES];
        put::<0, _, _>(&mut field, [self.length]);
        put::<1, _, _>(&mut field, self.name);
        field
    }

    /// The label of a field, and the bytes behind the name.
    pub(super) fn from_field(field: &[u8; LABEL_BYTES]) -> Result<Self, LabelError> {
        let [length] = get::<0, _, _>(field);
        let length = usize::from(length);
        let [_, bytes @ ..] = field;
        let (name, padding) =
            bytes.split_at_checked(length).ok_or(LabelError::Length { length })?;
        let label = Self::from_bytes(name)?;
        if let Some(index) = super::layout::first_nonzero(padding) {
            return Err(LabelError::Padding { at: length.saturating_add(index) });
        }
        Ok(label)
    }
}

impl FromStr for Label {
    type Err = LabelError;

    fn from_str(name: &str) -> Result<Self, LabelError> {
        Self::new(name)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Label").field(&self.as_str()).finish()
    }
}

const LENGTHS: core::ops::RangeInclusive<u8> = 1..=63;

const fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// Bytes that are no [`Label`]. Says where, never what.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LabelError {
    /// Too short or too long.
    Length {
        /// The length.
        length: usize,
    },
    /// A byte that no name has.
    Letter {
        /// Its position in the name.
        at: usize,
    },
    /// A byte behind the name that is not zero.
    Padding {
        /// Its position, counted from the start of the name.
        at: usize,
    },
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Length { length } => {
                write!(f, "a name of {length} B; valid is 1..={LABEL_MAX} B")
            }
            Self::Letter { at } => {
                write!(f, "byte {at} of a name is none of `A-Z a-z 0-9 . _ -`")
            }
            Self::Padding { at } => write!(f, "byte {at}, behind a name, is not 0"),
        }
    }
}

impl core::error::Error for LabelError {}
