//! The memory of incomplete messages from clients, over all connections: one count, one limit, and each client's share
//! of it.
//!
//! Shape: an incomplete message has a [`Reservation`] for its buffer. The reservation grows before the buffer does, and
//! is released when the message has been replied to or its connection has ended.
//! Bounds: `Config::incoming_bytes_max`. A client may reserve half of what the others leave, so that there is always
//! memory for one more client. If a reservation cannot grow, its message is not read further until it can.
//! Cost: an uncontended lock for each message that does not come in one read.

use std::sync::Arc;

use clients::ClientId;
use foldhash::HashMap;
use parking_lot::Mutex;

/// The memory budget of incomplete messages.
pub(crate) struct IncomingBudget {
    bytes_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    bytes: usize,
    clients: HashMap<ClientId, usize>,
}

/// The memory of one message. Dropping it releases the memory.
pub(crate) struct Reservation {
    incoming: Arc<IncomingBudget>,
    client: ClientId,
    bytes: usize,
}

impl IncomingBudget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, inner: Mutex::default() }
    }

    /// Returns the bytes of all reservations.
    pub(crate) fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }

    /// Creates an empty reservation for a client.
    pub(crate) fn reserve(self: &Arc<Self>, client: ClientId) -> Reservation {
        Reservation { incoming: Arc::clone(self), client, bytes: 0 }
    }
}

impl Reservation {
    /// Grows to `bytes`. Without enough free memory it returns false and changes nothing.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let mut inner = self.incoming.inner.lock();
        let inner = &mut *inner;
        let own = inner.clients.entry(self.client).or_default();
        let available = self.incoming.bytes_max.saturating_sub(inner.bytes - *own);
        if *own + more > available / 2 {
            if *own == 0 {
                inner.clients.remove(&self.client);
            }
            return false;
        }
        *own += more;
        inner.bytes += more;
        self.bytes = bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut inner = self.incoming.inner.lock();
        inner.bytes -= self.bytes;
        if let Some(own) = inner.clients.get_mut(&self.client) {
            *own -= self.bytes;
            if *own == 0 {
                inner.clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve_bytes(
        incoming: &Arc<IncomingBudget>,
        client: u128,
        bytes: usize,
    ) -> Option<Reservation> {
        let mut reservation = incoming.reserve(ClientId(client));
        reservation.grow(bytes).then_some(reservation)
    }

    #[test]
    fn a_client_has_half_of_what_the_others_leave() {
        let incoming = Arc::new(IncomingBudget::new(800));
        let first: Vec<_> = (0..9).filter_map(|_| reserve_bytes(&incoming, 1, 100)).collect();
        assert_eq!((first.len(), incoming.bytes()), (4, 400));
        let second: Vec<_> = (0..9).filter_map(|_| reserve_bytes(&incoming, 2, 100)).collect();
        assert_eq!(second.len(), 2);
        assert!(reserve_bytes(&incoming, 3, 100).is_some(), "there is room for one more client");
        drop(first);
        assert!(reserve_bytes(&incoming, 2, 100).is_some(), "the others leave more now");
        drop(second);
        assert_eq!(incoming.bytes(), 0);
        assert!(incoming.inner.lock().clients.is_empty(), "nothing is left of a client");
    }

    #[test]
    fn a_reservation_that_cannot_grow_is_unchanged() {
        let incoming = Arc::new(IncomingBudget::new(200));
        let mut reservation = incoming.reserve(ClientId(1));
        assert!(reservation.grow(60));
        assert!(!reservation.grow(101));
        assert_eq!(incoming.bytes(), 60);
        assert!(reservation.grow(100));
        drop(reservation);
        assert_eq!(incoming.bytes(), 0);
    }
}
