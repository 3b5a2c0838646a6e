//! Permits that clients share: for downloads, and for requests that wait.
//!
//! Bounds: a number of permits, and a share for each client, so that one client never takes all of them.

use std::sync::Arc;

use clients::{ClientId, ClientShares, Share, ShareFull, ShareNames};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
    Client(ShareFull),
}

impl ClientPermits {
    /// Creates `permits_max` permits, of which a client may have `client_max`, for `units`: a plural in refusals.
    pub(crate) fn new(units: &'static str, permits_max: usize, client_max: usize) -> Self {
        // Their limits have no settings.
        let names = ShareNames {
            clients: ["client", "clients"],
            units,
            each_settings: "fixed",
            all_settings: "fixed",
        };
        Self {
            permits_max,
            free: Arc::new(Semaphore::new(permits_max)),
            shares: Arc::new(ClientShares::new(names, permits_max, Some(client_max))),
        }
    }

    pub(crate) fn try_acquire(&self, client: ClientId) -> Result<ClientPermit, NoPermit> {
        let free = Arc::clone(&self.free).try_acquire_owned().map_err(|_| NoPermit::All)?;
        let share = self.shares.try_acquire(client).map_err(NoPermit::Client)?;
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
        let permits = ClientPermits::new("downloads", 8, 2);
        let take = |client| permits.try_acquire(ClientId(client));
        let of_one: Vec<_> = (0..8).map_while(|_| take(1).ok()).collect();
        assert_eq!((of_one.len(), permits.len()), (2, 2));
        let refused = |no_permit| match no_permit {
            Some(NoPermit::Client(full)) => full.to_string(),
            other => panic!("{other:?}"),
        };
        let text = "this client has 2 downloads, at most 2 are allowed (fixed)";
        assert_eq!(refused(take(1).err()), text);
        let others: Vec<_> = [2, 2, 3, 3, 4, 4].map(take).into_iter().flatten().collect();
        assert_eq!((others.len(), permits.len()), (6, 8));
        assert_eq!(take(5).err(), Some(NoPermit::All));
        drop(of_one);
        assert!(take(1).is_ok());
        drop(others);
        assert_eq!(permits.len(), 0);
    }

    #[test]
    fn a_refusal_for_the_reserve_has_the_number_that_the_client_has() {
        let permits = ClientPermits::new("requests", 64, 8);
        let take = |client| permits.try_acquire(ClientId(client));
        let others: Vec<_> = (1..=57).flat_map(|client| take(client).ok()).collect();
        let own = take(100).expect("the first one of a client");
        assert_eq!((others.len(), permits.len()), (57, 58));
        let second: Vec<_> = (0..8).map_while(|_| take(101).ok()).collect();
        let Some(NoPermit::Client(full)) = take(101).err() else { panic!("it is not refused") };
        assert_eq!(full.in_use, second.len());
        assert!(
            full.in_use < 8 && full.to_string().contains("for clients that have fewer"),
            "{full}"
        );
        drop(own);
    }
}
