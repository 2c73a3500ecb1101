//! A pair comes up, and records flow.

use ztransport::PeerState;

use crate::shards::ground::{Ground, Which};
use crate::shards::scene::Scene;
use crate::shards::side::Limits;
use crate::shards::tale::Entry;

/// Lengths that are copied, ride as segments, or do not fit into a buffer of the kernel.
const LENGTHS: [usize; 7] = [0, 8, 320, 1_016, 1_032, 4_000, 20_000];

fn length(number: u64) -> usize {
    LENGTHS[usize::try_from(number % 7).unwrap()]
}

#[track_caller]
fn assert_numbers(entries: &[Entry], expected: impl Iterator<Item = u64>) {
    assert!(entries.iter().map(|entry| entry.id).eq(expected), "each once, in order");
}

pub(in crate::shards) fn a_pair_comes_up_and_both_sides_know<G: Ground>(scene: &mut Scene<G>) {
    scene.connect(Limits::ROOMY);
    for which in [Which::Dialer, Which::Acceptor] {
        let side = scene.side(which);
        assert_eq!(side.ledger().links, ["up"], "{which:?}");
        assert_eq!(side.peer().unwrap().state(), PeerState::Connected, "{which:?}");
        assert!(side.ledger().rejected.is_empty(), "nothing came to nothing");
    }
}

pub(in crate::shards) fn messages_arrive_in_order_both_ways<G: Ground>(scene: &mut Scene<G>) {
    scene.connect(Limits::TIGHT);
    let (there, back) = (0..200_u64, 1_000..1_200_u64);
    for number in there.clone() {
        scene.dialer().message(number, length(number));
    }
    for number in back.clone() {
        scene.acceptor().message(number, length(number));
    }
    scene.until_delivered(Which::Acceptor, 200);
    scene.until_delivered(Which::Dialer, 200);
    assert_numbers(&scene.acceptor().ledger().delivered, there);
    assert_numbers(&scene.dialer().ledger().delivered, back);
}

pub(in crate::shards) fn requests_are_answered_among_messages<G: Ground>(scene: &mut Scene<G>) {
    scene.connect(Limits::TIGHT);
    for number in 0..150_u64 {
        for which in [Which::Dialer, Which::Acceptor] {
            let side = scene.side(which);
            if number % 3 == 0 {
                side.request(number, length(number));
            } else {
                side.message(number, length(number));
            }
        }
    }
    for which in [Which::Dialer, Which::Acceptor] {
        scene.until_answered(which);
    }
    for which in [Which::Dialer, Which::Acceptor] {
        scene.until_delivered(which, 150);
        assert_numbers(&scene.side(which).ledger().delivered, 0..150);
        let requests = (0..150).filter(|number| number % 3 == 0);
        assert_numbers(&scene.side(which).ledger().completed, requests);
    }
}

pub(in crate::shards) fn a_big_message_and_small_ones_keep_their_order<G: Ground>(
    scene: &mut Scene<G>,
) {
    scene.connect(Limits::TIGHT);
    for number in 0..60_u64 {
        // Far above the mark: it goes when the queue is empty, and nothing overtakes it.
        let length = if number % 30 == 15 { 1 << 20 } else { 100 };
        scene.dialer().message(number, length);
    }
    scene.until_delivered(Which::Acceptor, 60);
    assert_numbers(&scene.acceptor().ledger().delivered, 0..60);
    let big = scene.acceptor().ledger().delivered.iter().filter(|it| it.length == 1 << 20).count();
    assert_eq!(big, 2, "whole");
}
