//! Agave's PubSub client, read from code that is not async.
//!
//! Shape: `Socket::listen(|client| client.slot_subscribe())` gives an `Inbox`; `next` waits for a value.
//! Bounds: 10,000 notifications an inbox; a wait has 30 s.

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use solana_pubsub_client::nonblocking::pubsub_client::{PubsubClient, PubsubClientResult};
use tokio::runtime::Runtime;

const INBOX_ITEMS_MAX: usize = 10_000;
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

type Subscribed<T> = (BoxStream<'static, T>, Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>);

/// One connection, and the threads that read it.
pub(crate) struct Socket {
    runtime: Runtime,
    client: &'static PubsubClient,
}

impl Socket {
    pub(crate) fn open(url: &str) -> Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let client = runtime.block_on(PubsubClient::new(url)).context("open the socket")?;
        // The client's streams borrow it; a test opens few, and its process ends soon.
        Ok(Self { runtime, client: Box::leak(Box::new(client)) })
    }

    /// Subscribes, and returns when the node has responded.
    pub(crate) fn listen<T, F>(
        &self,
        subscribe: impl FnOnce(&'static PubsubClient) -> F,
    ) -> Result<Inbox<T>>
    where
        T: Send + 'static,
        F: Future<Output = PubsubClientResult<Subscribed<T>>>,
    {
        let (mut items, stop) =
            self.runtime.block_on(subscribe(self.client)).context("subscribe")?;
        let (sender, receiver) = sync_channel(INBOX_ITEMS_MAX);
        self.runtime.spawn(async move {
            while let Some(item) = items.next().await {
                if sender.try_send(item).is_err() {
                    return;
                }
            }
        });
        Ok(Inbox { items: receiver, stop: Box::new(stop) })
    }

    /// Ends the subscription of an inbox.
    pub(crate) fn close<T>(&self, inbox: Inbox<T>) {
        self.runtime.block_on((inbox.stop)());
    }
}

/// The notifications of one subscription, in the order they came.
pub(crate) struct Inbox<T> {
    items: Receiver<T>,
    stop: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>,
}

impl<T: std::fmt::Debug> Inbox<T> {
    /// Waits for the next notification.
    pub(crate) fn next(&self) -> Result<T> {
        self.items.recv_timeout(WAIT_TIMEOUT).context("no notification in 30 s")
    }

    /// Every notification up to the first that `last` accepts, which ends the list.
    pub(crate) fn through(&self, mut last: impl FnMut(&T) -> bool) -> Result<Vec<T>> {
        let mut seen = Vec::new();
        while seen.len() < INBOX_ITEMS_MAX {
            let Ok(item) = self.next() else { bail!("no such notification in 30 s; had {seen:?}") };
            let found = last(&item);
            seen.push(item);
            if found {
                return Ok(seen);
            }
        }
        bail!("{INBOX_ITEMS_MAX} notifications and none of them the right one")
    }

    /// The first notification that `is_match` accepts; those before it are dropped.
    pub(crate) fn find(&self, is_match: impl FnMut(&T) -> bool) -> Result<T> {
        // `through` never returns an empty list.
        Ok(self.through(is_match)?.pop().expect("a list that ends with what was found"))
    }
}
