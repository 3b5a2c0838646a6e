//! A route: an HTTP method, a path, parameters, the method that it calls, and how the result becomes the response.
//!
//! One table matches requests, checks their parameters and is described as OpenAPI.

use jsonrpc::BodyTransformFactory;
use ledger::{Commitment, Slot};
use serde_json::Value;

use crate::error::ApiError;
use crate::headers::JSON_MEDIA;
use crate::param::Param;
use crate::params::Params;

/// The HTTP method of a route's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    /// GET, and HEAD for its headers.
    Get,
    /// POST, with a request body.
    Post,
}

/// The segment of a path that is the version of an API.
const VERSION: &str = "v1";

/// A route: its requests, its method and its responses.
#[derive(Debug)]
pub struct Route {
    /// HTTP method of the route's requests.
    pub method: HttpMethod,
    /// Below a root of the API ([`crate::ApiPaths`]). Variables are in braces. Each is a full segment.
    pub path: &'static str,
    /// The operation's id, from which generated clients derive names.
    pub id: &'static str,
    /// A line about it, without characters that HTML would need to escape.
    pub summary: &'static str,
    /// All parameters, in the order of the documentation.
    pub params: &'static [Param],
    /// The kind of body that its requests have.
    pub body: RequestBody,
    /// Name of the response's schema.
    pub schema: &'static str,
    /// Conversion of the result into the response.
    pub response: ResponseKind,
    /// Operations that a member of the response leads to. A page also leads to the next one.
    pub links: &'static [Link],
    /// Builds the call from the parameters.
    pub build_call: fn(&Params) -> Result<MethodCall, ApiError>,
}

/// An operation that a member of a response leads to.
#[derive(Debug)]
pub struct Link {
    /// Name of the link in OpenAPI.
    pub name: &'static str,
    /// Operation id of the linked route.
    pub operation: &'static str,
    /// A parameter of the operation, and its value as a runtime expression of OpenAPI.
    pub param: (&'static str, &'static str),
}

/// A group of routes in the documentation.
#[derive(Debug)]
pub struct Tag {
    /// Its name, as people read it.
    pub name: &'static str,
    /// First segments of their paths, after a version (`v1`) if there is one.
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

/// The conversion of a method's result into the response of a route.
#[derive(Debug)]
pub enum ResponseKind {
    /// The response is the value of one method.
    Value(ValueResponse),
    /// The submission is accepted: 202.
    Accepted(AcceptedResponse),
    /// Results of several methods ([`MethodCall::Composite`]).
    Composite,
    /// The API's own: [`crate::RestApi::respond`].
    Custom(CustomResponse),
}

/// A response of the API's own. Its context is the state.
#[derive(Debug)]
pub struct CustomResponse {
    /// The media type of the response.
    pub media: &'static str,
    /// The commitment of that state.
    pub commitment: Commitment,
    /// Whether a request waits for a change: such a request is always handled.
    pub may_wait: fn(&Params) -> bool,
}

/// A value next to its context, without it. Null becomes 404.
#[derive(Debug)]
pub struct ValueResponse {
    /// The object that a 404 names: "account".
    pub object: &'static str,
    /// The commitment of the state. `None`: the parameter `commitment`.
    pub commitment: Option<Commitment>,
    /// Source of the response's slot.
    pub slot: SlotSource,
    /// Source of the response's `ETag`.
    pub etag: ETagSource,
    /// Set if the method returns raw bytes on request ([`jsonrpc::RawValue`]): the fields next to the bytes.
    pub raw: Option<&'static [RawField]>,
    /// Transformation of the value's body.
    pub transform: Option<fn(&Params) -> BodyTransformFactory>,
}

/// A field next to raw bytes. It is sent as a header.
#[derive(Debug)]
pub struct RawField {
    /// The name of its header, without `Hydrant-`; in lower case it is that of [`jsonrpc::RawValue::fields`].
    pub name: &'static str,
    /// The description of the header, for OpenAPI.
    pub header: fn() -> Value,
}

/// The source of a value's slot.
#[derive(Clone, Copy, Debug)]
pub enum SlotSource {
    /// The context of the value. The value is that of the state, which changes.
    Context,
    /// A parameter. The value belongs to that slot, and never changes once the slot is final.
    Param(&'static str),
    /// The first bytes of its JSON. The value belongs to that slot, too. A raw value has it in its context.
    Value(fn(&[u8]) -> Option<Slot>),
}

/// The source of a value's `ETag`.
#[derive(Clone, Copy, Debug)]
pub enum ETagSource {
    /// The bytes of the value. Up to this number of bytes is buffered.
    Bytes(usize),
    /// The bytes of a short value, or else its dependencies. A client that has it gets 304 before it is computed.
    BytesOrDependencies,
}

/// A result that is a string, and becomes an object with one member.
#[derive(Debug)]
pub struct AcceptedResponse {
    /// Name of the member in the response.
    pub member: &'static str,
    /// The path below which the string is found.
    pub location: &'static str,
    /// Description of the path, for OpenAPI.
    pub location_doc: &'static str,
}

/// The kind of body that a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// The request's body is not read.
    None,
    /// A JSON object of the parameters with the location `Body`.
    Json,
    /// A JSON object of these parameters, or the raw bytes of this parameter, which is base64.
    JsonOrRaw(&'static str),
}

impl Route {
    /// The variables of the path, if the route matches it.
    pub fn matches<'p>(&self, path: &'p str) -> Option<Vec<(&'static str, &'p str)>> {
        let mut segments = path.split('/');
        let mut pattern = self.path.split('/');
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
        let mut segments = route.path.split('/').skip(1);
        segments.find(|segment| *segment != VERSION).is_some_and(|it| self.segments.contains(&it))
    }
}

impl ResponseKind {
    /// Whether `Accept: application/octet-stream` is supported.
    pub fn has_raw(&self) -> bool {
        self.raw_fields().is_some()
    }

    /// Returns the media type of a response that is not raw bytes.
    pub(crate) fn media(&self) -> &'static str {
        match self {
            Self::Custom(custom) => custom.media,
            Self::Value(_) | Self::Accepted(_) | Self::Composite => JSON_MEDIA,
        }
    }

    /// Returns the fields next to raw bytes, if they are supported.
    pub(crate) fn raw_fields(&self) -> Option<&'static [RawField]> {
        match self {
            Self::Value(value) => value.raw,
            Self::Accepted(_) | Self::Composite | Self::Custom(_) => None,
        }
    }
}

impl ValueResponse {
    /// The value of the state that is named by `object`, as JSON.
    pub const fn for_state(object: &'static str) -> Self {
        let slot = SlotSource::Context;
        let etag = ETagSource::BytesOrDependencies;
        Self { object, commitment: None, slot, etag, raw: None, transform: None }
    }
}

fn variable(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}
