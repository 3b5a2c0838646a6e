//! The interface of an API that is served over REST: its table, and the limits and examples of its server.

use std::collections::BTreeMap;

use http_server::ResponseBody;
use hyper::Response;
use hyper::header::HeaderMap;
use jsonrpc::error::RpcError;
use jsonrpc::{Api, Server};
use ledger::Slot;
use serde_json::Value;

use crate::error::ApiError;
use crate::param::Limits;
use crate::params::Params;
use crate::request_context::RequestContext;
use crate::route::MethodCall;
use crate::route_table::RouteTable;

/// The REST interface of one API.
pub trait RestApi: Sized + Send + Sync + 'static {
    /// The API with the methods that the routes call.
    type Api: Api;

    /// The routes, and what describes them.
    const TABLE: &'static RouteTable;

    /// The limits of parameters on this node. Default: 100 items of a list.
    fn limits(&self, _server: &Server<Self::Api>) -> Limits {
        Limits { items_max: 100, setting: "" }
    }

    /// Values of path parameters that this node can serve now, for the OpenAPI document. Called on a thread that polls
    /// sockets, if those of the last document are no longer available.
    fn examples(&self, _server: &Server<Self::Api>) -> Examples {
        Examples::default()
    }

    /// Whether the node can still serve all examples, and has no more of them.
    fn are_available(&self, _server: &Server<Self::Api>, _examples: &Examples) -> bool {
        true
    }

    /// Responds to a route of [`crate::ResponseKind::Custom`]. The future is dropped when the client disconnects.
    fn respond(
        &self,
        _context: &RequestContext<'_, Self::Api>,
        _params: &Params,
        _call: MethodCall,
    ) -> impl Future<Output = Result<Response<ResponseBody>, ApiError>> + Send {
        async { Err(RpcError::internal().into()) }
    }

    /// Returns the newest slot with a verified block, as the server defines it; each response has it in headers.
    /// `None` if there is none.
    fn verified_slot(&self, _server: &Server<Self::Api>) -> Option<VerifiedSlot> {
        None
    }

    /// Writes headers that every response has. Called on a thread that polls sockets.
    fn write_headers(&self, _server: &Server<Self::Api>, _headers: &mut HeaderMap) {}

    /// Heap bytes in use, by `part` of `hydrant_memory_bytes`.
    fn memory(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A slot with a verified block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedSlot {
    /// The slot.
    pub slot: Slot,
    /// The name of the level of its verification, which is the value of a header.
    pub level: &'static str,
}

/// Example values of path parameters, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examples(BTreeMap<&'static str, Value>);

impl Examples {
    /// Returns the example of a parameter.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl FromIterator<(&'static str, Value)> for Examples {
    fn from_iter<I: IntoIterator<Item = (&'static str, Value)>>(examples: I) -> Self {
        Self(examples.into_iter().collect())
    }
}
