//! The protocol between two nodes, version 1. This page is its specification.
//!
//! It is complete enough to write a client in another language. "Must not" means that the reader
//! ends the pair when it sees it. All numbers are little endian and unsigned, lengths count bytes,
//! and an offset counts from the first byte of a hello or a record.
//!
//! # A pair: two connections
//!
//! Two nodes talk over a *pair* of byte streams (TCP, TLS over TCP, or Unix sockets). Each carries
//! one *lane*, in both directions:
//!
//! | code | lane | carries |
//! |---|---|---|
//! | 1 | Application | messages, requests, control records |
//! | 2 | Completion | replies and error replies, nothing else |
//!
//! The lanes are apart so that a reply gets through while requests wait. A reader must always read
//! the Completion lane. It may stop reading the Application lane for as long as it has no room:
//! that, and TCP's own window, is all the backpressure that there is on the wire. There are no
//! credits, and nothing is dropped to make room. The end of one connection ends the pair.
//!
//! # Hello
//!
//! The first bytes in both directions of each connection are one hello of 256 bytes:
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | magic: `5a 4c 4e 4b`, "ZLNK" |
//! | 4 | 2 | version: 1 |
//! | 6 | 1 | lane of this connection: 1 Application, 2 Completion |
//! | 7 | 1 | role: 1 dial, 2 accept, 3 refuse |
//! | 8 | 1 | refusal, see below; 0 unless the role is refuse |
//! | 9 | 1 | topology kind: 1 route mesh, 2 client-server |
//! | 10 | 2 | shard |
//! | 12 | 4 | generation |
//! | 16 | 16 | pair id: 128 random bits |
//! | 32 | 8 | incarnation: random, drawn when the sender's process started |
//! | 40 | 8 | claimed: how many messages and requests the sender took in `last generation` |
//! | 48 | 4 | last generation: the one before, as far as the sender knows; 0 for none |
//! | 52 | 4 | the most bytes of payload plus metadata of one message that the sender takes |
//! | 56 | 4 | the most unanswered requests that the sender takes |
//! | 60 | 4 | reserved, 0 |
//! | 64 | 1 | length of the node id, 1 to 63 |
//! | 65 | 63 | node id, padded with 0 |
//! | 128 | 1 | length of the topology's name, 1 to 63 |
//! | 129 | 63 | topology's name, padded with 0 |
//! | 192 | 8 | claimed requests: how many of `claimed` were requests |
//! | 200 | 56 | reserved, 0 |
//!
//! Names consist of `A-Z a-z 0-9 . _ -`.
//!
//! The order of events (D-17):
//!
//! 1. The *dialer* connects, draws a pair id, adds one to the highest generation that it has used
//!    with this node, in a dial or a pair, and sends a hello with role dial and lane Application. Its
//!    shard field is 0.
//! 2. The *acceptor* answers with role accept, the same lane and pair id, its own node id and limits,
//!    and the number of the shard that will own the pair. The number means something to the acceptor
//!    alone. The generation of its answer is that of the pair: the dialer's, or one more than the
//!    highest that the acceptor has used with this node if that is more. It must not be less.
//! 3. The dialer connects a second time and sends the same hello with lane Completion, the shard
//!    that it was told and the generation of the pair.
//! 4. The acceptor answers it likewise. Now both may send records, on both lanes. Neither may send
//!    one before.
//!
//! A connection that has not come this far 5 seconds after it was accepted is closed. Instead of
//! accepting, the acceptor may answer with role refuse and a reason, and ends the connection:
//!
//! | code | refusal | code | refusal |
//! |---:|---|---:|---|
//! | 0 | no reason given | 6 | the host shuts down |
//! | 1 | wrong version | 7 | the node dialed itself |
//! | 2 | topology not served | 8 | both dialed, the other pair stays |
//! | 3 | unknown pair | 9 | stale generation |
//! | 4 | pair has this connection | 10 | wrong role |
//! | 5 | too many peers | | |
//!
//! **Which pair stays.** There is one pair between two nodes. What an acceptor does about a hello
//! with lane Application depends on what there is already, and on the run of the other's process,
//! which the incarnation names:
//!
//! | what there is | a run of which this generation was heard, or a higher one | the run of an earlier pair than the last one | the run that the pair is with | any other |
//! |---|---|---|---|---|
//! | nothing, or an own dial that has not said hello | refuse with 9 | accept | | accept |
//! | an own dial without an answer, and the smaller node id | refuse with 9 | refuse with 8 | | refuse with 8 |
//! | an own dial without an answer, and the larger node id | refuse with 9 | accept | | accept |
//! | a pair that was accepted or answered | refuse with 9 | refuse with 9 | accept | accept, and end the pair at step 4 |
//!
//! Node ids compare byte by byte. To accept ends what there is, except where the table says when. A
//! refusal with 9 names the highest generation heard from the run in its field `last generation`; the
//! dialer's next one must be above.
//!
//! **Other versions.** In every version a hello has 256 bytes, and the first 32 keep their place.
//! A reader checks magic, then version, and reads nothing else of a version that it does not speak:
//! it answers with a hello of its own version that refuses with code 1 and echoes pair id and
//! generation. Bytes without the magic are not answered, and the connection ends at the first wrong
//! one.
//!
//! **After a reconnect** nothing is sent again (D-25). `claimed` tells the other side how many of
//! its messages and requests (kinds 1 and 2, no control) were taken in `last generation`, and
//! `claimed requests` how many of those were requests. A record is taken once all of it has arrived
//! and is charged to the receiver's queue: its handler has run or will run. Those above `claimed`
//! never arrived, and what arrived of them is thrown away; of the others nobody can say whether they
//! ran. `last generation` is the last pair for which the sender greeted a Completion connection, as
//! dialer or as acceptor, before it dialed or accepted this one. It means nothing if the sender's
//! incarnation is another than in that generation, or if the reader holds another generation for the
//! last one that was up.
//!
//! # Records
//!
//! Behind the hello a lane is a sequence of records without gaps. A record is a head of 32 bytes,
//! then address, metadata and payload, in this order:
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | length of the whole record: 32 + address + metadata + payload |
//! | 4 | 1 | kind, see below |
//! | 5 | 1 | flags, reserved, 0 |
//! | 6 | 1 | length of the address, 0 to 255 |
//! | 7 | 1 | content type: 0 bytes, 1 JSON, 2 `MessagePack`, 3 postcard, 4 Protocol Buffers |
//! | 8 | 2 | length of the metadata, 0 to 1,024 |
//! | 10 | 2 | reserved, 0 |
//! | 12 | 4 | how long the caller still waits, in milliseconds; 0 for no limit |
//! | 16 | 8 | id |
//! | 24 | 8 | route hash |
//!
//! The payload is what remains of the length. Payload plus metadata must not exceed the limit in
//! the reader's hello (D-06), nor 2,147,482,336; a limit below 4 counts as 4, so that an error reply
//! gets through. Control records have a limit of their own: 4,096 bytes for the whole record (D-24).
//!
//! The remaining time is a span, not a point in time, because clocks differ. It is set when the
//! record leaves its queue for the kernel, so it does not count the way over the network (D-20).
//! One that is all but used up is sent as 1.
//!
//! # Kinds
//!
//! | code | kind | lane | id | route | body |
//! |---:|---|---|---|---|---|
//! | 1 | send | Application | the sender's own, not read | handler | the message |
//! | 2 | request | Application | of the request | handler | the message |
//! | 3 | reply | Completion | of the request | 0 | the answer |
//! | 4 | error reply | Completion | of the request | 0 | payload of 4 bytes |
//! | 10 | probe | Application | a sequence number | 0 | none |
//! | 11 | probe answer | Application | of the probe | 0 | none |
//! | 12 | send-ready | Application | a sequence number | 0 | none |
//! | 13 | goodbye | Application | 0 | 0 | payload of 8 bytes |
//!
//! A kind must not come on the other lane. Kinds 10 to 13 are *control records*; a reader ignores
//! what it does not know in them: body, route, and the id where the table has none.
//!
//! * **Request.** Its id is new in this pair and generation. Exactly one reply or error reply answers
//!   it, in any order with those of other requests. A reply with an id that was never issued must
//!   not come; one to a request that is no longer waited for is read over. Unanswered requests must
//!   not exceed the number in the reader's hello (D-15).
//! * **Probe.** Sent every 5 seconds on the Application lane; the reader answers with the same id.
//!   A side that hears nothing for 15 seconds while it reads the lane ends the pair (D-16).
//! * **Send-ready.** The sender had stopped reading the Application lane and reads it again. It may
//!   be shown to people; nobody waits for it, and a client may ignore it (B-17, B-49).
//! * **Goodbye.** The sender takes no more records. What it has taken is still answered, unless it
//!   has stopped for good: then nothing follows, and its node is to be given up (D-18).
//!
//! The payload of an **error reply**:
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 1 | fault: 1 not found, 2 type mismatch, 3 rejected, 4 shutting down, 5 deadline exceeded, 6 internal failure, 7 message too large |
//! | 1 | 1 | 1 if the handler had begun, else 0 |
//! | 2 | 2 | reserved, 0 |
//!
//! The payload of a **goodbye**:
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 1 | reason: 1 drain, 2 stopped for good, 3 protocol error, 4 silent peer, 5 replaced by a newer pair |
//! | 1 | 3 | reserved, 0 |
//! | 4 | 4 | after a drain: reconnect at a random time within so many milliseconds; 0 for no hint |
//!
//! # Route hash
//!
//! A route is a list of names, outermost first, in UTF-8. Its hash is FNV-1a with 64 bits over the
//! names with one zero byte between two of them: start with `cbf29ce484222325`, and for each byte
//! exclusive-or it into the low byte, then multiply by `100000001b3` modulo 2^64. Which names make
//! a route is up to the framework above. `["orders", "place"]` has the hash `8e48a5d24097cb1f`.
//!
//! # Hostile peers
//!
//! Every field is checked before it is used. What is wrong ends the pair: behind a wrong head
//! nobody knows where the next record begins. Lengths are checked in the head, so a reader allocates
//! nothing that its own limits do not cover. Errors carry numbers and never text of the peer.
//!
//! # Example
//!
//! ```
//! use zcore::ByteCount;
//! use zcore::wire::{Decoder, Head, Kind, Lane, Limits, Piece, RouteHash, WireError};
//!
//! let route = RouteHash::of(&[b"orders", b"place"]);
//! let head = Head { payload_len: 2, remaining_ms: 250, ..Head::new(Kind::Request, 7, route) };
//! let mut stream = head.encode().to_vec();
//! stream.extend(b"hi");
//!
//! let limits = Limits { lane: Lane::Application, max_message_size: ByteCount::mib(16) };
//! let mut decoder = Decoder::new(limits);
//! let mut input = stream.as_slice();
//! assert_eq!(decoder.next(&mut input), Ok(Some(Piece::Head(head))));
//! assert_eq!(decoder.next(&mut input), Ok(Some(Piece::Body(b"hi"))));
//! assert_eq!(decoder.next(&mut input), Ok(Some(Piece::End)));
//! assert_eq!(decoder.next(&mut input), Ok(None));
//!
//! // The same bytes on the other lane are refused, and so is everything behind them.
//! let mut decoder = Decoder::new(Limits { lane: Lane::Completion, ..limits });
//! let error = decoder.next(&mut stream.as_slice()).unwrap_err();
//! assert_eq!(error, WireError::WrongLane { kind: Kind::Request, lane: Lane::Completion });
//! assert_eq!(error.to_string(), "a record of kind request came on the completion lane");
//! assert_eq!(decoder.next(&mut &stream[..0]), Err(error));
//! ```

mod codes;
mod decoder;
mod error;
mod head;
mod hello;
mod label;
mod layout;
mod payload;
mod route;

pub use codes::{ContentType, Fault, GoodbyeReason, Kind, Lane, Refusal, Role, TopologyKind};
pub use decoder::{Decoder, Piece};
pub use error::{PayloadError, WireError};
pub use head::{HEAD_BYTES, Head, Limits, REMAINING_AT};
pub use hello::{HELLO_BYTES, HELLO_START_BYTES, Hello, HelloError, MAGIC, PairId, VERSION};
pub use label::{LABEL_MAX, Label, LabelError};
pub use payload::{ERROR_REPLY_BYTES, ErrorReply, GOODBYE_BYTES, Goodbye};
pub use route::RouteHash;
