//! A route: an HTTP method, a path, parameters, and the JSON-RPC method that it calls.
//!
//! The same table matches requests, checks their parameters and is described as OpenAPI.

use serde_json::Value;

use crate::error::ApiError;
use crate::params::Params;

/// The HTTP method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpMethod {
    /// And HEAD.
    Get,
    Post,
}

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: HttpMethod,
    /// Variables are in braces. Each is a full segment.
    pub(crate) path: &'static str,
    /// The operation's id, from which generated clients derive names.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) params: &'static [Param],
    pub(crate) body: RequestBody,
    /// Name of the response's schema in `schema`.
    pub(crate) schema: &'static str,
    pub(crate) response: ResponseKind,
    /// Builds the call from the parameters.
    pub(crate) build_call: fn(&Params) -> Result<MethodCall, ApiError>,
}

/// A group of routes.
#[derive(Debug)]
pub(crate) struct Tag {
    pub(crate) name: &'static str,
    /// First segments of their paths, after `/v1/`.
    pub(crate) segments: &'static [&'static str],
}

impl Tag {
    pub(crate) fn contains(&self, route: &Route) -> bool {
        self.segments.contains(&route.path.split('/').nth(2).unwrap_or_default())
    }
}

/// The JSON-RPC calls for a request.
#[derive(Debug)]
pub(crate) enum MethodCall {
    /// A method and its parameters.
    Single(&'static str, Value),
    /// Cheap methods: name in the response, method and parameters of each.
    Composite(Vec<(&'static str, &'static str, Value)>),
}

/// How the result of a method becomes the response of a route.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    /// The value next to the context.
    State,
    /// The same, or its raw bytes if requested.
    Account,
    /// A transaction, or 404. Its raw bytes if requested.
    Transaction,
    /// The block of a slot.
    Block,
    /// A list of signatures becomes a page.
    Signatures,
    /// A signature becomes an object.
    Submitted,
    /// Results of several methods.
    Composite,
    /// A transaction's status, possibly after a wait.
    Status,
}

impl ResponseKind {
    /// Whether `Accept: application/octet-stream` is supported.
    pub(crate) fn has_raw(&self) -> bool {
        matches!(self, Self::Account | Self::Transaction)
    }
}

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestBody {
    None,
    /// An object of the parameters whose location is the body.
    Json,
    /// The same, or a transaction's raw bytes.
    JsonOrTransaction,
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    pub(crate) location: ParamLocation,
    pub(crate) kind: ParamType,
    pub(crate) is_required: bool,
    pub(crate) doc: &'static str,
}

/// The location of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamLocation {
    Path,
    Query,
    Body,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ParamType {
    /// 32 bytes in base58.
    Address,
    /// Addresses: separated by commas in a query, a list in a body.
    Addresses(MaxItems),
    /// 64 bytes in base58.
    Signature,
    /// An integer in this range, both ends included.
    Number(u64, u64),
    Bool,
    OneOf(&'static [&'static str]),
    /// 1 to `n` characters of base58.
    Base58(usize),
    /// A transaction.
    Base64,
    /// A list of filters, as for getProgramAccounts.
    Filters,
}

/// The maximum number of addresses in a list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MaxItems {
    /// The node's limit for lists of accounts.
    Accounts,
    /// A fixed limit, for every node.
    Fixed(usize),
}

impl Route {
    /// The variables of the path, if the route matches it.
    pub(crate) fn matches<'p>(&self, path: &'p str) -> Option<Vec<(&'static str, &'p str)>> {
        let (mut segments, mut pattern) = (path.split('/'), self.path.split('/'));
        let mut variables = Vec::new();
        loop {
            match (segments.next(), pattern.next()) {
                (None, None) => return Some(variables),
                (Some(segment), Some(expected)) => match variable(expected) {
                    Some(name) => variables.push((name, segment)),
                    None if segment == expected => {}
                    None => return None,
                },
                _ => return None,
            }
        }
    }
}

fn variable(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}
