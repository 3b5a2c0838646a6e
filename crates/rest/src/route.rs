//! A route: an HTTP method, a path, parameters, the method that it calls, and how the result becomes the response.
//!
//! The same table matches requests, checks their parameters and is described as OpenAPI.

use jsonrpc::BodyTransformFactory;
use ledger::{Commitment, Slot};
use serde_json::Value;

use crate::error::ApiError;
use crate::param::Param;
use crate::params::Params;

/// The HTTP method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    /// And HEAD.
    Get,
    /// With a body.
    Post,
}

/// One route.
#[derive(Debug)]
pub struct Route {
    /// Its HTTP method.
    pub method: HttpMethod,
    /// Below `/v1/`. Variables are in braces. Each is a full segment.
    pub path: &'static str,
    /// The operation's id, from which generated clients derive names.
    pub id: &'static str,
    /// A line about it, without characters that HTML would need to escape.
    pub summary: &'static str,
    /// Every parameter.
    pub params: &'static [Param],
    /// The body of its requests.
    pub body: RequestBody,
    /// Name of the response's schema.
    pub schema: &'static str,
    /// How the result becomes the response.
    pub response: ResponseKind,
    /// Operations that a member of the response leads to. A page also leads to the next one.
    pub links: &'static [Link],
    /// Builds the call from the parameters.
    pub build_call: fn(&Params) -> Result<MethodCall, ApiError>,
}

/// An operation that a member of a response leads to.
#[derive(Debug)]
pub struct Link {
    /// The name of the link.
    pub name: &'static str,
    /// The id of the operation.
    pub operation: &'static str,
    /// A parameter of the operation, and its value as a runtime expression of OpenAPI.
    pub param: (&'static str, &'static str),
}

/// A group of routes.
#[derive(Debug)]
pub struct Tag {
    /// Its name, as people read it.
    pub name: &'static str,
    /// First segments of their paths, after `/v1/`.
    pub segments: &'static [&'static str],
}

/// The JSON-RPC calls for a request.
#[derive(Debug)]
pub enum MethodCall {
    /// A method and its parameters.
    Single(&'static str, Value),
    /// Cheap methods: name in the response, method and parameters of each.
    Composite(Vec<(&'static str, &'static str, Value)>),
}

/// How the result of a method becomes the response of a route.
#[derive(Debug)]
pub enum ResponseKind {
    /// The value of one method.
    Value(ValueResponse),
    /// What was submitted is accepted: 202.
    Accepted(AcceptedResponse),
    /// Results of several methods ([`MethodCall::Composite`]).
    Composite,
    /// The API's own: [`crate::RestApi::respond`].
    Custom(CustomResponse),
}

/// A response of the API's own. Its context is the state.
#[derive(Debug)]
pub struct CustomResponse {
    /// The commitment of that state.
    pub commitment: Commitment,
    /// Whether a request waits for a change: such a request is always handled.
    pub may_wait: fn(&Params) -> bool,
}

/// A value next to its context, without it. Null becomes 404.
#[derive(Debug)]
pub struct ValueResponse {
    /// What a 404 names: "account".
    pub object: &'static str,
    /// Where its slot comes from.
    pub slot: SlotSource,
    /// What its `ETag` is computed from.
    pub etag: ETagSource,
    /// Set if the method returns raw bytes on request ([`jsonrpc::RawValue`]): the fields that it has beside them.
    pub raw: Option<&'static [RawField]>,
    /// Transforms the value.
    pub transform: Option<fn(&Params) -> BodyTransformFactory>,
}

/// A field beside raw bytes. It is sent as a header.
#[derive(Debug)]
pub struct RawField {
    /// The name of its header, without `Hydrant-`; in lower case it is that of [`jsonrpc::RawValue::fields`].
    pub name: &'static str,
    /// The description of the header, for OpenAPI.
    pub header: fn() -> Value,
}

/// Where the slot of a value comes from.
#[derive(Clone, Copy, Debug)]
pub enum SlotSource {
    /// Its context. The value is that of the state, which changes.
    Context,
    /// A parameter. The value belongs to that slot, and never changes once the slot is final.
    Param(&'static str),
    /// The first bytes of its JSON. The value belongs to that slot, too. A raw value has it in its context.
    Value(fn(&[u8]) -> Option<Slot>),
}

/// What the `ETag` of a value is computed from.
#[derive(Clone, Copy, Debug)]
pub enum ETagSource {
    /// Its bytes, up to this many of which are buffered.
    Bytes(usize),
    /// Its bytes if they are few, or else what they depend on. A client that has it gets 304 before it is computed.
    BytesOrDependencies,
}

/// A result that is a string, and becomes an object with one member.
#[derive(Debug)]
pub struct AcceptedResponse {
    /// The name of the member.
    pub member: &'static str,
    /// The path below which the string is found.
    pub location: &'static str,
    /// A sentence about that path.
    pub location_doc: &'static str,
}

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// Not read.
    None,
    /// An object of the parameters whose location is the body.
    Json,
    /// The same, or the raw bytes of this parameter, which is base64.
    JsonOrRaw(&'static str),
}

impl Route {
    /// The variables of the path, if the route matches it.
    pub fn matches<'p>(&self, path: &'p str) -> Option<Vec<(&'static str, &'p str)>> {
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

    /// Whether its responses are pages with a cursor.
    pub(crate) fn is_paged(&self) -> bool {
        self.method == HttpMethod::Get && self.params.iter().any(|param| param.name == "cursor")
    }
}

impl Tag {
    /// Whether a route is in this group.
    pub fn contains(&self, route: &Route) -> bool {
        self.segments.contains(&route.path.split('/').nth(2).unwrap_or_default())
    }
}

impl ResponseKind {
    /// Whether `Accept: application/octet-stream` is supported.
    pub fn has_raw(&self) -> bool {
        self.raw_fields().is_some()
    }

    /// The fields beside raw bytes, if they are supported.
    pub(crate) fn raw_fields(&self) -> Option<&'static [RawField]> {
        match self {
            Self::Value(value) => value.raw,
            Self::Accepted(_) | Self::Composite | Self::Custom(_) => None,
        }
    }
}

impl ValueResponse {
    /// The value of the state that is named by `object`, as JSON.
    pub const fn of_state(object: &'static str) -> Self {
        let (slot, etag) = (SlotSource::Context, ETagSource::BytesOrDependencies);
        Self { object, slot, etag, raw: None, transform: None }
    }
}

fn variable(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}
