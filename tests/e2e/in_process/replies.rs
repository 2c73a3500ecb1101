//! Replies to a host whose own queues are full.

use core::time::Duration;
use std::sync::Arc;
use std::sync::OnceLock;

use bytes::Bytes;
use zhost::{Caller, ChannelServer, Host, RouteMesh};

use super::world::{
    CHANNEL, Gate, HOLD, JOBS, MESH, Way, dropped, fill, marks, payload, peer, receiver, run, until,
};

/// A receiver, a sender that floods it, and callers from each to the other.
struct Two {
    gate: Gate,
    receiver: Host,
    sender: Host,
    to_receiver: Caller,
    to_sender: Caller,
}

/// What the sender does when the receiver asks it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Asked {
    Replies,
    /// It first sends a message to the one who asks.
    SendsAndReplies,
}

async fn two(asked: Asked) -> Two {
    let gate = Gate::new();
    let receiver = receiver("receiver", gate.channel(), |host| marks(host, 64, 64));
    let back: Arc<OnceLock<Caller>> = Arc::default();
    let caller = Arc::clone(&back);
    let answers = ChannelServer::new(CHANNEL).on_request("ask", move |question: Bytes| {
        let caller = Arc::clone(&caller);
        async move {
            if asked == Asked::SendsAndReplies {
                caller.get().unwrap().send(HOLD, question.clone()).await.unwrap();
            }
            Ok(question)
        }
    });
    let mesh = RouteMesh::new(MESH).channel(answers).peer(peer("receiver", &receiver));
    let sender = marks(Host::builder("sender").mesh(mesh), 64, 64).start().unwrap();
    until("they know each other", || receiver.node(MESH, "sender", CHANNEL).is_ok()).await;
    let to_sender = receiver.node(MESH, "sender", CHANNEL).unwrap();
    let to_receiver = sender.node(MESH, "receiver", CHANNEL).unwrap();
    back.set(to_receiver.clone()).unwrap();
    Two { gate, receiver, sender, to_receiver, to_sender }
}

#[test]
fn b_029_b_148_replies_flow_past_a_saturated_queue_and_all_is_reported_as_normal() {
    run(async {
        let two = two(Asked::Replies).await;
        let way = Way { sender: &two.sender, receiver: &two.receiver, payload: 1 << 10 };
        let accepted = fill(way, &two.to_receiver).await;
        for _ in 0..200 {
            let timeout = Duration::from_mins(1);
            let reply = two.to_sender.request("ask", payload(64)).timeout(timeout).await.unwrap();
            assert_eq!(reply.payload(), payload(64), "the answer");
            assert!(two.receiver.is_saturated(), "and still no permit is free");
        }
        assert_eq!(two.gate.handled(), 0, "no message was handled meanwhile");
        let status = two.receiver.status();
        assert!(status.is_ready, "pressure is not a failure: {status:?}");
        assert_eq!(status.application_job_queue.in_use, JOBS, "{status:?}");
        let faults = [dropped(&status), status.lost_replies, status.late_replies];
        assert_eq!(faults, [0; 3], "nothing went wrong: {status:?}");
        assert_eq!((status.pairs_ended, status.request_timeouts), (0, 0), "{status:?}");
        two.gate.open();
        until("the backlog drains", || two.gate.handled() == accepted).await;
        assert_eq!(dropped(&two.sender.status()), 0, "on neither side");
    });
}

/// The message is sent before the reply, by the same handler, to the same host.
#[test]
fn b_055_a_reply_may_overtake_an_earlier_message_of_the_same_peer() {
    run(async {
        let two = two(Asked::SendsAndReplies).await;
        let timeout = Duration::from_mins(1);
        let reply = two.to_sender.request("ask", payload(8)).timeout(timeout).await.unwrap();
        assert_eq!(reply.payload(), payload(8), "the answer is here");
        assert_eq!(two.gate.handled(), 0, "and the message before it has not been handled");
        two.gate.open();
        until("the message is handled too", || two.gate.handled() == 1).await;
    });
}
