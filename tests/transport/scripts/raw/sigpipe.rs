//! Sending to a peer that is gone raises no SIGPIPE.
//!
//! Rust ignores the signal, which hides it. A signal that is blocked stays pending even if it is
//! ignored, so the test runs itself again with SIGPIPE blocked and looks there.

use std::os::unix::net::UnixStream;

use rustix::io::Errno;

use crate::seen::Note;
use crate::stand::Kernel;
use crate::world::World;

/// Whether SIGPIPE is pending for this thread.
fn is_pending() -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:")).unwrap();
    let sigpipe = rustix::process::Signal::PIPE.as_raw();
    u64::from_str_radix(pending.trim(), 16).unwrap() & (1 << (sigpipe - 1)) != 0
}

pub(crate) fn sigpipe_is_not_raised_by_sending_to_a_peer_that_is_gone<S: Kernel>(
    world: &mut World<S>,
) {
    if !world.is_alone(&["--block-signal=PIPE"]) {
        return;
    }
    let (ours, peer) = UnixStream::pair().unwrap();
    let plain = ours.try_clone().unwrap();
    let ours = world.adopt(0, ours.into());
    drop(peer);
    world.send(ours, b"nobody is there");
    world.until_noted(ours, &Note::Sent(Err(Errno::PIPE)));
    assert!(!is_pending(), "a send raised SIGPIPE");
    // It stays pending for the thread that wrote, and that one ends.
    let control = std::thread::spawn(move || {
        assert_eq!(rustix::io::write(&plain, b"x"), Err(Errno::PIPE), "a plain write");
        is_pending()
    });
    assert!(control.join().unwrap(), "the test would not see a SIGPIPE");
}
