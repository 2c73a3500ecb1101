//! Values of options: parsed once, valid by construction; an error names the valid range.

use core::fmt;
use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::DriverKind;

/// What moves bytes.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Driver {
    /// `io_uring`, or epoll where that is missing or forbidden; the result says why
    Auto,
    /// `io_uring` or nothing
    Uring,
    /// epoll
    Epoll,
}

impl Driver {
    pub(crate) const fn kind(self) -> DriverKind {
        match self {
            Self::Auto => DriverKind::Auto,
            Self::Uring => DriverKind::Uring,
            Self::Epoll => DriverKind::Epoll,
        }
    }
}

/// A number of bytes as people write it: `4096`, `64KiB`, `1MiB`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct ByteSize(u64);

impl ByteSize {
    pub(crate) const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let unit = text.get(digits.len()..)?.trim_start();
        let factor =
            UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name)).map(|(_, bytes)| bytes);
        // `u64::from_str` takes a leading plus; a size does not.
        let number = if digits.starts_with('+') { None } else { digits.parse::<u64>().ok() };
        number?.checked_mul(*factor?).map(Self)
    }
}

impl fmt::Display for ByteSize {
    /// Prints the value exactly, in the largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |bytes: u64| self.0 >= bytes && self.0.is_multiple_of(bytes);
        match UNITS.iter().find(|(_, bytes)| fits(*bytes)) {
            Some((name, bytes)) => write!(f, "{} {name}", self.0 / bytes),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// Parses a size and checks it against `MIN..=MAX` bytes.
///
/// # Errors
///
/// A sentence with the valid range; clap puts the option and the value before it.
pub(crate) fn size<const MIN: u64, const MAX: u64>(text: &str) -> Result<ByteSize, String> {
    let (min, max) = (ByteSize(MIN), ByteSize(MAX));
    match ByteSize::parse(text) {
        Some(size) if (MIN..=MAX).contains(&size.0) => Ok(size),
        Some(_) => Err(format!("out of range; valid is {min} to {max}")),
        None => {
            Err(format!("not a size such as `4096`, `64KiB` or `1MiB`; valid is {min} to {max}"))
        }
    }
}

/// Parses a whole number and checks it against `MIN..=MAX`.
///
/// # Errors
///
/// As for [`size`].
pub(crate) fn count<const MIN: u32, const MAX: u32>(text: &str) -> Result<u32, String> {
    let valid: RangeInclusive<u32> = MIN..=MAX;
    match text.parse::<u64>().map(u32::try_from) {
        Ok(Ok(number)) if valid.contains(&number) => Ok(number),
        Ok(_) => Err(format!("out of range; valid is {MIN} to {MAX}")),
        Err(_) => Err(format!("not a whole number; valid is {MIN} to {MAX}")),
    }
}

/// Largest first. The plain number comes last and is printed with its unit.
const UNITS: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("B", 1),
    ("", 1),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, bytes) in [
            ("4096", 4096),
            ("0", 0),
            ("12B", 12),
            ("64KiB", 65_536),
            ("64 kib", 65_536),
            ("1M", 1 << 20),
            ("3GiB", 3 << 30),
        ] {
            assert_eq!(ByteSize::parse(text), Some(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in ["", "KiB", "-1", "+1", "1.5MiB", "1TiB", "99999999999GiB", "1 2", "0x10"] {
            assert_eq!(ByteSize::parse(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_print_exactly() {
        for (bytes, text) in [
            (0, "0 B"),
            (1000, "1000 B"),
            (1024, "1 KiB"),
            (1536, "1536 B"),
            (3 << 20, "3 MiB"),
            (1 << 30, "1 GiB"),
        ] {
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
    }

    #[test]
    fn errors_name_the_range() {
        assert_eq!(
            size::<1024, 4096>("1MiB"),
            Err("out of range; valid is 1 KiB to 4 KiB".to_owned())
        );
        assert_eq!(
            size::<1024, 4096>("much"),
            Err("not a size such as `4096`, `64KiB` or `1MiB`; valid is 1 KiB to 4 KiB".to_owned())
        );
        assert_eq!(count::<1, 9>("10"), Err("out of range; valid is 1 to 9".to_owned()));
        assert_eq!(count::<1, 9>("99999999999"), Err("out of range; valid is 1 to 9".to_owned()));
        assert_eq!(count::<1, 9>("ten"), Err("not a whole number; valid is 1 to 9".to_owned()));
    }
}
