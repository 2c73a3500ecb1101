//! A host that is slow, and lanes that are full.

use crate::shards::ground::{Ground, Which};
use crate::shards::scene::Scene;
use crate::shards::side::{Gate, Limits};

/// Messages that fill both queues and what is between them, and then some.
fn fill<G: Ground>(scene: &mut Scene<G>) -> usize {
    let messages = 200;
    scene.acceptor().set_gate(Gate::Shut);
    for number in 0..messages {
        scene.dialer().message(number, 8 << 10);
    }
    let half = Limits::TIGHT.mark.get() / 2;
    scene.until("the sender waits and the receiver is full", |scene| {
        // A lane that stopped at its mark is armed again at half of it, and stays so in between.
        scene.dialer().is_waiting() && scene.acceptor().received_bytes().get() > half
    });
    usize::try_from(messages).unwrap()
}

pub(in crate::shards) fn a_receive_mark_blocks_its_sender_and_goes_on<G: Ground>(
    scene: &mut Scene<G>,
) {
    scene.connect(Limits::TIGHT);
    let messages = fill(scene);
    let permits = Limits::TIGHT.permits as usize;
    assert_eq!(scene.acceptor().ledger().delivered.len(), permits, "one for each permit");
    scene.acceptor().set_gate(Gate::Open);
    scene.until_delivered(Which::Acceptor, messages);
    let peak = scene.acceptor().peer().unwrap().receive_queue().peak;
    assert!(peak <= Limits::TIGHT.mark, "{peak:?} were charged at once");
    scene.until("all is sent", |scene| scene.dialer().is_admitted());
    let (sender, mark) = (scene.dialer().peer().unwrap(), Limits::TIGHT.mark);
    let snapshot = sender.application().snapshot();
    assert!(snapshot.waits > 0 && snapshot.peak <= mark, "it waited: {snapshot:?}");
}

pub(in crate::shards) fn replies_go_on_while_the_application_lane_is_full<G: Ground>(
    scene: &mut Scene<G>,
) {
    scene.connect(Limits::TIGHT);
    let messages = fill(scene);
    for number in 0..50 {
        scene.acceptor().request(number, 1_000);
        scene.until_answered(Which::Acceptor);
    }
    assert_eq!(scene.acceptor().ledger().completed.len(), 50, "each was answered");
    let permits = Limits::TIGHT.permits as usize;
    assert_eq!(scene.acceptor().ledger().delivered.len(), permits, "and it is full still");
    assert!(scene.dialer().is_waiting(), "on both sides");
    scene.acceptor().set_gate(Gate::Open);
    scene.until_delivered(Which::Acceptor, messages);
}

pub(in crate::shards) fn replies_pass_a_big_message<G: Ground>(scene: &mut Scene<G>) {
    scene.connect(Limits::TIGHT);
    scene.acceptor().set_gate(Gate::Shut);
    // The permits, and then one that is larger than everything between the two.
    for number in 0..4 {
        scene.dialer().message(number, 8);
    }
    scene.dialer().message(4, 1 << 20);
    scene.dialer().message(5, 1 << 20);
    scene.until("the next one waits", |scene| scene.dialer().is_waiting());
    for number in 0..20 {
        scene.acceptor().request(number, 1_000);
    }
    scene.until_answered(Which::Acceptor);
    scene.acceptor().set_gate(Gate::Open);
    scene.until_delivered(Which::Acceptor, 6);
}
