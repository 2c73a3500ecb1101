//! The hello: versions, roles, names.

use zcore::wire::{
    HELLO_BYTES, Hello, HelloError, Label, LabelError, Lane, MAGIC, PairId, Refusal, Role,
    TopologyKind, VERSION,
};

use crate::samples::hellos;

/// A hello with one byte changed.
fn with(at: usize, byte: u8) -> [u8; HELLO_BYTES] {
    let mut bytes = hellos()[0].encode();
    bytes[at] = byte;
    bytes
}

#[test]
fn a_foreign_protocol_is_no_hello_and_gets_no_answer() {
    let mut bytes = [b' '; HELLO_BYTES];
    bytes[..16].copy_from_slice(b"GET / HTTP/1.1\r\n");
    let error = Hello::decode(&bytes).unwrap_err();
    assert_eq!(error, HelloError::Magic);
    assert_eq!(error.refusal(), None);
    assert_eq!(error.to_string(), "the connection does not begin with a hello");
}

#[test]
fn a_wrong_start_is_seen_at_its_first_wrong_byte() {
    let whole = hellos()[0].encode();
    for length in 0..=HELLO_BYTES {
        assert_eq!(Hello::check_start(&whole[..length]), Ok(()), "{length} bytes may become one");
    }
    for at in 0..MAGIC.len() {
        let wrong = with(at, b'x');
        for length in 0..=HELLO_BYTES {
            let expected = if length > at { Err(HelloError::Magic) } else { Ok(()) };
            assert_eq!(Hello::check_start(&wrong[..length]), expected, "byte {at} of {length}");
        }
    }
    let other = with(4, 9);
    for length in 0..=HELLO_BYTES {
        let expected = if length > 5 { Err(HelloError::Version { version: 9 }) } else { Ok(()) };
        assert_eq!(Hello::check_start(&other[..length]), expected, "another version, {length}");
    }
}

#[test]
fn another_version_is_found_before_any_other_field_is_read() {
    let mut bytes = [0xff; HELLO_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&(VERSION + 1).to_le_bytes());
    let error = Hello::decode(&bytes).unwrap_err();
    assert_eq!(error, HelloError::Version { version: 2 });
    assert_eq!(error.refusal(), Some(Refusal::WrongVersion));
    assert_eq!(error.to_string(), "a hello of protocol version 2; this side speaks 1");
}

#[test]
fn a_refusal_of_another_version_echoes_pair_and_generation_only() {
    let theirs = hellos()[1];
    let mut bytes = theirs.encode();
    bytes[4] = 9;
    let node = Label::new("acceptor").unwrap();
    let start = bytes.first_chunk().unwrap();
    let answer = Hello::answerable(start, Lane::Application, node);
    assert_eq!((answer.pair, answer.generation), (theirs.pair, theirs.generation));
    assert_eq!((answer.node, answer.lane, answer.shard), (node, Lane::Application, 0));
    let refusal = Hello { role: Role::Refuse, refusal: Some(Refusal::WrongVersion), ..answer };
    assert_eq!(Hello::decode(&refusal.encode()), Ok(refusal), "what is answered is a hello");
}

#[test]
fn every_refusal_travels_with_the_role_refuse_and_with_no_other() {
    for refusal in Refusal::ALL.iter().copied() {
        for role in Role::ALL.iter().copied() {
            let hello = Hello { role, refusal: Some(refusal), ..hellos()[0] };
            let mut bytes = hello.encode();
            let decoded = Hello::decode(&bytes).unwrap();
            assert_eq!(decoded.refusal, (role == Role::Refuse).then_some(refusal));
            bytes[8] = refusal.code();
            if role != Role::Refuse {
                let error = HelloError::Refusal { role, code: refusal.code() };
                assert_eq!(Hello::decode(&bytes), Err(error));
            }
        }
    }
    let silent = Hello { role: Role::Refuse, refusal: None, ..hellos()[0] };
    assert_eq!(Hello::decode(&silent.encode()), Ok(silent), "a refusal without a reason");
    let codes: Vec<u8> = Refusal::ALL.iter().map(|refusal| refusal.code()).collect();
    assert_eq!(codes, (1..=10).collect::<Vec<u8>>(), "0 gives no reason");
}

#[test]
fn each_wrong_field_is_named() {
    let cases = [
        (6, 0, HelloError::Lane { code: 0 }, None),
        (7, 4, HelloError::Role { code: 4 }, Some(Refusal::WrongRole)),
        (8, 11, HelloError::Refusal { role: Role::Dial, code: 11 }, None),
        (9, 3, HelloError::TopologyKind { code: 3 }, Some(Refusal::WrongTopology)),
        (60, 1, HelloError::Reserved { at: 60 }, None),
        (63, 1, HelloError::Reserved { at: 63 }, None),
        (200, 1, HelloError::Reserved { at: 200 }, None),
        (255, 1, HelloError::Reserved { at: 255 }, None),
        (64, 0, HelloError::Node(LabelError::Length { length: 0 }), None),
        (64, 64, HelloError::Node(LabelError::Length { length: 64 }), None),
        (64, 15, HelloError::Node(LabelError::Letter { at: 14 }), None),
        (64, 13, HelloError::Node(LabelError::Padding { at: 13 }), None),
        (65, b'\n', HelloError::Node(LabelError::Letter { at: 0 }), None),
        (
            191,
            b'x',
            HelloError::Topology(LabelError::Padding { at: 62 }),
            Some(Refusal::WrongTopology),
        ),
    ];
    for (at, byte, expected, refusal) in cases {
        let error = Hello::decode(&with(at, byte)).unwrap_err();
        assert_eq!(error, expected, "byte {at}");
        assert_eq!(error.refusal(), refusal, "byte {at}");
    }
    let error = Hello::decode(&with(65, b'\n')).unwrap_err();
    assert_eq!(error.to_string(), "the node id: byte 0 of a name is none of `A-Z a-z 0-9 . _ -`");
}

#[test]
fn a_label_takes_its_letters_in_every_length_up_to_63_and_nothing_else() {
    for length in 1..=63 {
        let name = "aZ0._-9z".repeat(8)[..length].to_owned();
        let label: Label = name.parse().unwrap();
        assert_eq!((label.as_str(), label.to_string()), (name.as_str(), name.clone()));
    }
    assert_eq!(Label::new(""), Err(LabelError::Length { length: 0 }));
    let long = Label::new(&"a".repeat(64)).unwrap_err();
    assert_eq!(long, LabelError::Length { length: 64 });
    assert_eq!(long.to_string(), "a name of 64 B; valid is 1..=63 B");
    assert_eq!(Label::new(&"a".repeat(256)), Err(LabelError::Length { length: 256 }));
    for byte in 0..=u8::MAX {
        let valid = byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let label = Label::from_bytes(&[b'a', byte, b'b']);
        assert_eq!(label.is_ok(), valid, "{byte}");
        if !valid {
            assert_eq!(label, Err(LabelError::Letter { at: 1 }));
        }
    }
}

#[test]
fn labels_are_ordered_as_their_names_are() {
    let names = ["-", "A", "a", "a-", "a.b", "aa", "ab", "b", "node-1", "node-10", "node-2"];
    for left in names {
        for right in names {
            let order = Label::new(left).unwrap().cmp(&Label::new(right).unwrap());
            assert_eq!(order, left.as_bytes().cmp(right.as_bytes()), "{left} {right}");
        }
    }
}

#[test]
fn a_pair_id_is_never_shown() {
    let hello = hellos()[0];
    assert_eq!(format!("{:?}", PairId::new(0x1234)), "PairId(..)");
    let text = format!("{hello:?} {hello:x?}");
    assert!(!text.contains("102030405060708090a0b0c0d0e0f10"), "{text}");
}

#[test]
fn topology_kinds_and_roles_have_the_codes_of_the_specification() {
    let codes: Vec<u8> = TopologyKind::ALL.iter().map(|kind| kind.code()).collect();
    assert_eq!(codes, [1, 2]);
    let codes: Vec<u8> = Role::ALL.iter().map(|role| role.code()).collect();
    assert_eq!(codes, [1, 2, 3]);
}
