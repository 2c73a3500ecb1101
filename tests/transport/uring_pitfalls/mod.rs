//! What only a ring can get wrong, against the kernel that runs the test.
//!
//! Pitfalls that any driver could fall into are scripts, and run on this one as on the others. Each
//! that was measured has the name of a test: `short_send`, `send_order`, `enobufs`, `backpressure`,
//! `cancel_race`, `recv_cancel_loss`, `fd_reuse`, `cq_overflow`, `mshot_overflow`, `memlock`,
//! `seccomp`, `half_close`, `connect_timeout`, `sigpipe`, `linger`, `wrong_thread`, `defer_epoll`,
//! `ring_drop`, `min_wait`. The two overflows need a ring that is cramped on purpose, and are unit
//! tests of the driver.

mod buffers;
mod calls;
mod dropping;
mod forbidden;
mod pausing;
mod small_rings;
mod threads;

use ztransport::uring::{Uring, UringOptions};

use crate::replay::CALM;
use crate::stand::{Stand, UringStand};
use crate::world::World;

type Ring = World<UringStand>;

const DEFAULT: UringOptions = UringOptions {
    sockets_max: 64,
    application_buffers: 64,
    completion_buffers: 64,
    submissions: 256,
};

/// Runs the test of this thread on one ring, and sees that every completion of it was expected.
fn on_ring(options: UringOptions, play: impl FnOnce(&mut Ring)) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("uring_pitfalls");
    ztests::run_or_skip(test, UringStand::missing(), || {
        let ring = |_: &UringStand| Uring::new(options).unwrap();
        let mut world = World::new("uring_pitfalls", UringStand::new(CALM), ring);
        play(&mut world);
        world.close_all();
    });
}
