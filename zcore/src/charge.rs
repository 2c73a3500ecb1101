//! What a record costs the queue that holds it.

use crate::limits::RECORD_OVERHEAD;
use crate::units::ByteCount;

/// The accounted bytes of one record: its encoded length plus [`RECORD_OVERHEAD`] (BU-01, D-01).
///
/// Both sides charge alike, so that one number describes a record wherever it waits. A charge is
/// never zero: a flood of empty messages reaches a mark, too.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Charge(ByteCount);

impl Charge {
    /// The charge of a record whose header, address, metadata and payload take `encoded` bytes.
    ///
    /// ```
    /// # use zcore::{ByteCount, Charge};
    /// assert_eq!(Charge::of_encoded(0).bytes(), ByteCount::new(64));
    /// assert_eq!(Charge::of_encoded(32).bytes(), ByteCount::new(96));
    /// ```
    pub const fn of_encoded(encoded: u64) -> Self {
        Self(ByteCount::new(encoded).saturating_add(RECORD_OVERHEAD))
    }

    /// The accounted bytes.
    pub const fn bytes(self) -> ByteCount {
        self.0
    }
}
