//! Fields at fixed offsets, proved to lie within their bytes when the code is compiled.

/// Writes the field at offset `AT`.
pub(super) const fn put<const AT: usize, const N: usize, const L: usize>(
    out: &mut [u8; L],
    field: [u8; N],
) {
    const { assert!(AT + N <= L, "a field must lie within its bytes") };
    if let Some((_, rest)) = out.split_at_mut_checked(AT)
        && let Some(place) = rest.first_chunk_mut()
    {
        *place = field;
    }
}

/// Reads the field at offset `AT`.
pub(super) const fn get<const AT: usize, const N: usize, const L: usize>(
    bytes: &[u8; L],
) -> [u8; N] {
    const { assert!(AT + N <= L, "a field must lie within its bytes") };
    if let Some((_, rest)) = bytes.split_at_checked(AT)
        && let Some(field) = rest.first_chunk()
    {
        return *field;
    }
    // Not reached, as asserted above; a `match` would need a panic here.
    [0; N]
}

/// The offset of the first byte of `bytes` that is not zero, if there is one.
pub(super) fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte != 0)
}
