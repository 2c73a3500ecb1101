//! Bytes of a peer that means harm: wrong in one place, wrong everywhere.

use zcore::wire::{
    Decoder, ErrorReply, Goodbye, HEAD_BYTES, HELLO_BYTES, Head, Hello, Kind, Lane, Limits, Piece,
    RouteHash, WireError,
};
use zcore::{ByteCount, limits::CONTROL_RECORD_MAX};

use crate::samples::{ERROR_REPLY, GOODBYE, Numbers, heads, hellos, limits};

/// The most that may follow a head: a message within the limit and an address, or a control record.
fn body_max(limits: &Limits) -> u64 {
    (limits.max_message_size.get() + 255).max(CONTROL_RECORD_MAX - 32)
}

/// Whatever is taken is within the limits, and is the only value with these bytes.
#[track_caller]
fn check_head(bytes: &[u8; HEAD_BYTES], limits: &Limits) -> Option<Head> {
    let head = Head::decode(bytes, limits).ok()?;
    assert_eq!(head.encode(), *bytes, "one value, one encoding");
    assert!(u64::from(head.body_len()) <= body_max(limits), "{head:?}");
    assert_eq!(head.encoded_len(), u64::from(head.body_len()) + 32, "{head:?}");
    assert_eq!(head.kind.lane(), limits.lane, "{head:?}");
    Some(head)
}

#[test]
fn every_wrong_byte_of_a_head_is_another_head_or_an_error() {
    for head in heads() {
        for at in 0..HEAD_BYTES {
            for change in 1..=u8::MAX {
                let mut bytes = head.encode();
                bytes[at] ^= change;
                for lane in Lane::ALL.iter().copied() {
                    assert_ne!(check_head(&bytes, &limits(lane)), Some(head), "byte {at}");
                }
            }
        }
    }
}

#[test]
fn every_wrong_byte_of_a_hello_is_another_hello_or_an_error() {
    for hello in hellos() {
        for at in 0..HELLO_BYTES {
            for change in 1..=u8::MAX {
                let mut bytes = hello.encode();
                bytes[at] ^= change;
                if let Ok(decoded) = Hello::decode(&bytes) {
                    assert_eq!(decoded.encode(), bytes, "one value, one encoding");
                    assert_ne!(decoded, hello, "byte {at}");
                }
            }
        }
    }
}

#[test]
fn every_wrong_byte_of_a_payload_is_another_value_or_an_error() {
    for change in 1..=u8::MAX {
        for at in 0..4 {
            let mut bytes = ERROR_REPLY.encode();
            bytes[at] ^= change;
            if let Ok(decoded) = ErrorReply::decode(&bytes) {
                assert_eq!(decoded.encode(), bytes, "one value, one encoding");
            }
        }
        for at in 0..8 {
            let mut bytes = GOODBYE.encode();
            bytes[at] ^= change;
            if let Ok(decoded) = Goodbye::decode(&bytes) {
                assert_eq!(decoded.encode(), bytes, "one value, one encoding");
            }
        }
    }
}

#[test]
fn a_length_field_that_lies_is_found_before_anything_is_allocated() {
    let limits = limits(Lane::Application);
    let head =
        Head { address_len: 7, metadata_len: 5, ..Head::new(Kind::Send, 1, RouteHash::NONE) };
    let decode = |length: u32| {
        let mut bytes = head.encode();
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        Head::decode(&bytes, &limits)
    };
    for length in [0, 1, 24, 31, 32, 43] {
        assert_eq!(decode(length), Err(WireError::TooShort { length, least: 44 }));
    }
    assert_eq!(decode(44), Ok(head));
    let largest = 64 * 1_024 - 5;
    assert_eq!(decode(44 + largest), Ok(Head { payload_len: largest, ..head }));
    for length in [44 + largest + 1, 1 << 31, u32::MAX - 1, u32::MAX] {
        let (size, max) = (ByteCount::new(u64::from(length) - 44 + 5), ByteCount::kib(64));
        assert_eq!(decode(length), Err(WireError::TooLong { size, max }));
    }
    let error = decode(31).unwrap_err();
    assert_eq!(error.to_string(), "a record of 31 B cannot hold its parts of 44 B");
}

#[test]
fn reserved_bytes_and_unknown_codes_of_a_head_are_named() {
    let decode = |at: usize, byte| {
        let mut bytes = Head::new(Kind::Send, 1, RouteHash::NONE).encode();
        bytes[at] = byte;
        Head::decode(&bytes, &limits(Lane::Application))
    };
    for at in [5, 10, 11] {
        assert_eq!(decode(at, 0x80), Err(WireError::Reserved { at }));
    }
    for code in [0, 5, 9, 14, 255] {
        assert_eq!(decode(4, code), Err(WireError::UnknownKind { code }));
    }
    assert_eq!(decode(7, 5), Err(WireError::UnknownContentType { code: 5 }));
}

#[test]
fn random_bytes_never_break_a_codec() {
    for seed in 1..=8_u64 {
        let mut numbers = Numbers::new(seed);
        for _ in 0..20_000 {
            let mut bytes = [0; HELLO_BYTES];
            bytes.fill_with(|| numbers.byte());
            let [head, ..] = bytes.as_chunks::<HEAD_BYTES>().0 else { panic!("it is longer") };
            check_head(head, &limits(Lane::Application));
            assert!(Hello::decode(&bytes).is_err(), "2^-48 is never");
            let _ = ErrorReply::decode(&bytes[..4]);
            let _ = Goodbye::decode(&bytes[..8]);
        }
    }
}

/// A stream that begins well and goes wrong in `errors` places.
fn damaged_stream(numbers: &mut Numbers, errors: usize) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..6 {
        let samples = heads();
        let head = samples[numbers.below(samples.len())];
        stream.extend(head.encode());
        stream.extend((0..head.body_len()).map(|_| numbers.byte()));
    }
    for _ in 0..errors {
        let at = numbers.below(stream.len());
        stream[at] = numbers.byte();
    }
    stream
}

#[test]
fn damaged_streams_in_random_parts_give_whole_records_and_then_one_error() {
    for seed in 1..=2_000_u64 {
        let mut numbers = Numbers::new(seed);
        let errors = numbers.below(4);
        let stream = damaged_stream(&mut numbers, errors);
        let lane = Lane::ALL[numbers.below(2)];
        let mut decoder = Decoder::new(limits(lane));
        let mut rest = stream.as_slice();
        let mut left = None;
        let mut broken: Option<WireError> = None;
        while !rest.is_empty() {
            let (mut part, behind) = rest.split_at(1 + numbers.below(rest.len().min(200)));
            rest = behind;
            loop {
                match decoder.next(&mut part) {
                    Ok(Some(Piece::Head(head))) => {
                        assert_eq!(left, None, "a head comes after an end");
                        assert!(u64::from(head.body_len()) <= body_max(&limits(lane)), "{head:?}");
                        left = Some(usize::try_from(head.body_len()).unwrap());
                    }
                    Ok(Some(Piece::Body(bytes))) => left = left.map(|left| left - bytes.len()),
                    Ok(Some(Piece::End)) => assert_eq!(left.take(), Some(0), "the body is whole"),
                    Ok(None) => break,
                    Err(error) => {
                        assert_eq!(*broken.get_or_insert(error), error, "always the same");
                        break;
                    }
                }
            }
            assert!(part.is_empty() || broken.is_some(), "all is used until it breaks");
        }
    }
}
