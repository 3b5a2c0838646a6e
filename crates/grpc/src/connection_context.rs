//! The context that the calls of one connection share.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::call_activity::CallActivity;
use crate::status_timer::StatusTimer;
use crate::unread_streams::UnreadStreams;

pub(crate) struct ConnectionContext {
    pub(crate) peer: IpAddr,
    /// The address of the node that the client reached. Unknown only for a socket that is closed already.
    pub(crate) reached: Option<IpAddr>,
    pub(crate) activity: Arc<CallActivity>,
    pub(crate) timer: Arc<StatusTimer>,
    /// The subscriptions that may still be opened.
    pub(crate) subscriptions: Arc<Semaphore>,
    pub(crate) unread: Arc<UnreadStreams>,
}
