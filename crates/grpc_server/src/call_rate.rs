//! The rate of a client's calls: a call waits until it is due, before its message is read and its method runs.
//!
//! In: a new call, a call that is refused early (its method, its token), a health check, a new connection. Out: the
//! time at which it is due, or the refusal of one that would wait too long.
//! Shape: each of them is charged to its client in the [`RequestBudget`](crate::request_budget::RequestBudget). Health
//! checks and connections have rates of their own. A call that waits delays nothing else: its task sleeps, and its
//! frames count as unread ([`UnreadStreams`]). HTTP/2 stops a client that waits on all its streams. A refusal waits as
//! well, so a client with any number of streams gets no more refusals than calls. A client that this does not stop,
//! because it resets its calls or has thousands of them, loses its connections (`excess_calls`).
//! Bounds: a client has as many waiting calls as its rate allows in [`CALL_WAIT_MAX`], and as many waiting refusals as
//! in [`REFUSAL_WAIT_MAX`], with some more of each connection (`excess_calls`). All clients together have
//! `Config::subscriptions_max` waiting calls, and a share each. The headers of a waiting call are freed. Its frames are
//! in the window of its connection; those of a refused call are discarded.
//! Not here: frames that belong to no call. h2 ends a connection with streams that are reset before their call starts
//! (20 at once) or that it refuses itself (1,024), and one with CONTINUATION frames without an end. It acknowledges one
//! PING or SETTINGS frame before it reads the next one, which bounds their memory. The rate of all reads bounds their
//! cost (`read_rate`).

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use clients::{ClientId, Share};
use tonic::Status;

use crate::connection_context::ConnectionContext;
use crate::counters::Event;
use crate::refusal::Refusal;
use crate::request_budget::{CALL_WAIT_MAX, REFUSAL_WAIT_MAX};
use crate::server_state::ServerState;
use crate::shares;
use crate::unread_streams::{UnreadStream, UnreadStreams};

/// A connection that its address may have.
pub(crate) struct AdmittedConnection {
    pub(crate) share: Share,
    /// The time until it is due. A wait is counted already.
    pub(crate) delay: Duration,
}

impl ServerState {
    /// Charges a new connection to its address.
    ///
    /// Errors: the reason why the address may not have it.
    pub(crate) fn admit_connection(&self, address: ClientId) -> Result<AdmittedConnection, String> {
        let share = self.shares.connections.try_acquire(address);
        let share = share.map_err(|full| full.to_string())?;
        let delay = self.request_budget.charge_connection(address);
        let delay = delay.map_err(|due| self.new_rate_status(due).message().to_owned())?;
        if !delay.is_zero() {
            self.counters.record(Event::CallDelayed);
        }
        Ok(AdmittedConnection { share, delay })
    }

    /// Charges a call to its client, and waits until it is due.
    ///
    /// Errors: the refusal of a call that would wait too long.
    pub(crate) async fn wait_for_call(
        &self,
        client: ClientId,
        connection: &ConnectionContext,
    ) -> Result<(), Refusal> {
        let charged = self.request_budget.charge_call(client);
        self.wait_until_due(charged, client, connection).await
    }

    /// Charges a health check to its address, and waits until it is due.
    ///
    /// Errors: those of [`Self::wait_for_call`].
    pub(crate) async fn wait_for_health_check(
        &self,
        address: ClientId,
        connection: &ConnectionContext,
    ) -> Result<(), Refusal> {
        let charged = self.request_budget.charge_health_check(address);
        self.wait_until_due(charged, address, connection).await
    }

    /// Waits until a call is due, or refuses it if that takes too long. `charged` is the result of charging it.
    async fn wait_until_due(
        &self,
        charged: Result<Duration, Duration>,
        client: ClientId,
        connection: &ConnectionContext,
    ) -> Result<(), Refusal> {
        let delay = match charged {
            Ok(delay) if delay.is_zero() => return Ok(()),
            Ok(delay) => delay,
            Err(due) => {
                let status = self.new_rate_status(due);
                return Err(self.refuse_call(status, client, connection));
            }
        };
        self.counters.record(Event::CallDelayed);
        let waited = match shares::acquire_unit(&self.shares.waiting_calls, client) {
            Ok(_waiting) => wait_unread(&connection.unread, client, delay).await,
            Err(status) => Err(status),
        };
        waited.map_err(|status| self.refuse_call(status, client, connection))
    }

    /// Charges a call that is refused for another reason. Returns its refusal, with the delay until it is due.
    pub(crate) fn charge_refused_call(
        &self,
        refusal: Refusal,
        client: ClientId,
        connection: &ConnectionContext,
    ) -> Refusal {
        match self.request_budget.charge_call(client) {
            Ok(delay) if delay.is_zero() => refusal,
            Ok(delay) => {
                self.counters.record(Event::CallDelayed);
                Refusal { delay: refusal.delay.max(Some(delay)), ..refusal }
            }
            Err(due) => self.refuse_call(self.new_rate_status(due), client, connection),
        }
    }

    /// Returns the refusal of a call beyond the rate of its client, with the delay until the refusal is due.
    fn refuse_call(
        &self,
        status: Status,
        client: ClientId,
        connection: &ConnectionContext,
    ) -> Refusal {
        self.counters.record(Event::CallRefused);
        let delay = self.request_budget.charge_refusal(client).unwrap_or_else(|_| {
            self.record_excess_call(client, connection);
            REFUSAL_WAIT_MAX
        });
        Refusal { status, delay: Some(delay) }
    }

    /// Records a call beyond the rate of refusals.
    fn record_excess_call(&self, client: ClientId, connection: &ConnectionContext) {
        let now = self.request_budget.now();
        if !connection.excess_calls.record(now) {
            return;
        }
        if connection.unread.has_other_clients(client) {
            connection.excess_calls.delay_read(now);
        } else {
            connection.excess_calls.end_connection();
        }
    }

    /// Returns the status of a call or a connection that is refused because it is due after this time.
    fn new_rate_status(&self, due: Duration) -> Status {
        Status::resource_exhausted(format!(
            "this client makes more than {} calls a second (grpc.calls_per_s): this one is due in \
             {} ms, and a call waits at most {} ms",
            self.config.calls_per_s,
            due.as_millis(),
            CALL_WAIT_MAX.as_millis()
        ))
    }
}

/// Waits for a time in which the frames of a call stay in the window of its connection.
///
/// Errors: the status of a call whose frames would fill the window that other clients of the connection need.
async fn wait_unread(
    streams: &Arc<UnreadStreams>,
    client: ClientId,
    delay: Duration,
) -> Result<(), Status> {
    let mut due = pin!(tokio::time::sleep(delay));
    let mut unread = None;
    poll_fn(|context| {
        if due.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let waker = context.waker();
        let unread = unread.get_or_insert_with(|| streams.add(client, waker));
        if unread.is_refused(waker) {
            return Poll::Ready(Err(UnreadStream::refusal()));
        }
        Poll::Pending
    })
    .await
}
