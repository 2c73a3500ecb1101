//! Which records may come on which lane.

use bytes::Bytes;
use zcore::wire::{Goodbye, GoodbyeReason, Kind, Lane};
use ztransport::limits::RETURN_MAX;

use crate::raw::{RawPair, record};
use crate::world::{Bystander, Server, spawn, still};

fn sample(kind: Kind) -> Vec<u8> {
    let goodbye = Goodbye { reason: GoodbyeReason::Drain, window_ms: 0 }.encode();
    let payload: &[u8] = if kind == Kind::Goodbye { &goodbye } else { &[] };
    record(kind, 1, "placed", payload)
}

#[test]
fn b_051_any_kind_but_replies_on_the_completion_lane_ends_the_pair() {
    let server = Server::start(|host| host);
    let bystander = Bystander::start(&server);
    let others = Kind::ALL.iter().filter(|kind| kind.lane() != Lane::Completion);
    let mut ended = 0;
    for kind in others {
        let mut pair = RawPair::dial(&server.host, &format!("raw-{kind}"));
        pair.expect_alive(1);
        pair.completion.say(&sample(*kind));
        pair.expect_end();
        ended += 1;
        server.expect_counts(0, ended);
    }
    assert_eq!(ended, 6, "every other kind");
    assert_eq!(server.ledger.len(), 0, "none of them was handled");
    bystander.expect_undisturbed();
}

#[test]
fn b_051_replies_of_both_kinds_are_taken_on_the_completion_lane_and_on_no_other() {
    let clock = still();
    let server = Server::on_virtual_time(&clock);
    for (index, kind) in (1..).zip([Kind::Reply, Kind::ErrorReply]) {
        let node = format!("raw-{kind}");
        let mut pair = RawPair::dial(&server.host, &node);
        for lane in [Lane::Completion, Lane::Application] {
            let caller = server.caller(&node);
            let asked = spawn(async move { caller.request("any", Bytes::new()).await });
            let (head, _) = pair.application.expect(Kind::Request);
            let answer = record(kind, head.id, "", &[1, 0, 0, 0]);
            match lane {
                Lane::Completion => {
                    pair.completion.say(&answer);
                    let end = asked.join().unwrap().map(drop).map_err(|e| e.kind());
                    let failed = (kind == Kind::ErrorReply).then_some(zhost::ErrorKind::NotFound);
                    assert_eq!(end.err(), failed, "{kind}: what the peer says");
                    pair.expect_alive(1);
                }
                Lane::Application => {
                    pair.application.say(&answer);
                    pair.expect_end();
                    // The peer does not come back to say what it took.
                    clock.advance(RETURN_MAX);
                    let end = asked.join().unwrap().unwrap_err();
                    assert_eq!(end.kind(), zhost::ErrorKind::Unavailable, "{kind}");
                }
            }
        }
        server.expect_counts(0, index);
    }
}

#[test]
fn every_control_record_is_at_home_on_the_application_lane() {
    let server = Server::start(|host| host);
    let mut pair = RawPair::dial(&server.host, "raw");
    for kind in [Kind::Probe, Kind::ProbeAnswer, Kind::SendReady] {
        pair.application.say(&sample(kind));
        pair.expect_alive(1);
    }
    pair.application.expect(Kind::ProbeAnswer);
    pair.application.say(&sample(Kind::Goodbye));
    pair.application.expect_end();
    server.expect_counts(0, 0);
}
