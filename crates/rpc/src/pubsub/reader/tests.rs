//! Messages in every cut, the limits, the room and the deadline of what is not whole.

use futures_util::SinkExt;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Sent;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::Frame as SentFrame;

use super::*;

const CLIENT: ClientId = ClientId(7);

fn config() -> Config {
    Config { message_timeout_ms: 60_000, ..Config::default() }
}

fn reader(config: &Config) -> (MessageReader, Arc<IncomingBudget>) {
    let incoming = Arc::new(IncomingBudget::new(config.incoming_bytes_max));
    (MessageReader::new(config, Arc::clone(&incoming), CLIENT), incoming)
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

/// What comes of bytes after which nothing more comes, on a connection that stays open.
async fn first_of(config: &Config, bytes: &[u8]) -> Result<Received, ReadError> {
    let (mut client, mut server) = duplex(4 << 20);
    client.write_all(bytes).await.expect("it has room");
    let (mut reader, _) = reader(config);
    reader.next(&mut server).await
}

#[tokio::test]
async fn messages_are_those_that_a_client_sent_however_they_are_cut() {
    let mut rng = fastrand::Rng::with_seed(7);
    let config = Config { message_bytes_max: 9_000, ..config() };
    for round in 0..60 {
        let (client, server) = duplex(1 + rng.usize(0..70_000));
        let long = format!("addressesUpdate{}", "é".repeat(rng.usize(0..60_000)));
        let mut binary: Vec<u8> = (0..rng.usize(0..100_000)).map(|_| rng.u8(..)).collect();
        binary.insert(0, address_sets::BINARY);
        let texts = ["", "x", &"é".repeat(62), &"y".repeat(9_000), &long];
        let mut expected: Vec<Received> =
            texts.iter().map(|text| Received::Text((*text).to_owned().into())).collect();
        expected.push(Received::Binary(binary.into()));
        rng.shuffle(&mut expected);
        let to_send: Vec<(OpCode, Bytes)> = expected
            .iter()
            .map(|it| match it {
                Received::Text(text) => (OpCode::Data(Data::Text), Bytes::from(text.clone())),
                Received::Binary(bytes) => (OpCode::Data(Data::Binary), bytes.clone()),
                _ => unreachable!("only messages are sent"),
            })
            .collect();
        let (mut pieces_rng, is_cut) = (rng.fork(), round % 2 == 0);
        let sending = async move {
            let mut socket = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
            for (opcode, mut payload) in to_send {
                let mut opcode = opcode;
                while is_cut && pieces_rng.u8(0..4) > 0 {
                    let piece = payload.split_to(pieces_rng.usize(0..=payload.len()));
                    let piece = SentFrame::message(piece, opcode, false);
                    socket.send(Sent::Frame(piece)).await.expect("it is read");
                    opcode = OpCode::Data(Data::Continue);
                    if pieces_rng.bool() {
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
            for expected in &expected {
                let mut received = reader.next(&mut server).await;
                while received == Ok(Received::Ping(Bytes::from_static(b"!"))) {
                    received = reader.next(&mut server).await;
                }
                assert!(received.as_ref() == Ok(expected), "round {round}");
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
    let short = || ReadError::TooLong { limit: 4_096, knob: "pubsub.message_bytes_max" };
    let knob = "pubsub.addresses_message_bytes_max";
    let long = || ReadError::TooLong { limit: 1 << 20, knob };
    let spaces = [b' '; 4_096];
    // The first bytes do not say that the message is about addresses; the rest is never sent.
    for first in [0x81, 0x82, 0x01] {
        let begun = [header(first, 1 << 20), spaces.to_vec()].concat();
        assert_eq!(first_of(&config, &begun).await, Err(short()), "{first:x}");
    }
    let pieces = [frame(0x01, &spaces[..3_000]), header(0x00, 3_000), spaces.to_vec()].concat();
    assert_eq!(first_of(&config, &pieces).await, Err(short()));
    // It says so with its last byte that may be of an ordinary text, and one later.
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
    let grown =
        [frame(0x02, &[[address_sets::BINARY].as_slice(), &spaces].concat()), header(0, 1 << 20)];
    assert_eq!(first_of(&config, &grown.concat()).await, Err(long()));
}

/// Sends what begins a binary message about a set, then as many bytes as there is room for.
async fn start_message(client: &mut DuplexStream, announced: usize, first: u8, bytes: usize) {
    let mut payload = vec![0; bytes];
    payload[0] = address_sets::BINARY;
    client.write_all(&header(first, announced)).await.expect("it has room");
    client.write_all(&payload).await.expect("it has room");
}

#[tokio::test]
async fn a_message_takes_the_room_of_its_length_and_no_more() {
    let (mut client, mut server) = duplex(4 << 20);
    let (mut reader, incoming) = reader(&config());
    start_message(&mut client, 900_000, 0x82, 899_999).await;
    client.write_all(&[7]).await.expect("it has room");
    let received = reader.next(&mut server).await;
    assert!(matches!(&received, Ok(Received::Binary(bytes)) if bytes.len() == 900_000));
    assert_eq!(incoming.bytes(), 900_000, "while it is worked on");
    // In pieces, whose number the reader does not know: at most twice.
    let pieces = 900;
    start_message(&mut client, 1_000, 0x02, 1_000).await;
    for piece in 1..=pieces {
        let last = if piece == pieces { 0x80 } else { 0 };
        client.write_all(&frame(last, &[7; 1_000])).await.expect("it has room");
    }
    let received = reader.next(&mut server).await;
    assert!(matches!(&received, Ok(Received::Binary(bytes)) if bytes.len() == 901_000));
    assert!((901_000..=1 << 20).contains(&incoming.bytes()), "{}", incoming.bytes());
    // The message is not in memory any more once the next is read.
    client.write_all(&frame(0x89, b"")).await.expect("it has room");
    assert_eq!(reader.next(&mut server).await, Ok(Received::Ping(Bytes::new())));
    assert_eq!(incoming.bytes(), 0);
}

#[tokio::test]
async fn a_message_without_room_waits_for_it_until_its_deadline() {
    let config = Config { message_timeout_ms: 100, ..config() };
    let (mut client, mut server) = duplex(1 << 20);
    let (mut reader, incoming) = reader(&config);
    let mut all = incoming.reserve(CLIENT);
    assert!(all.grow(config.incoming_bytes_max / 2));
    start_message(&mut client, 100_000, 0x82, 100_000).await;
    assert_eq!(reader.next(&mut server).await, Err(ReadError::IncomingFull));

    let config = Config { message_timeout_ms: 60_000, ..config };
    let (mut client, mut server) = duplex(1 << 20);
    let mut reader = MessageReader::new(&config, Arc::clone(&incoming), CLIENT);
    start_message(&mut client, 100_000, 0x82, 100_000).await;
    let release = async {
        tokio::task::yield_now().await;
        drop(all);
    };
    let (received, ()) = tokio::join!(reader.next(&mut server), release);
    assert!(received.is_ok(), "{received:?}");
}

#[tokio::test]
async fn whatever_has_begun_must_be_whole_in_time_and_pings_in_between_do_not_help() {
    let config = Config { message_timeout_ms: 50, ..config() };
    let begun: [&[u8]; 5] = [
        &[0x81],                               // a header
        &header(0x81, 10),                     // a text of which nothing came
        &frame(0x01, b"{"),                    // a message in pieces
        &header(0x82, 1_000_000),              // a long one
        &[0x89, 0x85, 0, 0, 0, 0, b'h', b'e'], // a ping
    ];
    for bytes in begun {
        assert_eq!(first_of(&config, bytes).await, Err(ReadError::Late), "{bytes:x?}");
    }
    // As fast as they come, so that the reader never waits: pings, and pieces of nothing.
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
    client.write_all(&frame(0x01, b"{")).await.expect("it has room");
    let reading = reader.next(&mut server);
    assert!(futures_util::FutureExt::now_or_never(reading).is_none(), "it waits for the rest");
    let before = reader.deadline.expect("it has begun");
    reader.defer(Duration::from_secs(5));
    assert_eq!(reader.deadline, Some(before + Duration::from_secs(5)));
}

#[test]
fn a_mask_goes_on_where_the_last_part_ended() {
    let plain: Vec<u8> = (0..=255).collect();
    let mask = [1, 20, 133, 200];
    for cut in [0, 1, 2, 3, 4, 5, 127] {
        let mut bytes = plain.clone();
        unmask(&mut bytes, mask, 0);
        let (first, second) = bytes.split_at_mut(cut);
        unmask(first, mask, 0);
        unmask(second, mask, cut);
        assert_eq!(bytes, plain, "{cut}");
    }
}
