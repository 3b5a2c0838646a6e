//! Tests: messages in any frames and chunks, the limits, and the memory and the deadline of incomplete messages.

use bytes::Bytes;
use futures_util::{FutureExt, SinkExt};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Sent;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::Frame as SentFrame;

use super::*;
use crate::message::IncomingMessage;

const CLIENT: ClientId = ClientId(7);

const MARKER: u8 = 0xad;
const STREAM_MARKER: u8 = 0xae;

/// A binary message with the marker may be long, and so may a message that names a method. One with the other marker is
/// streamed.
fn find_bound(kind: MessageKind, prefix: &[u8]) -> MessageBound {
    if kind == MessageKind::Binary && prefix.first() == Some(&STREAM_MARKER) {
        return MessageBound::Streamed;
    }
    let is_marked = kind == MessageKind::Binary && prefix.first() == Some(&MARKER);
    match is_marked || String::from_utf8_lossy(prefix).contains("addressesUpdate") {
        true => MessageBound::Long,
        false => MessageBound::Short,
    }
}

fn config() -> Config {
    Config {
        limits: subscriptions::Limits {
            listeners_max: 1,
            subscriptions_max: 1,
            subscriptions_per_listener_max: 1,
            addresses_max: 1,
            address_pairs_max: 1,
            addresses_per_owner_max: 1,
            addresses_per_listener_max: 1,
            retained_steps: 0,
            retained_bytes: 0,
            unrooted_max: 1,
            queue_messages_max: 1,
            queue_bytes_max: 1,
            queues_bytes_max: 1,
        },
        message_bytes_max: 4_096,
        addresses_message_bytes_max: 1 << 20,
        message_timeout_ms: 60_000,
        incoming_bytes_max: 64 << 20,
        set_tasks_max: 1,
        write_timeout_ms: 60_000,
        close_timeout_ms: 60_000,
        ping_ms: 60_000,
        hold_ms: 0,
    }
}

fn reader(config: &Config) -> (MessageReader, Arc<IncomingBudget>) {
    let incoming = Arc::new(IncomingBudget::new(config.incoming_bytes_max));
    (MessageReader::new(config, find_bound, Arc::clone(&incoming), CLIENT), incoming)
}

/// The header of a frame that is masked with zeros.
fn header(first: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![first, 0xff];
    bytes.extend_from_slice(&(len as u64).to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    [header(first, payload.len()), payload.to_vec()].concat()
}

/// Returns the reader's output for these bytes alone, on a connection that stays open.
async fn first_of(config: &Config, bytes: &[u8]) -> Result<Received, ReadError> {
    let (mut client, mut server) = duplex(4 << 20);
    client.write_all(bytes).await.expect("the pipe has room");
    let (mut reader, _) = reader(config);
    reader.next(&mut server).await
}

#[tokio::test]
async fn messages_are_read_as_sent_in_any_number_of_frames() {
    let mut rng = fastrand::Rng::with_seed(7);
    let config = Config { message_bytes_max: 9_000, ..config() };
    for round in 0..60 {
        let (client, server) = duplex(1 + rng.usize(0..70_000));
        let long = format!("addressesUpdate{}", "é".repeat(rng.usize(0..60_000)));
        let mut binary: Vec<u8> = (0..rng.usize(0..100_000)).map(|_| rng.u8(..)).collect();
        binary.insert(0, MARKER);
        let texts = ["", "x", &"é".repeat(62), &"y".repeat(9_000), &long];
        let mut expected: Vec<IncomingMessage> =
            texts.iter().map(|text| IncomingMessage::Text((*text).to_owned().into())).collect();
        expected.push(IncomingMessage::Binary(binary.into()));
        rng.shuffle(&mut expected);
        let to_send: Vec<(OpCode, Bytes)> = expected
            .iter()
            .map(|it| match it {
                IncomingMessage::Text(text) => {
                    (OpCode::Data(Data::Text), Bytes::from(text.clone()))
                }
                IncomingMessage::Binary(bytes) => (OpCode::Data(Data::Binary), bytes.clone()),
            })
            .collect();
        let mut frames_rng = rng.fork();
        let is_cut = round % 2 == 0;
        let sending = async move {
            let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
            for (opcode, mut payload) in to_send {
                let mut opcode = opcode;
                while is_cut && frames_rng.u8(0..4) > 0 {
                    let chunk = payload.split_to(frames_rng.usize(0..=payload.len()));
                    let frame = SentFrame::message(chunk, opcode, false);
                    socket.send(Sent::Frame(frame)).await.expect("it is read");
                    opcode = OpCode::Data(Data::Continue);
                    if frames_rng.bool() {
                        socket
                            .send(Sent::Ping(Bytes::from_static(b"!")))
                            .await
                            .expect("it is read");
                    }
                }
                let last = SentFrame::message(payload, opcode, true);
                socket.send(Sent::Frame(last)).await.expect("it is read");
            }
            socket
        };
        let receiving = async {
            let (mut server, (mut reader, incoming)) = (server, reader(&config));
            for expected in expected {
                let mut received = reader.next(&mut server).await;
                while received == Ok(Received::Ping(Bytes::from_static(b"!"))) {
                    received = reader.next(&mut server).await;
                }
                assert!(received == Ok(Received::Message(expected)), "round {round}");
            }
            drop(reader);
            assert_eq!(incoming.bytes(), 0);
            server
        };
        tokio::join!(sending, receiving);
    }
}

#[tokio::test]
async fn a_message_over_its_limit_is_refused_by_its_header_or_its_beginning() {
    let config = config();
    let short = || ReadError::TooLong { limit: 4_096, setting: "pubsub.message_bytes_max" };
    let setting = "pubsub.addresses_message_bytes_max";
    let long = || ReadError::TooLong { limit: 1 << 20, setting };
    let spaces = [b' '; 4_096];
    // The first bytes do not name a method with addresses. The rest is never sent.
    for first in [0x81, 0x82, 0x01] {
        let incomplete = [header(first, 1 << 20), spaces.to_vec()].concat();
        assert_eq!(first_of(&config, &incomplete).await, Err(short()), "{first:x}");
    }
    let pieces = [frame(0x01, &spaces[..3_000]), header(0x00, 3_000), spaces.to_vec()].concat();
    assert_eq!(first_of(&config, &pieces).await, Err(short()));
    // The method's name ends at the last byte that an ordinary text may have, and one byte later.
    let name = "addressesUpdate";
    for (before, is_read) in [(4_096 - name.len(), true), (4_097 - name.len(), false)] {
        let text = format!("{}{name}{}", " ".repeat(before), " ".repeat(10_000));
        let received = first_of(&config, &frame(0x81, text.as_bytes())).await;
        assert_eq!(received.is_ok(), is_read, "{before}");
    }
    // No byte of the payload is needed.
    for first in [0x81, 0x82] {
        assert_eq!(first_of(&config, &header(first, (1 << 20) + 1)).await, Err(long()));
    }
    let grown = [frame(0x02, &[[MARKER].as_slice(), &spaces].concat()), header(0, 1 << 20)];
    assert_eq!(first_of(&config, &grown.concat()).await, Err(long()));
}

/// Sends the header of a binary message about a set, then `bytes` bytes of its payload.
async fn start_message(client: &mut DuplexStream, announced: usize, first: u8, bytes: usize) {
    let mut payload = vec![0; bytes];
    payload[0] = MARKER;
    client.write_all(&header(first, announced)).await.expect("the pipe has room");
    client.write_all(&payload).await.expect("the pipe has room");
}

#[tokio::test]
async fn a_message_reserves_its_length_and_no_more() {
    let (mut client, mut server) = duplex(4 << 20);
    let (mut reader, incoming) = reader(&config());
    start_message(&mut client, 900_000, 0x82, 899_999).await;
    client.write_all(&[7]).await.expect("the pipe has room");
    let received = reader.next(&mut server).await;
    assert!(
        matches!(&received, Ok(Received::Message(IncomingMessage::Binary(bytes))) if bytes.len() == 900_000)
    );
    assert_eq!(incoming.bytes(), 900_000, "while it is being processed");
    // In frames, whose number the reader does not know: at most twice the length.
    let pieces = 900;
    start_message(&mut client, 1_000, 0x02, 1_000).await;
    for piece in 1..=pieces {
        let last = if piece == pieces { 0x80 } else { 0 };
        client.write_all(&frame(last, &[7; 1_000])).await.expect("the pipe has room");
    }
    let received = reader.next(&mut server).await;
    assert!(
        matches!(&received, Ok(Received::Message(IncomingMessage::Binary(bytes))) if bytes.len() == 901_000)
    );
    assert!((901_000..=1 << 20).contains(&incoming.bytes()), "{}", incoming.bytes());
    // The memory of a message is released when the next is read.
    client.write_all(&frame(0x89, b"")).await.expect("the pipe has room");
    assert_eq!(reader.next(&mut server).await, Ok(Received::Ping(Bytes::new())));
    assert_eq!(incoming.bytes(), 0);
}

#[tokio::test]
async fn a_streamed_message_comes_in_parts_and_reserves_one_of_them() {
    let mut rng = fastrand::Rng::with_seed(11);
    for round in 0..40 {
        // Some end where a part ends.
        let len = [5_000, PART_BYTES, 2 * PART_BYTES, rng.usize(4_097..900_000)][round % 4];
        let mut message: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        message[0] = STREAM_MARKER;
        let mut sent = Vec::new();
        let mut rest = &message[..];
        let mut opcode = 0x02;
        while round % 2 == 0 && rng.u8(0..4) > 0 {
            let (frame_bytes, after) = rest.split_at(rng.usize(0..=rest.len()));
            sent.extend(frame(opcode, frame_bytes));
            sent.extend(frame(0x89, b"!"));
            (rest, opcode) = (after, 0x00);
        }
        sent.extend(frame(0x80 | opcode, rest));
        sent.extend(frame(0x82, b"next"));
        let (mut client, mut server) = duplex(1 + rng.usize(0..70_000));
        let sending = async move { client.write_all(&sent).await.map(|()| client) };
        let receiving = async {
            let (mut reader, incoming) = reader(&config());
            let mut received = Vec::new();
            loop {
                match reader.next(&mut server).await.expect("it is sent as it should be") {
                    Received::Ping(_) => {}
                    Received::Part(part) => {
                        assert_eq!(part.kind, MessageKind::Binary);
                        assert!(part.is_last || part.bytes.len() == PART_BYTES, "round {round}");
                        assert_eq!(incoming.bytes(), PART_BYTES, "round {round}");
                        received.extend_from_slice(&part.bytes);
                        if part.is_last {
                            break;
                        }
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(received == message, "round {round}");
            let next = IncomingMessage::Binary(Bytes::from_static(b"next"));
            assert_eq!(reader.next(&mut server).await, Ok(Received::Message(next)));
            assert_eq!(incoming.bytes(), 0);
        };
        let (sent, ()) = tokio::join!(sending, receiving);
        sent.expect("it is read");
    }
}

#[tokio::test]
async fn a_streamed_message_has_the_bound_of_long_ones_and_their_deadline() {
    let config = Config { message_timeout_ms: 100, ..config() };
    let too_long =
        [frame(0x02, &[[STREAM_MARKER].as_slice(), &[7; 600_000]].concat()), header(0x00, 500_000)];
    let (mut client, mut server) = duplex(4 << 20);
    client.write_all(&too_long.concat()).await.expect("the pipe has room");
    let (mut reader, _) = reader(&config);
    let mut ended = reader.next(&mut server).await;
    while matches!(ended, Ok(Received::Part(_))) {
        ended = reader.next(&mut server).await;
    }
    let setting = "pubsub.addresses_message_bytes_max";
    assert_eq!(ended, Err(ReadError::TooLong { limit: 1 << 20, setting }));

    let (mut client, mut server) = duplex(4 << 20);
    let cut = frame(0x02, &[[STREAM_MARKER].as_slice(), &[7; 100_000]].concat());
    client.write_all(&cut).await.expect("the pipe has room");
    let (mut reader, _) = self::reader(&config);
    assert!(matches!(reader.next(&mut server).await, Ok(Received::Part(_))));
    assert_eq!(reader.next(&mut server).await, Err(ReadError::Late));
}

#[tokio::test]
async fn a_message_without_memory_waits_for_it_until_its_deadline() {
    let config = Config { message_timeout_ms: 100, ..config() };
    let (mut client, mut server) = duplex(1 << 20);
    let (mut reader, incoming) = reader(&config);
    let mut all = incoming.reserve(CLIENT);
    assert!(all.grow(config.incoming_bytes_max / 2));
    start_message(&mut client, 100_000, 0x82, 100_000).await;
    assert_eq!(reader.next(&mut server).await, Err(ReadError::IncomingFull));

    let config = Config { message_timeout_ms: 60_000, ..config };
    let (mut client, mut server) = duplex(1 << 20);
    let mut reader = MessageReader::new(&config, find_bound, Arc::clone(&incoming), CLIENT);
    start_message(&mut client, 100_000, 0x82, 100_000).await;
    let release = async {
        tokio::task::yield_now().await;
        drop(all);
    };
    let (received, ()) = tokio::join!(reader.next(&mut server), release);
    assert!(received.is_ok(), "{received:?}");
}

#[tokio::test]
async fn an_incomplete_message_is_late_even_if_pings_come_in_between() {
    let config = Config { message_timeout_ms: 50, ..config() };
    let incomplete: [&[u8]; 5] = [
        &[0x81],                               // a header
        &header(0x81, 10),                     // a text without payload yet
        &frame(0x01, b"{"),                    // the first frame of a message
        &header(0x82, 1_000_000),              // a long one
        &[0x89, 0x85, 0, 0, 0, 0, b'h', b'e'], // a ping
    ];
    for bytes in incomplete {
        assert_eq!(first_of(&config, bytes).await, Err(ReadError::Late), "{bytes:x?}");
    }
    // Sent so fast that the reader never waits: pings, and empty frames.
    for filler in [frame(0x89, b""), frame(0x00, b"")] {
        let (mut client, mut server) = duplex(1 << 16);
        let (mut reader, _) = reader(&config);
        client.write_all(&frame(0x01, b"{")).await.expect("it is read");
        let filler = filler.repeat(1_000);
        let sending = async {
            while client.write_all(&filler).await.is_ok() {}
            unreachable!("the reader has not gone")
        };
        let reading = async {
            loop {
                match reader.next(&mut server).await {
                    Ok(Received::Ping(_)) => tokio::task::yield_now().await,
                    ended => break ended,
                }
            }
        };
        let ended = tokio::select! {
            () = sending => unreachable!(),
            ended = reading => ended,
        };
        assert_eq!(ended, Err(ReadError::Late));
    }
}

#[tokio::test]
async fn time_in_which_nothing_is_read_does_not_count() {
    let config = Config { message_timeout_ms: 60_000, ..config() };
    let (mut client, mut server) = duplex(1 << 20);
    let (mut reader, _) = reader(&config);
    client.write_all(&frame(0x01, b"{")).await.expect("the pipe has room");
    let reading = reader.next(&mut server);
    assert!(reading.now_or_never().is_none(), "it waits for the rest");
    let before = reader.deadline.expect("it has begun");
    reader.defer(Duration::from_secs(5));
    assert_eq!(reader.deadline, Some(before + Duration::from_secs(5)));
}

#[tokio::test]
async fn only_pings_and_pongs_are_read_during_a_call() {
    let (mut client, mut server) = duplex(1 << 20);
    let (mut reader, _) = reader(&config());
    let sent = [
        frame(0x89, b"first"),
        frame(0x8a, b""),
        frame(0x82, b"message"),
        frame(0x89, b"second"),
        frame(0x88, b""),
    ];
    client.write_all(&sent.concat()).await.expect("the pipe has room");
    let ping = |payload: &'static [u8]| Received::Ping(Bytes::from_static(payload));
    assert_eq!(reader.next_control(&mut server).await, ping(b"first"));
    assert_eq!(reader.next_control(&mut server).await, Received::Pong);
    assert_eq!(reader.next_control(&mut server).now_or_never(), None, "the message is next");
    let message = IncomingMessage::Binary(Bytes::from_static(b"message"));
    assert_eq!(reader.next(&mut server).await, Ok(Received::Message(message)));
    assert_eq!(reader.next_control(&mut server).await, ping(b"second"));
    assert_eq!(reader.next_control(&mut server).now_or_never(), None, "the close is next");
    assert_eq!(reader.next(&mut server).await, Ok(Received::Close(None)));
    let (mut client, mut server) = duplex(1 << 20);
    for byte in frame(0x89, b"in pieces") {
        assert_eq!(reader.next_control(&mut server).now_or_never(), None);
        client.write_u8(byte).await.expect("the pipe has room");
    }
    assert_eq!(reader.next_control(&mut server).await, ping(b"in pieces"));
    drop(client);
    assert_eq!(reader.next_control(&mut server).now_or_never(), None, "the end is next");
    assert_eq!(reader.next(&mut server).await, Err(ReadError::Gone));
}

#[test]
fn control_frames_and_parts_do_not_end_a_message() {
    let part = |is_last| {
        Received::Part(IncomingPart { kind: MessageKind::Binary, bytes: Bytes::new(), is_last })
    };
    let whole = Received::Message(IncomingMessage::Binary(Bytes::new()));
    let ending = [whole, part(true)];
    assert!(ending.iter().all(Received::ends_message));
    let others = [part(false), Received::Ping(Bytes::new()), Received::Pong, Received::Close(None)];
    assert!(!others.iter().any(Received::ends_message));
}

#[test]
fn a_mask_continues_where_the_last_part_ended() {
    let plain: Vec<u8> = (0..=255).collect();
    let mask = [1, 20, 133, 200];
    for cut in [0, 1, 2, 3, 4, 5, 127] {
        let mut bytes = plain.clone();
        unmask(&mut bytes, mask, 0);
        assert_ne!(bytes, plain);
        let (first, second) = bytes.split_at_mut(cut);
        unmask(first, mask, 0);
        unmask(second, mask, cut);
        assert_eq!(bytes, plain, "{cut}");
    }
}
