//! Error replies and goodbyes.

use zcore::wire::{ErrorReply, Fault, Goodbye, GoodbyeReason, PayloadError};

use crate::samples::GOODBYE;

#[test]
fn every_fault_and_reason_comes_back() {
    let codes: Vec<u8> = Fault::ALL.iter().map(|fault| fault.code()).collect();
    assert_eq!(codes, (1..=7).collect::<Vec<u8>>());
    for fault in Fault::ALL.iter().copied() {
        for started in [false, true] {
            let reply = ErrorReply { fault, started };
            assert_eq!(ErrorReply::decode(&reply.encode()), Ok(reply));
        }
    }
    let codes: Vec<u8> = GoodbyeReason::ALL.iter().map(|reason| reason.code()).collect();
    assert_eq!(codes, (1..=5).collect::<Vec<u8>>());
    for reason in GoodbyeReason::ALL.iter().copied() {
        let goodbye = Goodbye { reason, window_ms: u32::MAX };
        assert_eq!(Goodbye::decode(&goodbye.encode()), Ok(goodbye));
    }
}

#[test]
fn a_payload_of_another_length_is_refused() {
    for length in (0..20).filter(|length| *length != 4) {
        let error = PayloadError::Length { length, expected: 4 };
        assert_eq!(ErrorReply::decode(&[1; 20][..length]), Err(error));
    }
    for length in (0..20).filter(|length| *length != 8) {
        let error = PayloadError::Length { length, expected: 8 };
        assert_eq!(Goodbye::decode(&[1; 20][..length]), Err(error));
    }
}

#[test]
fn each_wrong_byte_is_named() {
    let cases = [
        ([0, 0, 0, 0], PayloadError::UnknownCode { at: 0, code: 0 }),
        ([8, 0, 0, 0], PayloadError::UnknownCode { at: 0, code: 8 }),
        ([1, 2, 0, 0], PayloadError::UnknownCode { at: 1, code: 2 }),
        ([1, 1, 9, 0], PayloadError::Reserved { at: 2 }),
        ([1, 1, 0, 9], PayloadError::Reserved { at: 3 }),
    ];
    for (bytes, error) in cases {
        assert_eq!(ErrorReply::decode(&bytes), Err(error));
    }
    for at in 1..4 {
        let mut bytes = GOODBYE.encode();
        bytes[at] = 1;
        assert_eq!(Goodbye::decode(&bytes), Err(PayloadError::Reserved { at }));
    }
    let mut bytes = GOODBYE.encode();
    bytes[0] = 77;
    let error = Goodbye::decode(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "payload byte 0 has the unknown code 77");
}
