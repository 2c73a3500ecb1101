//! Whole hosts in one process, over real sockets.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod answers;
mod calls;
mod client_server;
mod costs;
mod deadlock;
mod dispatch;
mod in_flight;
mod jam;
mod lifetimes;
mod options;
mod permits;
mod requests;
mod sending;
mod shutdown;
mod targets;
mod waiting;
mod withdrawing;
mod world;

#[test]
fn where_io_uring_is_forbidden_all_of_this_holds_over_epoll() {
    ztests::forbidden::assert_the_others_pass_over_epoll(
        "where_io_uring_is_forbidden_all_of_this_holds_over_epoll",
    );
}
