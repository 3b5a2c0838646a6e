//! What a route is: a verb, a path, parameters, and which method answers it.
//!
//! The same table is matched against requests, checked against their parameters, and told as OpenAPI.

use serde_json::Value;

use crate::error::ApiError;
use crate::params::Params;

/// How a route is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpMethod {
    /// HEAD, too.
    Get,
    Post,
}

/// One route.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: HttpMethod,
    /// Variables stand in braces, each a whole segment.
    pub(crate) path: &'static str,
    /// Names the operation for those who generate clients.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) params: &'static [Param],
    pub(crate) body: RequestBody,
    /// Name of the answer's schema: `schema`.
    pub(crate) schema: &'static str,
    pub(crate) response: ResponseKind,
    /// What is to be called.
    pub(crate) build_call: fn(&Params) -> Result<MethodCall, ApiError>,
}

/// Routes of one subject.
#[derive(Debug)]
pub(crate) struct Tag {
    pub(crate) name: &'static str,
    /// First segments of their paths, behind `/v1/`.
    pub(crate) segments: &'static [&'static str],
}

impl Tag {
    pub(crate) fn contains(&self, route: &Route) -> bool {
        self.segments.contains(&route.path.split('/').nth(2).unwrap_or_default())
    }
}

/// What is called for a request.
#[derive(Debug)]
pub(crate) enum MethodCall {
    /// A method and its parameters.
    Single(&'static str, Value),
    /// Cheap methods, each under its name in the answer.
    Composite(Vec<(&'static str, &'static str, Value)>),
}

/// How what a method answers becomes the answer of a route.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    /// What stands beside the context.
    State,
    /// The same; its bytes as they are, if asked for.
    Account,
    /// A transaction, or 404. Its bytes as they are, if asked for.
    Transaction,
    /// The block of a slot.
    Block,
    /// A list of signatures becomes a page.
    Signatures,
    /// A signature becomes an object.
    Submitted,
    /// Answers of several methods.
    Composite,
    /// A transaction's status, waited for.
    Status,
}

impl ResponseKind {
    /// Whether `Accept: application/octet-stream` is understood.
    pub(crate) fn has_raw(&self) -> bool {
        matches!(self, Self::Account | Self::Transaction)
    }
}

/// What a POST brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestBody {
    None,
    /// An object of the parameters whose place is the body.
    Json,
    /// The same, or a transaction's bytes as they are.
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

/// Where a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamLocation {
    Path,
    Query,
    Body,
}

/// What a parameter can be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ParamType {
    /// 32 bytes in base58.
    Address,
    /// Addresses: between commas in a query, a list in a body.
    Addresses(MaxItems),
    /// 64 bytes in base58.
    Signature,
    /// A whole number, both ends included.
    Number(u64, u64),
    Bool,
    OneOf(&'static [&'static str]),
    /// What an answer gave; 1 to that many characters of base58.
    Base58(usize),
    /// A transaction.
    Base64,
    /// A list of filters as getProgramAccounts has them.
    Filters,
}

/// How many addresses a list may have.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MaxItems {
    /// As the node is configured for lists of accounts.
    Accounts,
    /// That many, whatever the node.
    Fixed(usize),
}

impl Route {
    /// The variables of a path that is this route's.
    pub(crate) fn matches<'p>(&self, path: &'p str) -> Option<Vec<(&'static str, &'p str)>> {
        let (mut given, mut wanted) = (path.split('/'), self.path.split('/'));
        let mut variables = Vec::new();
        loop {
            match (given.next(), wanted.next()) {
                (None, None) => return Some(variables),
                (Some(given), Some(wanted)) => match variable(wanted) {
                    Some(name) => variables.push((name, given)),
                    None if given == wanted => {}
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
