//! What is believed of a socket between two reports of the kernel.
//!
//! A socket is watched by edges: the kernel reports a change once, whether or not anybody wants to
//! know at that moment. So what it reported is kept here until an operation finds otherwise, and an
//! operation that is asked for later starts from it.

use rustix::event::epoll::EventFlags;

/// Whether it is worth to try an operation: the only doubt is on the side of trying once too often.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Readiness(EventFlags);

/// What a read has come to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Read {
    /// As many bytes as there was room for.
    Full,
    /// Fewer bytes than there was room for.
    Short,
    /// Nothing, it would have had to wait.
    WouldBlock,
}

impl Readiness {
    /// Of a socket that was just handed to the kernel. If it can be read already, that counts as an
    /// edge and is reported by the next call. A write does not wait for that: most likely there is
    /// room.
    pub(super) const FRESH: Self = Self(EventFlags::OUT);

    /// Takes a report in.
    pub(super) fn observe(&mut self, report: EventFlags) {
        if report.intersects(MORE_THAN_BYTES) {
            self.0 |= EventFlags::IN | DOUBT;
        }
        // An error is found by whichever operation comes next.
        if report.intersects(EventFlags::ERR | EventFlags::HUP) {
            self.0 |= EventFlags::OUT;
        }
        self.0 |= report & (EventFlags::IN | EventFlags::OUT);
    }

    /// Whether a read, or an accept, may find something.
    pub(super) const fn is_readable(self) -> bool {
        self.0.contains(EventFlags::IN)
    }

    /// Whether a write may find room, or a connect has ended.
    pub(super) const fn is_writable(self) -> bool {
        self.0.contains(EventFlags::OUT)
    }

    /// Takes in what a read has come to. One that comes up short has taken all there was, and what
    /// comes later is a new edge, unless there was more to report than bytes.
    ///
    /// A read also comes up short behind descriptors that a peer passes along on a Unix socket. No
    /// host does; whoever does delays its own next bytes until it sends more.
    pub(super) fn after_read(&mut self, read: Read) {
        match read {
            Read::Full => {}
            Read::Short if self.0.contains(DOUBT) => {}
            Read::Short => self.0.remove(EventFlags::IN),
            // A stream that has ended never waits.
            Read::WouldBlock => self.0.remove(EventFlags::IN | DOUBT),
        }
    }

    /// A read is to be tried, whatever was reported: on what cannot be read at all it fails, and no
    /// report ever says so.
    pub(super) fn try_read(&mut self) {
        self.0.insert(EventFlags::IN);
    }

    /// A write found no room.
    pub(super) fn write_would_block(&mut self) {
        self.0.remove(EventFlags::OUT);
    }

    /// A connect is under way; what was reported of the socket before means nothing any more.
    pub(super) const fn connecting(&mut self) {
        self.0 = EventFlags::empty();
    }
}

/// Reports of what only one more read shows: the end of a stream, an error, and a byte out of band,
/// at which a read stops although there are more.
const MORE_THAN_BYTES: EventFlags =
    EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR).union(EventFlags::PRI);

/// Kept while a short read proves nothing.
const DOUBT: EventFlags = EventFlags::RDHUP;

#[cfg(test)]
mod tests {
    use super::{Read, Readiness};
    use rustix::event::epoll::EventFlags;

    fn after(report: EventFlags) -> Readiness {
        let mut readiness = Readiness::FRESH;
        readiness.connecting();
        readiness.observe(report);
        readiness
    }

    #[test]
    fn a_fresh_socket_is_written_to_at_once_and_read_once_the_kernel_says_so() {
        assert!(Readiness::FRESH.is_writable(), "tried at once");
        assert!(!Readiness::FRESH.is_readable(), "not tried in vain");
    }

    #[test]
    fn what_was_reported_stays_until_it_is_found_otherwise() {
        let mut readiness = after(EventFlags::IN);
        readiness.observe(EventFlags::OUT);
        assert!(readiness.is_readable() && readiness.is_writable(), "one does not end the other");
        readiness.after_read(Read::Full);
        assert!(readiness.is_readable(), "there may be more");
        readiness.write_would_block();
        assert!(readiness.is_readable() && !readiness.is_writable(), "nor does its end");
        readiness.after_read(Read::WouldBlock);
        assert!(!readiness.is_readable(), "nothing is there");
    }

    #[test]
    fn a_short_read_has_taken_everything_unless_the_stream_has_ended() {
        let mut readiness = after(EventFlags::IN);
        readiness.after_read(Read::Short);
        assert!(!readiness.is_readable(), "what comes later is a new edge");
        let mut readiness = after(EventFlags::IN | EventFlags::RDHUP);
        readiness.after_read(Read::Short);
        assert!(readiness.is_readable(), "the end is still to be read");
    }

    #[test]
    fn a_byte_out_of_band_leaves_a_short_read_in_doubt_until_nothing_is_there() {
        let mut readiness = after(EventFlags::IN | EventFlags::PRI);
        readiness.after_read(Read::Short);
        assert!(readiness.is_readable(), "it stopped there");
        readiness.after_read(Read::WouldBlock);
        readiness.observe(EventFlags::IN);
        readiness.after_read(Read::Short);
        assert!(!readiness.is_readable(), "the doubt is over");
    }

    #[test]
    fn an_end_that_is_reported_before_the_last_bytes_are_read_is_not_forgotten() {
        let mut readiness = after(EventFlags::RDHUP);
        readiness.observe(EventFlags::IN);
        readiness.after_read(Read::Full);
        readiness.after_read(Read::Short);
        assert!(readiness.is_readable(), "the end is still to be read");
    }

    #[test]
    fn a_failure_shows_on_whatever_is_tried_next() {
        for report in [EventFlags::ERR, EventFlags::HUP] {
            let readiness = after(report);
            assert!(readiness.is_readable() && readiness.is_writable(), "{report:?}");
        }
        assert!(!after(EventFlags::RDHUP).is_writable(), "half of a stream has ended");
    }

    #[test]
    fn a_connect_starts_from_nothing() {
        let mut readiness = after(EventFlags::OUT | EventFlags::HUP);
        readiness.connecting();
        assert!(!readiness.is_writable() && !readiness.is_readable(), "an unconnected socket's");
        readiness.observe(EventFlags::OUT);
        assert!(readiness.is_writable(), "connected");
        readiness.observe(EventFlags::IN);
        readiness.after_read(Read::Short);
        assert!(!readiness.is_readable(), "nothing has ended");
    }
}
