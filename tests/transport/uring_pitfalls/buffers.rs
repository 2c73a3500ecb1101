//! Running out of provided buffers.

use std::io::Write;
use std::thread;

use ztransport::op::BufferGroup;
use ztransport::socket::SocketBuffers;
use ztransport::uring::UringOptions;

use super::{DEFAULT, on_ring};
use crate::world::{assert_same, pattern};

const ONE_BUFFER: UringOptions =
    UringOptions { application_buffers: 1, completion_buffers: 1, ..DEFAULT };

#[test]
fn enobufs_stops_receiving_and_arming_again_loses_nothing() {
    on_ring(ONE_BUFFER, |world| {
        let (ours, mut peer) = world.connection(SocketBuffers::default());
        let bytes = pattern(4 << 20);
        let sent = bytes.clone();
        let writer = thread::spawn(move || peer.write_all(&sent).unwrap());
        world.receive(ours);
        world.until_received(ours, bytes.len());
        writer.join().unwrap();
        assert!(world.seen(ours).no_buffers > 0, "one buffer was enough for 4 MiB");
        assert_same(&world.seen(ours).received, &bytes);
    });
}

#[test]
fn enobufs_costs_neither_of_two_connections_that_share_one_buffer_anything() {
    on_ring(ONE_BUFFER, |world| {
        let bytes = pattern(200_000);
        let mut ends = Vec::new();
        for _ in 0..2 {
            let (ours, mut peer) = world.connection(SocketBuffers::default());
            let sent = bytes.clone();
            ends.push((ours, thread::spawn(move || peer.write_all(&sent).map(|()| peer).unwrap())));
            world.receive(ours);
        }
        for (ours, writer) in ends {
            world.until_received(ours, bytes.len());
            drop(writer.join().unwrap());
            assert_same(&world.seen(ours).received, &bytes);
        }
    });
}

#[test]
fn enobufs_of_data_leaves_replies_their_own_buffers() {
    on_ring(ONE_BUFFER, |world| {
        let (data, mut data_peer) = world.connection(SocketBuffers::default());
        let (reply, mut reply_peer) = world.connection(SocketBuffers::default());
        // Both wait in their sockets before anything is armed, so that one turn meets both.
        data_peer.write_all(&pattern(100_000)).unwrap();
        reply_peer.write_all(b"done").unwrap();
        world.receive(data);
        world.receive_into(reply, BufferGroup::Completion);
        world.until(|world| world.seen(data).no_buffers > 0);
        world.until_received(reply, 4);
        assert_eq!(world.seen(reply).received, b"done", "the reply");
        assert_eq!(world.seen(reply).no_buffers, 0, "replies ran out of buffers because of data");
    });
}
