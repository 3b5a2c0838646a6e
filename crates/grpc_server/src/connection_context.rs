//! The context that the calls of one connection share.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::call_activity::CallActivity;
use crate::excess_calls::ExcessCalls;
use crate::status_timer::StatusTimer;
use crate::unread_streams::UnreadStreams;

/// The context of a connection, which its calls share.
pub struct ConnectionContext {
    /// The address of the client.
    pub peer: IpAddr,
    /// The address of the node that the client reached. Unknown only for a socket that is closed already.
    pub reached: Option<IpAddr>,
    /// The number of open calls.
    pub activity: Arc<CallActivity>,
    /// The ended streams whose client has not read everything.
    pub timer: Arc<StatusTimer>,
    /// The subscriptions that may still be opened.
    pub subscriptions: Arc<Semaphore>,
    /// The streams that are not read although their clients send.
    pub unread: Arc<UnreadStreams>,
    /// The calls beyond the rates of their clients.
    pub(crate) excess_calls: Arc<ExcessCalls>,
}

impl ConnectionContext {
    /// Creates the context of a connection without calls.
    pub(crate) fn new(peer: IpAddr, reached: Option<IpAddr>, subscriptions_max: usize) -> Self {
        let subscriptions_max = subscriptions_max.min(Semaphore::MAX_PERMITS);
        Self {
            peer,
            reached,
            activity: Arc::new(CallActivity::new()),
            timer: Arc::default(),
            subscriptions: Arc::new(Semaphore::new(subscriptions_max)),
            unread: Arc::default(),
            excess_calls: Arc::default(),
        }
    }
}
