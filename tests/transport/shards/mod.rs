//! Two shards, a dialer and an acceptor, on every loop that runs shards.
//!
//! A script is played on each loop, and what both sides have seen is compared: the same links, the
//! same records in the same order on each lane, the same counts.

mod ground;
mod loops;
mod recorder;
mod scene;
mod scripts;
mod side;
mod stepped;
mod tale;
mod threads;

use ground::Ground;
use scene::Scene;
use tale::Tale;

use crate::alike::Told;
use crate::replay::{CALM, Replay, replay};

/// A script, and its test.
struct Script<G: Ground> {
    /// With the path of its module, the program's name included.
    test: &'static str,
    play: fn(&mut Scene<G>),
}

/// Plays a script once for each seed.
fn run<G: Ground>(script: &Script<G>) {
    replay(&Replay { test: script.test, missing: G::missing, seeds: G::seeds }, |seed| {
        play(script, seed)
    });
}

fn play<G: Ground>(script: &Script<G>, seed: u64) -> Tale {
    let mut scene = Scene::new(seed);
    (script.play)(&mut scene);
    scene.end()
}

/// What one loop told, or why it is not here.
fn told<G: Ground>(script: &Script<G>) -> Told<Tale> {
    (G::NAME, G::missing().map_or_else(|| Ok(play(script, CALM)), Err))
}

/// Calls `$then` with the scripts for two shards.
macro_rules! for_two_shards {
    ($then:ident, $grounds:tt) => {
        $then! { $grounds,
            flowing {
                a_pair_comes_up_and_both_sides_know
                messages_arrive_in_order_both_ways
                requests_are_answered_among_messages
                a_big_message_and_small_ones_keep_their_order
            }
            pressure {
                a_receive_mark_blocks_its_sender_and_goes_on
                replies_go_on_while_the_application_lane_is_full
                replies_pass_a_big_message
            }
            breaking {
                a_broken_connection_ends_the_pair_and_what_was_queued_arrives_over_the_next
                what_was_under_way_when_a_connection_broke_is_counted
                connect_timeout_is_the_shards_and_it_dials_again
            }
            draining {
                a_dialer_that_drains_under_load_says_everything_first
                an_acceptor_that_drains_under_load_says_everything_first
            }
        }
    };
}

macro_rules! shard_script {
    ($ground:ty, $file:ident, $script:ident) => {
        $crate::shards::Script::<$ground> {
            test: concat!(module_path!(), "::", stringify!($script)),
            play: $crate::shards::scripts::$file::$script,
        }
    };
}

macro_rules! play_shards_on {
    ([$ground:ty], $($file:ident { $($script:ident)* })*) => {
        $($(
            #[test]
            fn $script() {
                $crate::shards::run(&shard_script!($ground, $file, $script));
            }
        )*)*
    };
}

macro_rules! compare_shards_on {
    ($grounds:tt, $($file:ident { $($script:ident)* })*) => {
        $($(
            #[test]
            fn $script() {
                compare_shards!($grounds, $file, $script);
            }
        )*)*
    };
}

macro_rules! compare_shards {
    ([$($ground:ty),+], $file:ident, $script:ident) => {
        let test = concat!(module_path!(), "::", stringify!($script));
        let told = [$($crate::shards::told(&shard_script!($ground, $file, $script))),+];
        $crate::alike::compare(test, &told);
    };
}

/// The shard's own loop, over `io_uring`.
mod uring {
    for_two_shards!(play_shards_on, [crate::shards::threads::Threads<super::loops::UringLoop>]);
}

/// Inside a runtime of tokio-uring.
mod tokio_uring {
    for_two_shards!(
        play_shards_on,
        [crate::shards::threads::Threads<super::loops::TokioUringLoop>]
    );
}

/// The shard's own loop, over epoll.
mod epoll {
    for_two_shards!(play_shards_on, [crate::shards::threads::Threads<super::loops::EpollLoop>]);
}

/// Turn by turn in one thread, over the simulated network.
mod sim {
    for_two_shards!(play_shards_on, [crate::shards::stepped::Stepped]);
}

/// What all loops of this machine tell.
mod alike {
    use super::loops::{EpollLoop, TokioUringLoop, UringLoop};
    use super::stepped::Stepped;
    use super::threads::Threads;

    for_two_shards!(
        compare_shards_on,
        [Threads<UringLoop>, Threads<TokioUringLoop>, Threads<EpollLoop>, Stepped]
    );
}
