//! Flow control of a batch: which messages ask for an acknowledgement, and when the next one may be sent.
//!
//! A server acknowledges the messages of a batch that it has staged only if they have a reply subject. It stages a
//! batch in memory, and drops messages above a limit, so the sender bounds the bytes that no server has confirmed.
//! Invariant: if there is no room for a message, an acknowledgement is outstanding.

use std::collections::VecDeque;

use crate::message::MESSAGE_BYTES_MAX;

/// Messages after which an acknowledgement is requested.
const MESSAGES_PER_ACK: usize = 16;
/// Smallest limit: with a quarter of it for each acknowledgement, any message fits while none is outstanding.
const LIMIT_BYTES_MIN: usize = 4 * MESSAGE_BYTES_MAX;

/// The messages of a batch that are sent and not confirmed.
#[derive(Debug)]
pub(super) struct Window {
    limit_bytes: usize,
    in_flight_bytes: usize,
    /// Spans of messages that each end with a request for an acknowledgement.
    requested: VecDeque<Span>,
    /// The messages after these spans.
    open: Span,
}

/// Consecutive messages of a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    /// Position of the last one in the batch.
    last: usize,
    messages: usize,
    bytes: usize,
}

impl Window {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes: limit_bytes.max(LIMIT_BYTES_MIN),
            in_flight_bytes: 0,
            requested: VecDeque::new(),
            open: Span::default(),
        }
    }

    /// Returns whether a message may be sent now.
    pub(super) fn may_send(&self, bytes: usize) -> bool {
        self.in_flight_bytes + bytes <= self.limit_bytes
    }

    /// Adds a message. Returns whether it requests an acknowledgement. The first message does, because its reply has
    /// the cause if the server accepts no batch, and so does the last one.
    pub(super) fn add(&mut self, position: usize, bytes: usize, is_last: bool) -> bool {
        self.in_flight_bytes += bytes;
        self.open.last = position;
        self.open.messages += 1;
        self.open.bytes += bytes;
        let asks = is_last
            || position == 1
            || self.open.messages >= MESSAGES_PER_ACK
            || self.open.bytes >= self.limit_bytes / 4;
        if asks {
            self.requested.push_back(std::mem::take(&mut self.open));
        }
        asks
    }

    /// Confirms the messages up to a position. Servers stage messages in order.
    pub(super) fn confirm(&mut self, position: usize) {
        while let Some(span) = self.requested.pop_front_if(|span| span.last <= position) {
            self.in_flight_bytes -= span.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_window_waits_for_an_outstanding_reply() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let mut window = Window::new(random.usize(0..8 << 20));
            let mut asked = VecDeque::new();
            for position in 1..=1_000 {
                let bytes = random.usize(0..=MESSAGE_BYTES_MAX);
                while !window.may_send(bytes) {
                    let position = asked.pop_front().expect("an outstanding acknowledgement");
                    window.confirm(position);
                }
                if window.add(position, bytes, position == 1_000) {
                    asked.push_back(position);
                }
                assert!(window.in_flight_bytes <= window.limit_bytes);
            }
            assert_eq!(asked.pop_back(), Some(1_000));
            window.confirm(1_000);
            assert_eq!(window.in_flight_bytes, 0);
        }
    }

    #[test]
    fn small_messages_ask_every_sixteenth_time() {
        let mut window = Window::new(4 << 20);
        let asked = (1..=40).filter(|position| window.add(*position, 10, *position == 40));
        assert_eq!(asked.collect::<Vec<_>>(), [1, 17, 33, 40]);
    }

    #[test]
    fn a_lost_reply_is_covered_by_a_later_one() {
        let mut window = Window::new(4 << 20);
        for position in 1..=33 {
            window.add(position, 100, false);
        }
        window.confirm(33);
        assert_eq!(window.in_flight_bytes, 0);
    }
}
