//! Connections that break, or never come about.

use zcore::ByteCount;
use ztransport::limits::{CONNECT_TIMEOUT, GREETING_TIMEOUT};

use crate::shards::ground::{Ground, Which};
use crate::shards::scene::Scene;
use crate::shards::side::{Gate, Limits};

#[track_caller]
fn until_down<G: Ground>(scene: &mut Scene<G>) {
    scene.until("both know that the pair is gone", |scene| {
        [Which::Dialer, Which::Acceptor]
            .into_iter()
            .all(|which| scene.side(which).ledger().links == ["up", "lost"])
    });
}

pub(in crate::shards) fn a_broken_connection_ends_the_pair_and_what_was_queued_arrives_over_the_next<
    G: Ground,
>(
    scene: &mut Scene<G>,
) {
    scene.connect_breakable(Limits::ROOMY);
    for number in 0..10 {
        scene.dialer().message(number, 1_000);
        scene.acceptor().request(number, 1_000);
    }
    scene.until_delivered(Which::Acceptor, 10);
    scene.until_answered(Which::Acceptor);
    scene.break_application();
    until_down(scene);
    for number in 10..40 {
        scene.dialer().message(number, 1_000);
        scene.acceptor().request(number, 1_000);
    }
    scene.until("all is queued", |scene| {
        scene.dialer().is_admitted() && scene.acceptor().is_admitted()
    });
    assert_eq!(scene.acceptor().ledger().delivered.len(), 10, "nothing leaves without a pair");
    scene.until_pairs(2);
    scene.until_delivered(Which::Acceptor, 40);
    scene.until_answered(Which::Acceptor);
    for which in [Which::Dialer, Which::Acceptor] {
        let ledger = scene.side(which).ledger();
        assert!(ledger.delivered.iter().map(|entry| entry.id).eq(0..40), "each once, in order");
        assert!(ledger.dropped.is_empty(), "nothing was lost: {:?}", ledger.dropped);
    }
}

pub(in crate::shards) fn what_was_under_way_when_a_connection_broke_is_counted<G: Ground>(
    scene: &mut Scene<G>,
) {
    scene.connect_breakable(Limits::TIGHT);
    for which in [Which::Dialer, Which::Acceptor] {
        scene.side(which).ledger().hide_losses();
    }
    scene.acceptor().set_gate(Gate::Shut);
    for number in 0..200 {
        scene.dialer().message(number, 8 << 10);
    }
    let half = ByteCount::new(Limits::TIGHT.mark.get() / 2);
    scene.until("everything is full", |scene| {
        scene.dialer().is_waiting() && scene.acceptor().received_bytes() > half
    });
    scene.break_application();
    scene.acceptor().set_gate(Gate::Open);
    until_down(scene);
    scene.until_pairs(2);
    scene.until("all is sent", |scene| {
        let has_last = scene.acceptor().ledger().delivered.last().is_some_and(|it| it.id == 199);
        scene.dialer().is_admitted() && has_last
    });
    let delivered: Vec<_> =
        scene.acceptor().ledger().delivered.iter().map(|entry| entry.id).collect();
    assert!(delivered.is_sorted_by(|one, next| one < next), "each at most once, in order");
    assert_eq!(scene.dialer().ledger().settled, 1, "the acceptor has told what it took");
    let dropped = scene.dialer().ledger().dropped.get("connection_lost").copied().unwrap_or(0);
    // What the kernel had taken is known to be lost, since the acceptor did not claim it.
    assert_eq!(dropped, 200 - delivered.len() as u64, "each that is missing was counted");
    if scene.is_exact() {
        assert!(dropped > 0, "the kernel held some of them");
    }
}

pub(in crate::shards) fn connect_timeout_is_the_shards_and_it_dials_again<G: Ground>(
    scene: &mut Scene<G>,
) {
    scene.start_nowhere(Limits::ROOMY);
    let start = scene.now();
    let limit = CONNECT_TIMEOUT.saturating_add(GREETING_TIMEOUT);
    scene.until_in_time("it gives up", |scene| scene.dialer().ledger().rejected.len() == 1);
    let waited = scene.now().since(start);
    assert!(waited >= limit, "after {waited:?}, and not before");
    scene.until_in_time("and again", |scene| scene.dialer().ledger().rejected.len() == 2);
    assert_eq!(scene.dialer().ledger().rejected, ["greeting_timeout"; 2], "for this reason");
    assert!(scene.dialer().ledger().links.is_empty(), "nothing came up");
}
