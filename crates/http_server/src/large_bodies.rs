//! The memory of large request bodies: one bound for all of them, half of it for one client.
//!
//! In: the size of a body as it arrives. Out: a [`Reservation`] that lives as long as the body, or none.
//! Bounds: [`BYTES_MAX`], or four bodies of the maximum length if these are more. A body of up to [`SMALL_BYTES`] is
//! not counted: the number of connections bounds those.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use clients::ClientId;
use parking_lot::Mutex;

use crate::http_metrics::{HttpCounters, HttpEvent};

/// Bytes up to which a body is not counted: more than any request that sets no account or program.
const SMALL_BYTES: usize = 64 * 1024;
/// Bytes of all large bodies together. More lets more clients write programs at once.
const BYTES_MAX: u64 = 256 << 20;
/// Bodies of the maximum length that fit at least, so that a client's share has two. The buffer of a body that arrives
/// is not longer (`request_body`).
const BODIES_MIN: u64 = 4;

/// The large bodies that are in memory.
pub(crate) struct LargeBodies {
    bytes_max: u64,
    metrics: Arc<HttpCounters>,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    total: u64,
    by_client: HashMap<ClientId, u64>,
}

/// The memory of one large body.
pub(crate) struct Reservation {
    bodies: Arc<LargeBodies>,
    client: ClientId,
    bytes: u64,
}

/// The large bodies use all of their memory, or those of one client half of it.
pub(crate) struct Exhausted {
    pub(crate) bytes_max: u64,
}

impl LargeBodies {
    /// Creates the bound for bodies of up to `body_bytes_max` bytes each.
    pub(crate) fn new(body_bytes_max: usize, metrics: Arc<HttpCounters>) -> Self {
        let bytes_max = BYTES_MAX.max((body_bytes_max as u64).saturating_mul(BODIES_MIN));
        Self { bytes_max, metrics, used: Mutex::default() }
    }

    /// Grows the reservation of a client's body that has `bytes` bytes now. A small body has none.
    pub(crate) fn grow(
        self: &Arc<Self>,
        client: ClientId,
        bytes: usize,
        reservation: &mut Option<Reservation>,
    ) -> Result<(), Exhausted> {
        if bytes <= SMALL_BYTES {
            return Ok(());
        }
        let reservation = reservation.get_or_insert_with(|| Reservation {
            bodies: Arc::clone(self),
            client,
            bytes: 0,
        });
        let grown = (bytes as u64).saturating_sub(reservation.bytes);
        let mut used = self.used.lock();
        let of_client = used.by_client.get(&client).copied().unwrap_or_default() + grown;
        let bytes_max = self.bytes_max;
        if used.total + grown > bytes_max || of_client > bytes_max / 2 {
            return Err(Exhausted { bytes_max });
        }
        used.total += grown;
        used.by_client.insert(client, of_client);
        reservation.bytes += grown;
        self.metrics.add(HttpEvent::BodyStarted, grown);
        Ok(())
    }
}

impl Reservation {
    /// Returns the body with its reservation, which ends when the body is dropped.
    pub(crate) fn attach(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(ReservedBody { bytes, _reservation: self })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut used = self.bodies.used.lock();
        used.total -= self.bytes;
        if let Some(of_client) = used.by_client.get_mut(&self.client) {
            *of_client -= self.bytes;
            if *of_client == 0 {
                used.by_client.remove(&self.client);
            }
        }
        self.bodies.metrics.add(HttpEvent::BodyEnded, self.bytes);
    }
}

struct ReservedBody {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for ReservedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn reserve(
        bodies: &Arc<LargeBodies>,
        client: u64,
        bytes: usize,
    ) -> Option<Option<Reservation>> {
        let mut reservation = None;
        let grown = bodies.grow(ClientId(u128::from(client)), bytes, &mut reservation);
        grown.is_ok().then_some(reservation)
    }

    #[test]
    fn large_bodies_share_their_memory_and_a_client_has_half() {
        let metrics = Arc::new(HttpCounters::new());
        let bodies = Arc::new(LargeBodies::new(MIB, Arc::clone(&metrics)));
        let first = reserve(&bodies, 1, 128 * MIB).expect("half of all");
        assert!(reserve(&bodies, 1, MIB).is_none(), "more than its half");
        assert!(reserve(&bodies, 1, SMALL_BYTES).is_some(), "a small body is not counted");
        let second = reserve(&bodies, 2, 100 * MIB).expect("of the other half");
        assert!(reserve(&bodies, 3, 29 * MIB).is_none());
        let third = reserve(&bodies, 3, 28 * MIB).expect("the rest").expect("it is large");
        // A body is counted until it is dropped, and not only until it is complete.
        let body = third.attach(Bytes::from_static(b"text"));
        assert_eq!(&body[..], b"text");
        let slice = body.slice(1..);
        drop(body);
        assert!(reserve(&bodies, 4, MIB).is_none());
        drop(slice);
        assert!(reserve(&bodies, 4, MIB).is_some());
        drop((first, second));
        let used = bodies.used.lock();
        assert_eq!((used.total, used.by_client.len()), (0, 0));
        let [started, ended] =
            [HttpEvent::BodyStarted, HttpEvent::BodyEnded].map(|event| metrics.total(event));
        assert_eq!(started, ended);
    }

    #[test]
    fn two_bodies_of_any_maximum_fit_into_a_clients_share() {
        let bodies = Arc::new(LargeBodies::new(1 << 30, Arc::new(HttpCounters::new())));
        let both = [1 << 30; 2].map(|bytes| reserve(&bodies, 1, bytes).expect("it fits"));
        assert!(reserve(&bodies, 1, MIB).is_none());
        drop(both);
    }
}
