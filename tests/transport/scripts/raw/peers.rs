//! Peers that do what no driver does.

use std::io::Write;
use std::net::Shutdown;
use std::thread;

use core::time::Duration;
use ztransport::event::ReceiveStop;
use ztransport::socket::SocketBuffers;

use crate::seen::{END_OF_STREAM, Note};
use crate::stand::Kernel;
use crate::world::{World, assert_same, pattern};

pub(crate) fn a_reset_ends_the_receive_and_every_send_after_it<S: Kernel>(world: &mut World<S>) {
    let (ours, peer) = world.connection(SocketBuffers::default());
    world.receive(ours);
    world.poll();
    // With this a close discards instead of finishing.
    rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
    drop(peer);
    world.until(|world| !world.seen(ours).notes.is_empty());
    let notes = &world.seen(ours).notes;
    assert!(
        matches!(notes[..], [Note::Stopped(ReceiveStop::Failed(_))]),
        "{notes:?} is a failure and nothing else"
    );
    world.send(ours, b"anybody?");
    world.until_sent(ours);
    let last = world.seen(ours).notes.last();
    assert!(matches!(last, Some(Note::Sent(Err(_)))), "{last:?} is a failure");
}

pub(crate) fn everything_a_peer_wrote_before_it_closed_is_received<S: Kernel>(
    world: &mut World<S>,
) {
    let (ours, mut peer) = world.connection(SocketBuffers::default());
    let bytes = pattern(1 << 20);
    let sent = bytes.clone();
    let writer = thread::spawn(move || {
        peer.write_all(&sent).unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        peer
    });
    world.receive(ours);
    world.until_noted(ours, &END_OF_STREAM);
    drop(writer.join().unwrap());
    assert_same(&world.seen(ours).received, &bytes);
}

pub(crate) fn recv_cancel_loss_does_not_happen_whatever_a_peer_writes_meanwhile<S: Kernel>(
    world: &mut World<S>,
) {
    let (ours, mut peer) = world.connection(SocketBuffers::default());
    world.hide_pauses(ours);
    let bytes = pattern(1_000 * 40);
    for chunk in bytes.chunks(40) {
        world.receive(ours);
        world.poll();
        peer.write_all(chunk).unwrap();
        world.pause(ours);
        world.until(|world| world.seen(ours).notes.last() == Some(&crate::seen::PAUSED));
        world.seen(ours).notes.clear();
    }
    world.receive(ours);
    world.until_received(ours, bytes.len());
    assert_same(&world.seen(ours).received, &bytes);
}
