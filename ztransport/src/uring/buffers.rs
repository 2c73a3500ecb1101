//! Rings of provided buffers: the kernel takes one for each piece that it receives.
//!
//! Before changing this file read `io_uring_register_buf_ring(3)` and
//! `io_uring_setup_buf_ring(3)`.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;

use super::limits::{BUFFER_BYTES, BUFFERS_MAX};
use super::pages::Pages;

/// Buffers of one group and the ring that offers them to the kernel.
///
/// A buffer is either the kernel's (between `recycle` and the completion that names it) or ours
/// (from there to the next `recycle`), never both.
#[derive(Debug)]
pub(super) struct BufferRing {
    entries: Pages,
    data: Pages,
    count: u16,
    tail: u16,
}

impl BufferRing {
    /// Allocates `count` buffers, all offered. `None` when there is no memory, or when `count` is
    /// no power of two within bounds.
    pub(super) fn new(count: u16) -> Option<Self> {
        if !count.is_power_of_two() || count > BUFFERS_MAX {
            return None;
        }
        let entries = Pages::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let data = Pages::new(usize::from(count) * STRIDE)?;
        let mut ring = Self { entries, data, count, tail: 0 };
        for id in 0..count {
            ring.recycle(id);
        }
        Some(ring)
    }

    /// What the kernel is told: where the entries are, and how many.
    pub(super) fn registration(&self) -> (u64, u16) {
        (self.entries.start().as_ptr().expose_provenance() as u64, self.count)
    }

    /// How many buffers it has.
    pub(super) const fn count(&self) -> u16 {
        self.count
    }

    /// The first `length` bytes of a buffer that a completion has named. `None` for a name or a
    /// length that the kernel cannot mean.
    pub(super) fn bytes(&self, id: u16, length: usize) -> Option<&[u8]> {
        if length > STRIDE {
            return None;
        }
        let start = self.buffer(id)?.as_ptr();
        // SAFETY: `buffer` gives the start of BUFFER_BYTES readable, initialised bytes, and
        // `length` is no more. The kernel writes to a buffer only while it is offered: this one
        // was taken by the completion that names it, and `recycle` needs `&mut self`.
        Some(unsafe { core::slice::from_raw_parts(start, length) })
    }

    /// Offers a buffer to the kernel again.
    pub(super) fn recycle(&mut self, id: u16) {
        let Some(buffer) = self.buffer(id) else {
            debug_assert!(false, "buffer {id} of {}", self.count);
            return;
        };
        let index = self.tail & (self.count - 1);
        let base = self.entries.start().cast::<BufRingEntry>();
        // SAFETY: `entries` holds `count` entries, and the mask keeps `index` below `count`.
        let mut entry = unsafe { base.add(usize::from(index)) };
        // SAFETY: The entry is aligned (page start plus multiples of its size), zeroed at least,
        // and the kernel reads none at or behind the tail; no other reference to it exists.
        let entry = unsafe { entry.as_mut() };
        entry.set_addr(buffer.as_ptr().expose_provenance() as u64);
        entry.set_len(BUFFER_BYTES);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `base` is the first entry of the ring and is initialised.
        let tail = unsafe { BufRingEntry::tail(base.as_ptr()) };
        // SAFETY: The tail is two aligned bytes within the first entry, which lives as long as
        // `self`. Both sides access it atomically; no reference to that entry is alive.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        // Release: the kernel must see the entry before it sees that there is one.
        tail.store(self.tail, Ordering::Release);
    }

    fn buffer(&self, id: u16) -> Option<NonNull<u8>> {
        if id >= self.count {
            return None;
        }
        // SAFETY: `data` holds `count` buffers of BUFFER_BYTES, and `id` is below `count`.
        Some(unsafe { self.data.start().add(usize::from(id) * STRIDE) })
    }
}

/// From one buffer to the next.
const STRIDE: usize = BUFFER_BYTES as usize;

const _: () = {
    assert!(size_of::<BufRingEntry>() == 16, "the kernel's struct io_uring_buf");
    assert!(4096_usize.is_multiple_of(align_of::<BufRingEntry>()), "a page aligns entries");
};

#[cfg(test)]
mod tests {
    use super::{BufferRing, STRIDE};
    use crate::uring::limits::BUFFERS_MAX;

    #[test]
    fn buffers_do_not_overlap_and_end_where_they_should() {
        let ring = BufferRing::new(4).unwrap();
        let starts: Vec<_> =
            (0..4).map(|id| ring.bytes(id, STRIDE).unwrap().as_ptr().addr()).collect();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == STRIDE), "side by side");
        assert!(ring.bytes(4, 1).is_none(), "no such buffer");
        assert!(ring.bytes(0, STRIDE + 1).is_none(), "longer than a buffer");
    }

    #[test]
    fn the_tail_wraps_with_the_ring() {
        let mut ring = BufferRing::new(2).unwrap();
        for _ in 0..=u16::MAX {
            ring.recycle(1);
        }
        assert_eq!(ring.tail, 2, "once around and back");
    }

    #[test]
    fn only_powers_of_two_make_a_ring() {
        for count in [0, 3, BUFFERS_MAX + 1, u16::MAX] {
            assert!(BufferRing::new(count).is_none(), "{count}");
        }
    }
}
