//! Each fault alone: it happens, it is counted, and nothing else goes wrong.

use rustix::io::Errno;

use super::lab::{Lab, Note, SMALL, Seen, assert_same, pattern};
use crate::driver::Driver;
use crate::event::ReceiveStop;
use crate::op::Op;
use crate::sim::limits::{LATE_POLLS_MAX, SLOW_CONNECT_POLLS_MAX};
use crate::sim::{Fault, Rate, SimFaults};
use crate::token::SocketId;

const END: Note = Note::Stopped(ReceiveStop::EndOfStream);
const PAUSED: Note = Note::Stopped(ReceiveStop::Paused);
const NO_BUFFERS: Note = Note::Stopped(ReceiveStop::NoBuffers);
const RESET: Note = Note::Stopped(ReceiveStop::Failed(Errno::CONNRESET));
const CONNECTED: Note = Note::Connected(Ok(()));

/// How many seeds each fault is looked at with.
const SEEDS: u64 = 100;

/// A lab in which one fault strikes wherever it can, from when it is connected on.
fn always(seed: u64, fault: Fault) -> Lab {
    Lab::new(seed, SimFaults::none().with(fault, Rate::ALWAYS))
}

/// Says so if anything else has struck.
#[track_caller]
fn only(lab: &Lab, fault: Fault) {
    let counts = lab.network.injected();
    assert_eq!(counts.total(), counts.of(fault), "only {fault:?}: {counts}");
    assert!(counts.of(fault) > 0, "{fault:?} did not strike");
}

#[test]
fn a_short_send_may_end_at_any_byte() {
    let mut lengths = Vec::new();
    for seed in 0..SEEDS {
        let mut lab = always(seed, Fault::ShortSend);
        let (ours, theirs) = lab.connect();
        lab.server.receive(theirs);
        lab.dialer.send(ours, &pattern(4_000, 0));
        lab.settle();
        let Some(Note::Sent(Ok(sent))) = lab.dialer.seen(ours).notes.last() else { panic!() };
        lengths.push(*sent);
        assert_same(&lab.server.seen(theirs).received, &pattern(4_000, 0)[..*sent], "those");
        only(&lab, Fault::ShortSend);
    }
    assert!(lengths.iter().all(|sent| (1..4_000).contains(sent)), "short, never nothing");
    let (least, most) = (lengths.iter().min(), lengths.iter().max());
    assert!(least < Some(&4) && most > Some(&3_000), "from {least:?} to {most:?}");
}

#[test]
fn a_receive_may_be_split_at_any_byte() {
    let mut pieces = Vec::new();
    for seed in 0..SEEDS {
        let mut lab = always(seed, Fault::SplitReceive);
        let (ours, theirs) = lab.connect();
        lab.server.receive(theirs);
        lab.dialer.send(ours, &pattern(8_000, 0));
        lab.settle();
        assert_same(&lab.server.seen(theirs).received, &pattern(8_000, 0), "all of it");
        let length =
            |note: &Note| if let Note::Bytes(length) = note { Some(*length) } else { None };
        pieces.extend(lab.server.seen(theirs).notes.iter().filter_map(length));
        only(&lab, Fault::SplitReceive);
    }
    let (least, most) = (pieces.iter().min(), pieces.iter().max());
    assert!(least == Some(&1) && most > Some(&7_000), "from {least:?} to {most:?}");
}

#[test]
fn a_completion_may_be_some_polls_late() {
    for seed in 0..SEEDS {
        let mut lab = always(seed, Fault::LateCompletion);
        let (ours, theirs) = lab.connect();
        lab.server.receive(theirs);
        lab.dialer.send(ours, b"late");
        let polls = lab.dialer.polls_to_event();
        assert!((2..=LATE_POLLS_MAX + 1).contains(&polls), "seed {seed}: sent after {polls}");
        let polls = lab.server.polls_to_event();
        assert!((2..=LATE_POLLS_MAX + 1).contains(&polls), "seed {seed}: received after {polls}");
        only(&lab, Fault::LateCompletion);
    }
}

#[test]
fn nothing_is_told_of_a_socket_before_it_is_told_to_be_connected() {
    for seed in 0..SEEDS {
        let mut lab = always(seed, Fault::LateCompletion);
        lab.accept();
        let ours = lab.dialer.dial(&lab.address.clone(), SMALL);
        lab.dialer.send(ours, b"early");
        lab.dialer.receive(ours);
        lab.settle();
        let theirs = lab.server.seen(lab.listener).accepted[0];
        lab.server.send(theirs, b"early, too");
        lab.settle();
        let notes = &lab.dialer.seen(ours).notes;
        let all = [CONNECTED, Note::Sent(Ok(5)), Note::Bytes(10)];
        assert_eq!(notes[..], all, "seed {seed}");
    }
}

#[test]
fn sockets_may_be_looked_at_in_any_order() {
    let mut orders = Vec::new();
    for seed in 0..SEEDS {
        let mut lab = always(seed, Fault::Reordered);
        let pairs: Vec<_> = (0..3).map(|_| lab.connect()).collect();
        for (ours, theirs) in &pairs {
            lab.dialer.send(*ours, b"x");
            lab.server.receive(*theirs);
        }
        lab.dialer.poll();
        let before = lab.server.trace.len();
        lab.server.poll();
        orders.push(lab.server.trace.split_off(before));
        only(&lab, Fault::Reordered);
    }
    orders.sort_by_key(|order| order.iter().map(|(socket, _)| *socket).collect::<Vec<_>>());
    orders.dedup();
    assert_eq!(orders.len(), 6, "all orders of three");
}

#[test]
fn a_receive_may_run_out_of_buffers_and_does_so_once_for_each_byte_at_most() {
    for seed in 0..SEEDS {
        let mut lab = always(seed, Fault::NoBuffers);
        let (ours, theirs) = lab.connect();
        lab.dialer.send(ours, b"patience");
        for _ in 0..2 {
            lab.server.receive(theirs);
            lab.settle();
        }
        assert_eq!(lab.server.seen(theirs).notes, [NO_BUFFERS, Note::Bytes(8)], "seed {seed}");
        only(&lab, Fault::NoBuffers);
    }
}

#[test]
fn bytes_may_arrive_after_a_pause_and_none_after_it_is_reported() {
    let mut lengths = Vec::new();
    for seed in 0..SEEDS {
        let mut lab = always(seed, Fault::LateData);
        let (ours, theirs) = lab.connect();
        lab.server.receive(theirs);
        lab.settle();
        lab.server.push(Op::PauseReceive { socket: theirs });
        for _ in 0..=LATE_POLLS_MAX {
            lab.server.poll();
            lab.dialer.seen(ours).batch = None;
            lab.dialer.send(ours, b"!");
            lab.dialer.poll();
        }
        lab.settle();
        let seen = lab.server.seen(theirs);
        assert_eq!(seen.notes.last(), Some(&PAUSED), "seed {seed}");
        lengths.push(seen.received.len() as u64);
        assert_eq!(lab.network.injected().of(Fault::LateData), lengths[lengths.len() - 1], "all");
    }
    lengths.sort_unstable();
    lengths.dedup();
    assert!(lengths.iter().eq(&(0..LATE_POLLS_MAX).collect::<Vec<_>>()), "{lengths:?}");
}

#[test]
fn a_pause_that_is_long_in_coming_comes_without_any_bytes_too() {
    for seed in 0..SEEDS {
        let mut lab = always(seed, Fault::LateData);
        let (_, theirs) = lab.connect();
        lab.server.receive(theirs);
        lab.settle();
        lab.server.push(Op::PauseReceive { socket: theirs });
        lab.settle();
        assert_eq!(lab.server.seen(theirs).notes, [PAUSED], "seed {seed}");
        assert_eq!(lab.network.injected().total(), 0, "seed {seed}: no data was late");
    }
}

#[test]
fn operations_may_start_some_polls_after_they_were_pushed() {
    for seed in 0..SEEDS {
        let mut lab = always(seed, Fault::QueueFull);
        let (ours, _) = lab.connect();
        lab.dialer.send(ours, b"stuck");
        assert_eq!(lab.dialer.poll(), 0, "seed {seed}: the queue does not move");
        assert!(lab.dialer.driver.is_ready(), "seed {seed}: but it will");
        let polls = 1 + lab.dialer.polls_to_event();
        assert!((2..=LATE_POLLS_MAX + 1).contains(&polls), "seed {seed}: sent after {polls}");
        only(&lab, Fault::QueueFull);
    }
}

#[test]
fn a_spurious_wake_follows_events_and_nothing_follows_it() {
    let mut lab = always(1, Fault::SpuriousWake);
    let (ours, _) = lab.connect();
    lab.settle();
    lab.dialer.send(ours, b"x");
    assert_eq!(lab.dialer.poll(), 1, "sent");
    assert!(lab.dialer.driver.is_ready(), "ready for nothing");
    assert_eq!(lab.dialer.poll(), 0, "nothing");
    assert!(!lab.dialer.driver.is_ready(), "and it comes to rest");
    only(&lab, Fault::SpuriousWake);
}

/// Both ends send and receive until `is_over`. How many bytes arrived in all.
#[track_caller]
fn exchange(
    lab: &mut Lab,
    (ours, theirs): (SocketId, SocketId),
    is_over: impl Fn(&mut Seen, &mut Seen) -> bool,
) -> usize {
    let mut sent = 0;
    lab.until(|lab| {
        for (host, socket) in [(&mut lab.dialer, ours), (&mut lab.server, theirs)] {
            let seen = host.seen(socket);
            let has_failed = matches!(seen.notes.last(), Some(Note::Sent(Err(_))));
            if !seen.is_sending() && !has_failed {
                seen.batch = None;
                host.send(socket, &pattern(1_000, sent));
                sent += 250;
            }
            let seen = host.seen(socket);
            if !seen.is_receiving() && !seen.has_ended() {
                host.receive(socket);
            }
        }
        is_over(lab.dialer.seen(ours), lab.server.seen(theirs))
    });
    lab.dialer.seen(ours).received.len() + lab.server.seen(theirs).received.len()
}

#[test]
fn a_connection_may_break_after_any_number_of_bytes_for_both_ends() {
    let mut lengths = Vec::new();
    for seed in 0..SEEDS {
        let mut lab = always(seed, Fault::Reset);
        let pair = lab.connect();
        lengths
            .push(exchange(&mut lab, pair, |ours, theirs| ours.has_ended() && theirs.has_ended()));
        for (host, socket) in [(&mut lab.dialer, pair.0), (&mut lab.server, pair.1)] {
            let seen = host.seen(socket);
            let told = seen.notes.iter().filter(|note| is_reset(note)).count();
            assert_eq!(told, 1, "seed {seed}: told once to each");
        }
        only(&lab, Fault::Reset);
    }
    let (least, most) = (lengths.iter().min(), lengths.iter().max());
    assert!(least < Some(&100) && most > Some(&200_000), "from {least:?} to {most:?}");
}

fn is_reset(note: &Note) -> bool {
    *note == RESET || *note == Note::Sent(Err(Errno::CONNRESET))
}

#[test]
fn one_direction_may_end_while_the_other_goes_on() {
    let (mut ours_ended, mut theirs_ended) = (0, 0);
    for seed in 0..SEEDS {
        let mut lab = always(seed, Fault::HalfClose);
        let (ours, theirs) = lab.connect();
        exchange(&mut lab, (ours, theirs), |ours, theirs| ours.has_ended() || theirs.has_ended());
        let is_ours = lab.dialer.seen(ours).has_ended();
        assert!(is_ours != lab.server.seen(theirs).has_ended(), "seed {seed}: one of them");
        // Whoever found the end can still send.
        let (host, socket, peer, to) = if is_ours {
            ours_ended += 1;
            (&mut lab.dialer, ours, &mut lab.server, theirs)
        } else {
            theirs_ended += 1;
            (&mut lab.server, theirs, &mut lab.dialer, ours)
        };
        assert!(host.seen(socket).has(&END), "seed {seed}: it looks like the end");
        while host.poll() + peer.poll() > 0 {}
        let before = peer.seen(to).received.len();
        host.seen(socket).batch = None;
        host.send(socket, b"still there?");
        while host.poll() + peer.poll() > 0 {}
        assert_eq!(peer.seen(to).received.len(), before + 12, "seed {seed}: it arrives");
        only(&lab, Fault::HalfClose);
    }
    assert!(ours_ended > 20 && theirs_ended > 20, "{ours_ended} and {theirs_ended}");
}

#[test]
fn a_connect_may_be_refused_time_out_or_take_long_although_somebody_listens() {
    for (fault, outcome, polls_max) in [
        (Fault::Refused, Err(Errno::CONNREFUSED), 1),
        (Fault::TimedOut, Err(Errno::TIMEDOUT), SLOW_CONNECT_POLLS_MAX + 1),
        (Fault::SlowConnect, Ok(()), SLOW_CONNECT_POLLS_MAX + 1),
    ] {
        let mut longest = 0;
        for seed in 0..SEEDS {
            let mut lab = always(seed, fault);
            let ours = lab.dialer.dial(&lab.address.clone(), SMALL);
            let polls = lab.dialer.polls_to_event();
            longest = polls.max(longest);
            assert_eq!(lab.dialer.seen(ours).notes, [Note::Connected(outcome)], "seed {seed}");
            only(&lab, fault);
        }
        assert!(longest <= polls_max && longest > polls_max / 2, "{fault:?}: {longest} polls");
    }
}

#[test]
fn closing_races_with_connecting() {
    let (mut made, mut unmade) = (0, 0);
    for seed in 0..SEEDS {
        let faults = SimFaults::none()
            .with(Fault::SlowConnect, Rate::in_256(128))
            .with(Fault::LateCompletion, Rate::ALWAYS);
        let mut lab = Lab::new(seed, faults);
        lab.accept();
        let ours = lab.dialer.dial(&lab.address.clone(), SMALL);
        lab.turn();
        lab.dialer.close(ours);
        lab.settle();
        assert_eq!(lab.dialer.seen(ours).notes, [Note::Closed], "seed {seed}: nothing else");
        match lab.server.seen(lab.listener).accepted.pop() {
            None => unmade += 1,
            Some(theirs) => {
                made += 1;
                lab.server.receive(theirs);
                lab.settle();
                assert_eq!(lab.server.seen(theirs).notes, [END], "seed {seed}: it came and went");
            }
        }
    }
    assert!(made > 20 && unmade > 20, "{made} were made, {unmade} were not");
}

#[test]
fn an_accept_may_stop_and_the_connection_waits_for_the_next_one() {
    let mut stops = 0;
    for seed in 0..SEEDS {
        let mut lab =
            Lab::new(seed, SimFaults::none().with(Fault::AcceptStopped, Rate::in_256(128)));
        let ours = lab.dialer.dial(&lab.address.clone(), SMALL);
        let listener = lab.listener;
        lab.until(|lab| {
            if !lab.server.seen(listener).is_accepting() {
                lab.accept();
            }
            !lab.server.seen(listener).accepted.is_empty()
        });
        let stopped = Note::AcceptStopped(Errno::MFILE);
        let notes = &lab.server.seen(listener).notes;
        let of_this = notes.iter().filter(|note| **note == stopped).count() as u64;
        assert_eq!(of_this, lab.network.injected().total(), "seed {seed}: each is told");
        stops += of_this;
        assert_eq!(lab.dialer.seen(ours).notes, [CONNECTED], "seed {seed}: it heard nothing");
    }
    assert!((50..200).contains(&stops), "{stops} in {SEEDS} accepts at one half");
}

#[test]
fn faults_can_be_changed_while_a_network_runs() {
    let mut lab = Lab::new(1, SimFaults::none());
    let (ours, _) = lab.connect();
    lab.network.set_faults(SimFaults::none().with(Fault::ShortSend, Rate::ALWAYS));
    lab.dialer.send(ours, b"storm");
    lab.settle();
    lab.network.set_faults(SimFaults::none());
    assert!(!lab.dialer.resume(ours), "some is left");
    lab.settle();
    assert!(lab.dialer.resume(ours), "in a calm the rest is sent at once");
    only(&lab, Fault::ShortSend);
}
