//! Which handler a record is for, as a number.

/// The hash of a route's names.
///
/// FNV-1a with 64 bits over the parts in order, with one zero byte between two parts. It is no
/// secret and withstands no attacker who picks names, so a host compares the names of its own
/// routes once, when it registers them.
///
/// ```
/// # use zcore::wire::RouteHash;
/// const PLACE: RouteHash = RouteHash::of(&[b"orders", b"place"]);
/// assert_eq!(PLACE.get(), 0x8e48_a5d2_4097_cb1f);
/// assert_ne!(PLACE, RouteHash::of(&[b"order", b"splace"]));
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RouteHash(u64);

impl RouteHash {
    /// What records carry that are for no handler: replies and control.
    pub const NONE: Self = Self(0);

    /// Wraps a hash that was computed before.
    pub const fn new(hash: u64) -> Self {
        Self(hash)
    }

    /// The hash of a route. O(bytes), and free in a `const`.
    pub const fn of(parts: &[&[u8]]) -> Self {
        let mut hash = OFFSET_BASIS;
        let mut parts = parts;
        while let [part, rest @ ..] = parts {
            let mut bytes: &[u8] = part;
            while let [byte, others @ ..] = bytes {
                hash = stir(hash, *byte);
                bytes = others;
            }
            if !rest.is_empty() {
                hash = stir(hash, 0);
            }
            parts = rest;
        }
        Self(hash)
    }

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

const fn stir(hash: u64, byte: u8) -> u64 {
    let [low, rest @ ..] = hash.to_le_bytes();
    let [b1, b2, b3, b4, b5, b6, b7] = rest;
    u64::from_le_bytes([low ^ byte, b1, b2, b3, b4, b5, b6, b7]).wrapping_mul(PRIME)
}

/// Both numbers are those of the FNV authors for 64 bits.
const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;
