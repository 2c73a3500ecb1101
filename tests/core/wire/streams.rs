//! A stream of records means the same however it is cut.

use zcore::wire::{Decoder, Head, Kind, Lane, Piece, RouteHash, WireError};

use crate::samples::{ORDERS, limits};

/// A record as a reader sees it: complete once `ended`.
#[derive(Debug, PartialEq)]
struct Record {
    head: Head,
    body: Vec<u8>,
    ended: bool,
}

fn records() -> Vec<Record> {
    let head = |id, address_len, metadata_len, payload_len| Head {
        address_len,
        metadata_len,
        payload_len,
        ..Head::new(Kind::Request, id, ORDERS)
    };
    let heads = [head(1, 3, 4, 5), head(2, 0, 0, 0), head(3, 0, 0, 9)];
    let record = |head: Head| {
        let body = (0..head.body_len()).map(|at| u8::try_from(at).unwrap() ^ 0xa5).collect();
        Record { head, body, ended: true }
    };
    heads.map(record).into()
}

fn encode(records: &[Record]) -> Vec<u8> {
    let mut stream = Vec::new();
    for record in records {
        stream.extend(record.head.encode());
        stream.extend(&record.body);
    }
    stream
}

/// Feeds one part of a stream until the decoder says that it is used up.
fn feed(decoder: &mut Decoder, mut part: &[u8], records: &mut Vec<Record>) {
    while let Some(piece) = decoder.next(&mut part).unwrap() {
        match piece {
            Piece::Head(head) => {
                assert!(records.last().is_none_or(|record| record.ended), "no head in a record");
                records.push(Record { head, body: Vec::new(), ended: false });
            }
            Piece::Body(bytes) => {
                assert!(!bytes.is_empty(), "an empty piece says nothing");
                let record = records.last_mut().filter(|record| !record.ended).unwrap();
                record.body.extend(bytes);
            }
            Piece::End => {
                let record = records.last_mut().filter(|record| !record.ended).unwrap();
                record.ended = true;
            }
        }
    }
    assert!(part.is_empty(), "{} B are left behind", part.len());
}

#[track_caller]
fn assert_same(parts: &[&[u8]]) {
    let mut decoder = Decoder::new(limits(Lane::Application));
    let mut decoded = Vec::new();
    for part in parts {
        feed(&mut decoder, part, &mut decoded);
    }
    let cuts: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    assert_eq!(decoded, records(), "parts of {cuts:?} B");
    assert!(decoder.is_between_records(), "parts of {cuts:?} B");
}

#[test]
fn every_cut_into_two_parts_gives_the_same_records() {
    let stream = encode(&records());
    for cut in 0..=stream.len() {
        let (first, second) = stream.split_at(cut);
        assert_same(&[first, second]);
    }
}

#[test]
fn every_cut_into_three_parts_gives_the_same_records() {
    let stream = encode(&records());
    for first_cut in 0..=stream.len() {
        let (first, rest) = stream.split_at(first_cut);
        for second_cut in 0..=rest.len() {
            let (second, third) = rest.split_at(second_cut);
            assert_same(&[first, second, third]);
        }
    }
}

#[test]
fn parts_of_every_equal_size_give_the_same_records() {
    let stream = encode(&records());
    for size in 1..=stream.len() {
        assert_same(&stream.chunks(size).collect::<Vec<_>>());
    }
}

#[test]
fn a_record_without_a_body_is_a_head_and_an_end() {
    let head = Head::new(Kind::Probe, 5, RouteHash::NONE);
    let bytes = head.encode();
    let mut decoder = Decoder::new(limits(Lane::Application));
    let mut input = bytes.as_slice();
    assert_eq!(decoder.next(&mut input), Ok(Some(Piece::Head(head))));
    assert_eq!(decoder.next(&mut input), Ok(Some(Piece::End)), "without another byte");
    assert_eq!(decoder.next(&mut input), Ok(None));
}

#[test]
fn a_reader_may_stop_after_a_head_and_go_on_with_the_rest() {
    let stream = encode(&records());
    let mut decoder = Decoder::new(limits(Lane::Application));
    let mut input = stream.as_slice();
    let head = decoder.next(&mut input).unwrap();
    assert_eq!(head, Some(Piece::Head(records()[0].head)));
    assert_eq!(input.len(), stream.len() - 32, "the body is not touched");
    let kept = input.to_vec();
    assert_eq!(decoder.next(&mut [].as_slice()), Ok(None), "nothing comes of nothing");
    let mut input = kept.as_slice();
    assert_eq!(decoder.next(&mut input), Ok(Some(Piece::Body(&kept[..12]))));
    assert_eq!(decoder.next(&mut input), Ok(Some(Piece::End)));
}

#[test]
fn the_end_of_a_stream_is_clean_between_records_only() {
    let stream = encode(&records());
    let ends: Vec<usize> = records()
        .iter()
        .scan(0, |end, record| {
            *end += 32 + record.body.len();
            Some(*end)
        })
        .collect();
    for cut in 0..=stream.len() {
        let mut decoder = Decoder::new(limits(Lane::Application));
        feed(&mut decoder, &stream[..cut], &mut Vec::new());
        let is_clean = cut == 0 || ends.contains(&cut);
        assert_eq!(decoder.is_between_records(), is_clean, "after {cut} B");
    }
}

#[test]
fn a_decoder_that_failed_says_the_same_again_and_takes_nothing() {
    let mut stream = encode(&records());
    stream.extend([0; 32]);
    stream.extend(encode(&records()));
    for size in [1, 31, 32, 33, stream.len()] {
        let mut decoder = Decoder::new(limits(Lane::Application));
        let mut ends = 0;
        let mut error = None;
        for mut part in stream.chunks(size) {
            if error.is_some() {
                let before = part.len();
                assert_eq!(decoder.next(&mut part).err(), error, "the same error");
                assert_eq!(part.len(), before, "no byte is taken after it");
                continue;
            }
            loop {
                match decoder.next(&mut part) {
                    Ok(Some(piece)) => ends += usize::from(piece == Piece::End),
                    Ok(None) => break,
                    Err(broken) => {
                        error = Some(broken);
                        break;
                    }
                }
            }
        }
        assert_eq!(error, Some(WireError::UnknownKind { code: 0 }), "parts of {size} B");
        assert_eq!(ends, 3, "records before the error count, none behind it does");
        assert!(!decoder.is_between_records(), "a broken stream has no clean end");
    }
}
