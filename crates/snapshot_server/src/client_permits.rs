//! Permits that clients share: for downloads, and for requests that wait.
//!
//! Bounds: a number of permits, and a share for each client, so that one client never takes all of them.

use std::sync::Arc;

use clients::{ClientId, ClientShares, Share, ShareNames};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Their limits have no settings.
const NAMES: ShareNames = ShareNames {
    clients: ["client", "clients"],
    units: "permits",
    each_settings: "fixed",
    all_settings: "fixed",
};

/// Permits that clients share.
pub(crate) struct ClientPermits {
    permits_max: usize,
    free: Arc<Semaphore>,
    shares: Arc<ClientShares>,
}

/// A permit, until it is dropped.
pub(crate) struct ClientPermit {
    _free: OwnedSemaphorePermit,
    _share: Share,
}

/// Why a client gets no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPermit {
    /// All are in use.
    All,
    /// The client has its share.
    Client,
}

impl ClientPermits {
    pub(crate) fn new(permits_max: usize, client_max: usize) -> Self {
        Self {
            permits_max,
            free: Arc::new(Semaphore::new(permits_max)),
            shares: Arc::new(ClientShares::new(NAMES, permits_max, Some(client_max))),
        }
    }

    pub(crate) fn try_acquire(&self, client: ClientId) -> Result<ClientPermit, NoPermit> {
        let free = Arc::clone(&self.free).try_acquire_owned().map_err(|_| NoPermit::All)?;
        let share = self.shares.try_acquire(client).map_err(|_| NoPermit::Client)?;
        Ok(ClientPermit { _free: free, _share: share })
    }

    /// Number of permits in use.
    pub(crate) fn len(&self) -> usize {
        self.permits_max - self.free.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_with_its_share_leaves_permits_to_others() {
        let permits = ClientPermits::new(8, 2);
        let take = |client| permits.try_acquire(ClientId(client));
        let of_one: Vec<_> = (0..8).map_while(|_| take(1).ok()).collect();
        assert_eq!((of_one.len(), permits.len()), (2, 2));
        assert_eq!(take(1).err(), Some(NoPermit::Client));
        let others: Vec<_> = [2, 2, 3, 3, 4, 4].map(take).into_iter().flatten().collect();
        assert_eq!((others.len(), permits.len()), (6, 8));
        assert_eq!(take(5).err(), Some(NoPermit::All));
        drop(of_one);
        assert!(take(1).is_ok());
        drop(others);
        assert_eq!(permits.len(), 0);
    }
}
