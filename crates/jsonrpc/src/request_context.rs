//! The context of a request, which everything that handles the request gets.
//!
//! Shape: small, and `Copy`. Not here: scheduling (`cpu_pool`), encoding ([`http_server`]).

use std::net::IpAddr;
use std::time::Duration;

use clients::ClientId;
use http_server::{ContentEncoding, PageAccess, RequestId};
use ledger::Slot;

use crate::params::Params;
use crate::state_slots::StateSlots;
use crate::trace_parent::TraceParent;
use crate::value_response::ResponseOptions;

/// The client of a request, and its options.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestContext {
    /// The client, for rate limits and fair scheduling.
    pub(crate) client: ClientId,
    /// Encoding of a long response.
    pub(crate) coding: ContentEncoding,
    /// Set for an interface other than JSON-RPC: only the value is sent, with these options.
    pub(crate) options: Option<ResponseOptions>,
    /// Id of the request in the log.
    pub(crate) request: RequestId,
    /// Its trace, if spans are exported and the client records it.
    pub(crate) trace: Option<TraceParent>,
    /// Whether it may call dangerous methods.
    pub(crate) page_access: PageAccess,
    /// The address of the node on which it arrived.
    pub(crate) reached: Option<IpAddr>,
    /// When the request was complete, by the clock of the pool.
    pub(crate) arrived: Duration,
    /// The slot that the state of each call must have reached, if the request names one.
    pub(crate) min_slot: Option<Slot>,
    /// The slots of the states when the request was dispatched, or when its wait for a slot ended.
    pub(crate) slots: StateSlots,
}

impl RequestContext {
    /// Parameters of a call of this request, from their text.
    pub(crate) fn params<'a>(&self, text: Option<&'a str>) -> Params<'a> {
        let wants_raw = self.options.is_some_and(|options| options.wants_raw);
        self.sent(Params::new(text)).with_raw(wants_raw)
    }

    /// Adds the client of this request, and its connection, to parameters.
    pub(crate) fn sent<'a>(&self, params: Params<'a>) -> Params<'a> {
        params.sent_by(self.client, self.page_access, self.reached)
    }

    /// Whether its results may come from the cache: not in a form that the cache does not have.
    pub(crate) fn may_use_cache(&self) -> bool {
        self.options.is_none_or(|options| !options.wants_raw && options.transform.is_none())
    }
}
