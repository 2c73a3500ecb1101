//! Memory that the kernel is told of.
//!
//! Before changing this file read `mmap(2)` on `MAP_FIXED`.

use core::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Zeroed memory that starts at a page, as the kernel demands of a ring.
///
/// Builds with debug assertions never use its addresses again: whatever the kernel still does there
/// ends in `EFAULT`, which the ring takes for a fault of this crate. Elsewhere it would write into
/// whatever has come to live there.
#[derive(Debug)]
pub(super) struct Pages {
    start: NonNull<u8>,
    bytes: usize,
}

impl Pages {
    /// `None` when there is no memory, or none is asked for.
    pub(super) fn new(bytes: usize) -> Option<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: Without `MAP_FIXED` the kernel takes addresses that nothing is at.
        let start =
            unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
        NonNull::new(start.ok()?.cast()).map(|start| Self { start, bytes })
    }

    /// The first byte.
    pub(super) const fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let start = self.start.as_ptr().cast();
        if cfg!(debug_assertions) {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
            // SAFETY: This replaces our own pages, which nobody has references to any more.
            let guarded = unsafe { mmap_anonymous(start, self.bytes, ProtFlags::empty(), flags) };
            debug_assert!(guarded.is_ok(), "{guarded:?}");
        } else {
            // SAFETY: Our own pages, which nobody has references to any more.
            let released = unsafe { munmap(start, self.bytes) };
            debug_assert!(released.is_ok(), "{released:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pages;
    use rustix::io::Errno;
    use std::fs;

    /// How the process may use the page at an address, as `/proc/self/maps` says: `rw-p`, `---p`, or
    /// nothing.
    fn access(address: usize) -> Option<String> {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let is_there = (number(from)..number(to)).contains(&address);
            is_there.then(|| rest.split(' ').next().unwrap_or_default().to_owned())
        })
    }

    #[test]
    fn pages_that_are_gone_cannot_be_used_and_are_not_given_to_others() {
        let pages = Pages::new(1 << 20).unwrap();
        let address = pages.start().as_ptr().addr();
        assert_eq!(access(address).as_deref(), Some("rw-p"), "ours");
        drop(pages);
        if cfg!(debug_assertions) {
            assert_eq!(access(address).as_deref(), Some("---p"), "nobody's, for good");
        }
    }

    #[test]
    fn no_memory_is_none() {
        assert!(Pages::new(0).is_none(), "nothing is asked for");
        assert!(Pages::new(usize::MAX >> 1).is_none(), "{}", Errno::NOMEM);
    }
}
