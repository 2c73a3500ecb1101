//! The bytes on the wire, as they are written down in `golden/wire.txt`.

use core::fmt::Write as _;
use std::fs;

use zcore::wire::{ErrorReply, Goodbye, Head, Hello, RouteHash};

use crate::samples::{ERROR_REPLY, GOODBYE, ORDERS, heads, hellos, limits};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/wire.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Everything, in the order of the file.
fn lines() -> Vec<String> {
    let mut lines = Vec::new();
    for hello in hellos() {
        lines.push(format!("hello {} {}", hello.role, hex(&hello.encode())));
    }
    for head in heads() {
        lines.push(format!("head {} {}", head.kind, hex(&head.encode())));
    }
    lines.push(format!("payload error_reply {}", hex(&ERROR_REPLY.encode())));
    lines.push(format!("payload goodbye {}", hex(&GOODBYE.encode())));
    for (name, route) in routes() {
        lines.push(format!("route {name} {}", hex(&route.get().to_le_bytes())));
    }
    lines
}

/// The first three are test vectors of the authors of FNV.
const fn routes() -> [(&'static str, RouteHash); 5] {
    [
        ("of_nothing", RouteHash::of(&[])),
        ("a", RouteHash::of(&[b"a"])),
        ("foobar", RouteHash::of(&[b"foobar"])),
        ("orders/place", ORDERS),
        ("empty/empty", RouteHash::of(&[b"", b""])),
    ]
}

/// The bytes of one line of the file.
fn golden(kind: &str, name: &str) -> Vec<u8> {
    let text = fs::read_to_string(FILE).unwrap();
    let start = format!("{kind} {name} ");
    let digits = text.lines().find_map(|line| line.strip_prefix(&start));
    assert!(digits.is_some(), "`{start}` is not in {FILE}");
    let digits = digits.unwrap_or_default();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn golden_array<const N: usize>(kind: &str, name: &str) -> [u8; N] {
    golden(kind, name).try_into().unwrap()
}

#[test]
fn values_encode_to_the_golden_bytes() {
    let lines = lines();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(FILE, lines.join("\n") + "\n").unwrap();
    }
    let text = fs::read_to_string(FILE).unwrap();
    let golden: Vec<&str> = text.lines().collect();
    let mut difference = String::new();
    for index in 0..lines.len().max(golden.len()) {
        let (old, new) = (golden.get(index).copied(), lines.get(index).map(String::as_str));
        if old != new {
            writeln!(difference, "- {}", old.unwrap_or("(no line)")).unwrap();
            writeln!(difference, "+ {}", new.unwrap_or("(no line)")).unwrap();
        }
    }
    assert!(
        difference.is_empty(),
        "the wire format changed, and deployed nodes do not know it:\n{difference}\
         if that is meant: UPDATE_GOLDEN=1 cargo test -p ztests --test core_wire"
    );
}

#[test]
fn golden_bytes_decode_to_their_values() {
    for hello in hellos() {
        let bytes = golden_array("hello", hello.role.as_str());
        assert_eq!(Hello::decode(&bytes), Ok(hello));
    }
    for head in heads() {
        let bytes = golden_array("head", head.kind.as_str());
        assert_eq!(Head::decode(&bytes, &limits(head.kind.lane())), Ok(head));
    }
    assert_eq!(ErrorReply::decode(&golden("payload", "error_reply")), Ok(ERROR_REPLY));
    assert_eq!(Goodbye::decode(&golden("payload", "goodbye")), Ok(GOODBYE));
}

#[test]
fn route_hashes_are_those_of_fnv_1a() {
    let expected = [
        0xcbf2_9ce4_8422_2325,
        0xaf63_dc4c_8601_ec8c,
        0x8594_4171_f739_67e8,
        0x8e48_a5d2_4097_cb1f,
        0xaf63_bd4c_8601_b7df,
    ];
    for ((name, route), expected) in routes().into_iter().zip(expected) {
        assert_eq!(route.get(), expected, "{name}");
        let bytes = golden_array("route", name);
        assert_eq!(RouteHash::new(u64::from_le_bytes(bytes)), route, "{name}");
    }
}

#[test]
fn the_border_between_two_names_is_part_of_the_route_hash() {
    assert_ne!(RouteHash::of(&[b"ab", b"c"]), RouteHash::of(&[b"a", b"bc"]));
    assert_ne!(RouteHash::of(&[b"abc"]), RouteHash::of(&[b"abc", b""]));
}
