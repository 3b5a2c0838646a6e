//! Places that clients share: downloads, and requests that wait.
//!
//! Bounds: a number of places, and a share for each client, so that one client never takes all of them.

use std::sync::Arc;

use clients::{ClientId, ClientShares, Share, ShareNames};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Their limits have no settings.
const NAMES: ShareNames = ShareNames {
    clients: ["client", "clients"],
    units: "places",
    each_settings: "fixed",
    all_settings: "fixed",
};

/// Places that clients share.
pub(crate) struct ClientPlaces {
    places_max: usize,
    free: Arc<Semaphore>,
    shares: Arc<ClientShares>,
}

/// A place, until it is dropped.
pub(crate) struct ClientPlace {
    _free: OwnedSemaphorePermit,
    _share: Share,
}

/// Why a client gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// All are in use.
    All,
    /// The client has its share.
    Client,
}

impl ClientPlaces {
    pub(crate) fn new(places_max: usize, client_max: usize) -> Self {
        Self {
            places_max,
            free: Arc::new(Semaphore::new(places_max)),
            shares: Arc::new(ClientShares::new(NAMES, places_max, Some(client_max))),
        }
    }

    pub(crate) fn try_acquire(&self, client: ClientId) -> Result<ClientPlace, NoPlace> {
        let free = Arc::clone(&self.free).try_acquire_owned().map_err(|_| NoPlace::All)?;
        let share = self.shares.try_acquire(client).map_err(|_| NoPlace::Client)?;
        Ok(ClientPlace { _free: free, _share: share })
    }

    /// Number of places in use.
    pub(crate) fn len(&self) -> usize {
        self.places_max - self.free.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_with_its_share_leaves_places_to_others() {
        let places = ClientPlaces::new(8, 2);
        let take = |client| places.try_acquire(ClientId(client));
        let of_one: Vec<_> = (0..8).map_while(|_| take(1).ok()).collect();
        assert_eq!((of_one.len(), places.len()), (2, 2));
        assert_eq!(take(1).err(), Some(NoPlace::Client));
        let others: Vec<_> = [2, 2, 3, 3, 4, 4].map(take).into_iter().flatten().collect();
        assert_eq!((others.len(), places.len()), (6, 8));
        assert_eq!(take(5).err(), Some(NoPlace::All));
        drop(of_one);
        assert!(take(1).is_ok());
        drop(others);
        assert_eq!(places.len(), 0);
    }
}
