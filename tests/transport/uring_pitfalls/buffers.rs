//! Running out of provided buffers.

use std::io::Write;
use std::thread;

use ztransport::event::ReceiveStop;
use ztransport::op::{BufferGroup, Op};
use ztransport::socket::SocketBuffers;
use ztransport::uring::UringOptions;

use crate::support::{Note, World, assert_same, pattern};

const ONE_BUFFER: UringOptions = UringOptions {
    sockets_max: 8,
    application_buffers: 1,
    completion_buffers: 1,
    ..UringOptions::default()
};

#[test]
fn running_out_of_buffers_stops_receiving_and_arming_again_loses_nothing() {
    let Some(mut world) = World::with(ONE_BUFFER) else { return };
    let (ours, mut peer) = world.connection(SocketBuffers::default());
    let bytes = pattern(4 << 20);
    let sent = bytes.clone();
    let writer = thread::spawn(move || peer.write_all(&sent).unwrap());
    world.receive(ours);
    let mut stops = 0;
    world.until(|world| {
        let notes = &mut world.seen(ours).notes;
        let before = notes.len();
        notes.retain(|note| *note != Note::Stopped(ReceiveStop::NoBuffers));
        if notes.len() < before {
            stops += before - notes.len();
            world.receive(ours);
        }
        world.seen(ours).received.len() >= bytes.len()
    });
    writer.join().unwrap();
    assert!(stops > 0, "one buffer was enough for 4 MiB");
    assert_same(&world.seen(ours).received, &bytes);
}

#[test]
fn two_connections_that_share_one_buffer_both_get_everything() {
    let Some(mut world) = World::with(ONE_BUFFER) else { return };
    let bytes = pattern(200_000);
    let mut ends = Vec::new();
    for _ in 0..2 {
        let (ours, mut peer) = world.connection(SocketBuffers::default());
        let sent = bytes.clone();
        ends.push((ours, thread::spawn(move || peer.write_all(&sent).map(|()| peer).unwrap())));
        world.receive(ours);
    }
    world.until(|world| {
        for (ours, _) in &ends {
            if world.seen(*ours).notes.last() == Some(&Note::Stopped(ReceiveStop::NoBuffers)) {
                world.seen(*ours).notes.clear();
                world.receive(*ours);
            }
        }
        ends.iter().all(|(ours, _)| world.seen(*ours).received.len() >= bytes.len())
    });
    for (ours, writer) in ends {
        drop(writer.join().unwrap());
        assert_same(&world.seen(ours).received, &bytes);
    }
}

#[test]
fn the_completion_group_has_buffers_while_the_application_group_has_none() {
    let Some(mut world) = World::with(ONE_BUFFER) else { return };
    let (data, mut data_peer) = world.connection(SocketBuffers::default());
    let (reply, mut reply_peer) = world.connection(SocketBuffers::default());
    // Both wait in their sockets before anything is armed, so that one turn meets both.
    data_peer.write_all(&pattern(100_000)).unwrap();
    reply_peer.write_all(b"done").unwrap();
    world.receive(data);
    world.push(Op::Receive { socket: reply, group: BufferGroup::Completion });
    world.until_noted(data, &Note::Stopped(ReceiveStop::NoBuffers));
    world.until_received(reply, 4);
    assert_eq!(world.seen(reply).received, b"done", "the reply");
    assert!(
        !world.seen(reply).has(&Note::Stopped(ReceiveStop::NoBuffers)),
        "replies ran out of buffers because of data"
    );
}
