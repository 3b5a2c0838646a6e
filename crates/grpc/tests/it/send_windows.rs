//! The windows of HTTP/2 that a server gives to a client of frames, and requests that fill them.

use std::collections::HashMap;

use crate::raw_client::{
    ACK, DATA, Frame, GOAWAY, INITIAL_WINDOW_SIZE, PING, RST_STREAM, RawClient, SETTINGS,
    WINDOW_UPDATE, frame,
};

/// The longest frame that every server accepts.
pub(crate) const FRAME_BYTES_MAX: usize = 16_384;
/// Each window before settings and updates.
const INITIAL_WINDOW: i64 = 65_535;
/// Pings without a larger window after which the server reads no more. Its one thread has handled its work then.
const IDLE_ROUNDS: usize = 50;

/// Bytes that a client may send.
pub(crate) struct SendWindows {
    /// Bytes that a new stream may send.
    initial: i64,
    /// Bytes that each stream may send beyond `initial`, below 0 for sent ones.
    streams: HashMap<u32, i64>,
    /// Bytes that all streams together may send.
    connection: i64,
}

impl SendWindows {
    pub(crate) fn new() -> Self {
        let streams = HashMap::new();
        Self { initial: INITIAL_WINDOW, streams, connection: INITIAL_WINDOW }
    }

    /// Returns the bytes that the connection may send on streams with a window.
    pub(crate) fn connection(&self) -> i64 {
        self.connection
    }

    /// Sends requests on a stream as far as the windows allow. Returns the number of bytes.
    pub(crate) async fn push(
        &mut self,
        client: &mut RawClient,
        stream: u32,
        requests: &[u8],
    ) -> usize {
        let mut sent = 0;
        let mut idle_rounds = 0;
        while sent < requests.len() && idle_rounds < IDLE_ROUNDS {
            let before = sent;
            while sent < requests.len() && self.available(stream) > 0 {
                let bytes = self.available(stream).min(FRAME_BYTES_MAX).min(requests.len() - sent);
                client.send(&frame(DATA, 0, stream, &requests[sent..sent + bytes])).await;
                self.spend(stream, bytes);
                sent += bytes;
            }
            idle_rounds = if sent == before { idle_rounds + 1 } else { 0 };
            self.round_trip(client).await;
        }
        sent
    }

    /// Waits until the server has handled the sent frames, and takes its window updates.
    async fn round_trip(&mut self, client: &mut RawClient) {
        client.send(&frame(PING, 0, 0, b"finished")).await;
        loop {
            let received = client.next().await.expect("the connection works");
            assert!(![RST_STREAM, GOAWAY].contains(&received.kind), "{:?}", received.payload);
            self.update(&received);
            match (received.kind, received.flags & ACK) {
                // The windows of the settings apply once they are acknowledged.
                (SETTINGS, 0) => client.send(&frame(SETTINGS, ACK, 0, &[])).await,
                (PING, ACK) => return,
                _ => {}
            }
        }
    }

    fn available(&self, stream: u32) -> usize {
        let more = self.streams.get(&stream).copied().unwrap_or_default();
        usize::try_from((self.initial + more).min(self.connection)).unwrap_or_default()
    }

    fn spend(&mut self, stream: u32, bytes: usize) {
        let bytes = i64::try_from(bytes).expect("short");
        *self.streams.entry(stream).or_default() -= bytes;
        self.connection -= bytes;
    }

    /// Takes the server's settings and window updates.
    fn update(&mut self, frame: &Frame) {
        let number = |bytes: &[u8]| i64::from(u32::from_be_bytes(bytes.try_into().expect("four")));
        match (frame.kind, frame.stream) {
            (SETTINGS, _) => {
                for setting in frame.payload.chunks_exact(6) {
                    if setting[..2] == [0, INITIAL_WINDOW_SIZE] {
                        self.initial = number(&setting[2..]);
                    }
                }
            }
            (WINDOW_UPDATE, 0) => self.connection += number(&frame.payload),
            (WINDOW_UPDATE, stream) => {
                *self.streams.entry(stream).or_default() += number(&frame.payload);
            }
            _ => {}
        }
    }
}
