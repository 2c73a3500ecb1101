//! A host that ends while there is much to say.

use crate::shards::ground::{Ground, Which};
use crate::shards::scene::Scene;
use crate::shards::side::Limits;

const MESSAGES: usize = 120;

/// Drains one side in the middle of everything. It says all it has admitted, and is answered.
fn drain<G: Ground>(scene: &mut Scene<G>, leaving: Which, staying: Which) {
    scene.connect(Limits::TIGHT);
    for number in 0..120_u64 {
        let side = scene.side(leaving);
        if number % 3 == 0 {
            side.request(number, 2_000);
        } else {
            side.message(number, 2_000);
        }
    }
    scene.until("all is admitted", |scene| scene.side(leaving).is_admitted());
    scene.side(leaving).drain();
    scene.until("the shard has ended", |scene| scene.is_over(leaving));
    scene.until("the other side knows", |scene| scene.side(staying).ledger().links.len() == 2);
    let stayed = scene.side(staying).ledger();
    assert_eq!(stayed.delivered.len(), MESSAGES, "all was said");
    assert!(stayed.delivered.iter().map(|entry| entry.id).eq(0..120), "in order");
    assert!(stayed.dropped.is_empty(), "nothing is given up: {:?}", stayed.dropped);
    drop(stayed);
    let left = scene.side(leaving).ledger();
    assert_eq!(left.completed.len(), MESSAGES / 3, "and answered");
    assert!(left.dropped.is_empty(), "nothing is given up: {:?}", left.dropped);
}

pub(in crate::shards) fn a_dialer_that_drains_under_load_says_everything_first<G: Ground>(
    scene: &mut Scene<G>,
) {
    drain(scene, Which::Dialer, Which::Acceptor);
}

pub(in crate::shards) fn an_acceptor_that_drains_under_load_says_everything_first<G: Ground>(
    scene: &mut Scene<G>,
) {
    drain(scene, Which::Acceptor, Which::Dialer);
}
