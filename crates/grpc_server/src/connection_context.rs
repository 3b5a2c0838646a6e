//! The context that the calls of one connection share.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::call_activity::CallActivity;
use crate::status_timer::StatusTimer;
use crate::unread_streams::UnreadStreams;

/// The state of a connection.
pub struct ConnectionContext {
    /// The address of the client.
    pub peer: IpAddr,
    /// The address of the node that the client reached. Unknown only for a socket that is closed already.
    pub reached: Option<IpAddr>,
    /// The open calls.
    pub activity: Arc<CallActivity>,
    /// The ended streams whose clients have not read all.
    pub timer: Arc<StatusTimer>,
    /// The subscriptions that may still be opened.
    pub subscriptions: Arc<Semaphore>,
    /// The streams that are not read although their clients send.
    pub unread: Arc<UnreadStreams>,
}
