//! One set of scripts for every driver, and another for every loop that runs shards.
//!
//! A test is named after the driver and the script that it plays: `uring::half_close…`. Under
//! `alike` each script is played on all drivers of this machine, and what they tell is compared.
//! `uring_pitfalls` is about the ring alone; `second_opinion` lets sockets of others talk to drivers.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[macro_use]
mod table;

mod alike;
mod replay;
mod scripts;
mod second_opinion;
mod seen;
mod shards;
mod stand;
mod trace;
mod uring_pitfalls;
mod world;

/// Scripts on `io_uring`.
mod uring {
    on_any_network!(play_on, [crate::stand::UringStand]);
    on_real_sockets!(play_on, [crate::stand::UringStand]);
}

/// Scripts on epoll.
mod epoll {
    on_any_network!(play_on, [crate::stand::EpollStand]);
    on_real_sockets!(play_on, [crate::stand::EpollStand]);
}

/// Scripts on the simulated network, without faults and with those of several seeds.
mod sim {
    on_any_network!(play_on, [crate::stand::SimStand]);
}
