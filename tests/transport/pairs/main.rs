//! Pairs of connections under bad input, lost connections and silent peers: hosts against peers
//! that speak the protocol by hand.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod claims;
mod generations;
mod greeting;
mod halves;
mod kinds;
mod lanes;
mod liveness;
mod order;
mod pressure;
mod raw;
mod reconnect;
mod records;
mod replies;
mod shards;
mod unix;
mod world;

#[test]
fn where_io_uring_is_forbidden_all_of_this_holds_over_epoll() {
    ztests::forbidden::assert_the_others_pass_over_epoll(
        "where_io_uring_is_forbidden_all_of_this_holds_over_epoll",
    );
}
