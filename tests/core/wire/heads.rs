//! The head of a record: its codes, its limits, its sizes.

use zcore::limits::{CONTROL_RECORD_MAX, MESSAGE_SIZE_MAX, RECORD_HEAD_MAX};
use zcore::wire::{
    ContentType, Decoder, HEAD_BYTES, HELLO_BYTES, Head, Kind, LABEL_MAX, Label, Lane, Limits,
    REMAINING_AT, RouteHash, WireError,
};
use zcore::{ByteCount, Charge};

use crate::samples::{heads, limits};

const _: () = {
    assert!(HEAD_BYTES == 32, "as the specification says");
    assert!(HELLO_BYTES == 256, "as the specification says");
    assert!(size_of::<Head>() == HEAD_BYTES, "a decoded head costs no more than an encoded one");
    assert!(size_of::<Label>() == 1 + LABEL_MAX, "as long as its field in a hello");
    assert!(size_of::<Decoder>() <= 80, "one for each connection, also on a microcontroller");
};

const fn limited(lane: Lane, max: u64) -> Limits {
    Limits { lane, max_message_size: ByteCount::new(max) }
}

#[test]
fn a_code_means_one_thing_or_nothing() {
    for code in 0..=u8::MAX {
        let kind = Kind::from_code(code);
        assert_eq!(kind.is_some(), [1, 2, 3, 4, 10, 11, 12, 13].contains(&code), "{code}");
        assert_eq!(kind.map_or(code, Kind::code), code);
        let content = ContentType::from_code(code);
        assert_eq!(content.is_some(), code <= 4, "{code}");
        assert_eq!(content.map_or(code, ContentType::code), code);
        assert_eq!(Lane::from_code(code).is_some(), [1, 2].contains(&code), "{code}");
    }
    assert_eq!(Kind::SendReady.code(), 12, "fixed by the contract");
    assert_eq!(ContentType::default(), ContentType::Bytes);
}

#[test]
fn replies_travel_on_the_completion_lane_and_nothing_else_does() {
    for kind in Kind::ALL.iter().copied() {
        let is_reply = matches!(kind, Kind::Reply | Kind::ErrorReply);
        assert_eq!(kind.lane() == Lane::Completion, is_reply, "{kind}");
        let bytes = Head::new(kind, 1, RouteHash::NONE).encode();
        for lane in Lane::ALL.iter().copied() {
            let decoded = Head::decode(&bytes, &limits(lane));
            if lane == kind.lane() {
                assert_eq!(decoded.map(|head| head.kind), Ok(kind));
            } else {
                assert_eq!(decoded, Err(WireError::WrongLane { kind, lane }));
            }
        }
    }
}

#[test]
fn lengths_and_charge_count_every_byte() {
    let head = Head {
        address_len: 255,
        metadata_len: 1_024,
        payload_len: 100_000,
        ..Head::new(Kind::Send, 0, RouteHash::NONE)
    };
    assert_eq!(head.body_len(), 255 + 1_024 + 100_000);
    assert_eq!(head.encoded_len(), 32 + 255 + 1_024 + 100_000);
    assert_eq!(head.charge(), Charge::of_encoded(head.encoded_len()));
    let [length, ..] = *head.encode().as_chunks::<4>().0 else { panic!("a head has a length") };
    assert_eq!(u64::from(u32::from_le_bytes(length)), head.encoded_len());
}

#[test]
fn the_remaining_time_can_be_written_into_an_encoded_head() {
    for head in heads() {
        let mut bytes = head.encode();
        bytes[REMAINING_AT..REMAINING_AT + 4].copy_from_slice(&1_234_567_u32.to_le_bytes());
        let decoded = Head::decode(&bytes, &limits(head.kind.lane())).unwrap();
        assert_eq!(decoded, Head { remaining_ms: 1_234_567, ..head });
    }
}

#[test]
fn payload_plus_metadata_up_to_the_limit_is_taken_and_one_byte_more_is_not() {
    for (metadata_len, payload_len) in [(0, 2_000), (1_024, 976)] {
        let head =
            Head { metadata_len, payload_len, ..Head::new(Kind::Request, 1, RouteHash::NONE) };
        // The address has its own bound and does not count.
        let head = Head { address_len: 255, ..head };
        let decode = |max| Head::decode(&head.encode(), &limited(Lane::Application, max));
        assert_eq!(decode(2_000), Ok(head));
        let (size, max) = (ByteCount::new(2_000), ByteCount::new(1_999));
        assert_eq!(decode(1_999), Err(WireError::TooLong { size, max }));
        assert_eq!(head.check(&limited(Lane::Application, 2_000)), Ok(()));
        assert!(head.check(&limited(Lane::Application, 1_999)).is_err(), "as in decoding");
    }
}

#[test]
fn metadata_has_a_bound_of_its_own() {
    let head = Head { metadata_len: 1_025, ..Head::new(Kind::Send, 1, RouteHash::NONE) };
    let error = Head::decode(&head.encode(), &limits(Lane::Application)).unwrap_err();
    assert_eq!(error, WireError::MetadataTooLong { length: 1_025 });
    assert_eq!(error.to_string(), "metadata of 1025 B; valid is 0..=1024 B");
}

#[test]
fn control_records_are_exempt_from_the_limit_of_messages_and_have_their_own() {
    for kind in Kind::ALL.iter().copied().filter(|kind| kind.is_control()) {
        let head = |payload_len| Head { payload_len, ..Head::new(kind, 1, RouteHash::NONE) };
        let longest = u32::try_from(CONTROL_RECORD_MAX).unwrap() - 32;
        let decode = |head: Head| Head::decode(&head.encode(), &limited(Lane::Application, 0));
        assert_eq!(decode(head(longest)), Ok(head(longest)));
        let (length, max) = (ByteCount::new(4_097), ByteCount::new(4_096));
        assert_eq!(decode(head(longest + 1)), Err(WireError::ControlTooLong { length, max }));
    }
}

#[test]
fn an_error_reply_gets_through_the_smallest_limit() {
    let head = Head { payload_len: 4, ..Head::new(Kind::ErrorReply, 1, RouteHash::NONE) };
    assert_eq!(Head::decode(&head.encode(), &limited(Lane::Completion, 0)), Ok(head));
    let head = Head { payload_len: 5, ..head };
    assert!(head.check(&limited(Lane::Completion, 0)).is_err(), "but nothing larger does");
}

#[test]
fn no_limit_lets_a_length_turn_negative_in_another_language() {
    let unlimited = Limits { lane: Lane::Application, max_message_size: ByteCount::MAX };
    let payload_len = u32::try_from(MESSAGE_SIZE_MAX.get()).unwrap();
    let head = Head { address_len: 255, payload_len, ..Head::new(Kind::Send, 0, RouteHash::NONE) };
    assert_eq!(Head::decode(&head.encode(), &unlimited), Ok(head));
    assert!(head.encoded_len() <= MESSAGE_SIZE_MAX.get() + RECORD_HEAD_MAX, "fits 31 bits");
    let head = Head { payload_len: payload_len + 1, ..head };
    assert!(Head::decode(&head.encode(), &unlimited).is_err(), "one byte more");
}

#[test]
fn a_head_beyond_its_length_field_is_refused_before_and_after_encoding() {
    let unlimited = Limits { lane: Lane::Application, max_message_size: ByteCount::MAX };
    let head = Head {
        address_len: u8::MAX,
        metadata_len: u16::MAX,
        payload_len: u32::MAX,
        ..Head::new(Kind::Send, 0, RouteHash::NONE)
    };
    assert_eq!(head.body_len(), u32::MAX, "saturates");
    assert!(head.check(&unlimited).is_err(), "before");
    assert!(Head::decode(&head.encode(), &unlimited).is_err(), "after");
    let head = Head { metadata_len: 0, ..head };
    assert!(head.check(&unlimited).is_err(), "before");
    assert!(Head::decode(&head.encode(), &unlimited).is_err(), "after");
}
