//! The table of an API: its routes, their groups, the schemas and error codes. Everything that this crate serves is
//! made from it.

use hyper::Method;
use serde_json::Value;

use crate::api_paths::ApiPaths;
use crate::error::{ApiError, ErrorStyle};
use crate::route::{HttpMethod, Route, Tag};

/// Whether a method only reads: GET and HEAD. Only their responses may be 304.
pub(crate) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// `Allow` of a path that can only be read.
pub(crate) const READ_METHODS: &str = "GET, HEAD, OPTIONS";

/// The table of an API's routes.
#[derive(Debug)]
pub struct RouteTable {
    /// A sentence about the API, for OpenAPI.
    pub summary: &'static str,
    /// A sentence about the responses that have an `ETag` at any length, for OpenAPI. May be empty.
    pub etag_doc: &'static str,
    /// A sentence in HTML about the next page of a list, for the page to try the API. May be empty.
    pub pages_doc: &'static str,
    /// Every route. A path without variables comes before a path with variables that would match it too.
    pub routes: &'static [Route],
    /// Every group of routes, in the order of the page.
    pub tags: &'static [Tag],
    /// The paths of the API on the port of JSON-RPC.
    pub paths: ApiPaths,
    /// The codes and the shape of its errors.
    pub errors: ErrorStyle,
    /// Headers of its own, which each response may have.
    pub headers: &'static [OwnHeader],
    /// Every schema by name: those of the routes, and those that they refer to.
    pub schemas: fn() -> Vec<(&'static str, Value)>,
}

/// A header that an API adds to its responses ([`crate::RestApi::write_headers`]).
#[derive(Debug)]
pub struct OwnHeader {
    /// The name of the header.
    pub name: &'static str,
    /// The description, for OpenAPI.
    pub doc: &'static str,
}

impl RouteTable {
    pub(crate) fn find_route(
        &self,
        path: &str,
        method: &Method,
    ) -> Result<&'static Route, ApiError> {
        let mut found = self.routes.iter().filter(|route| route.matches(path).is_some());
        // A path without variables comes before one with them.
        let first = found.next().ok_or_else(|| ApiError::no_route(self.paths.explorer))?;
        let verb = match *method {
            Method::GET | Method::HEAD => Some(HttpMethod::Get),
            Method::POST => Some(HttpMethod::Post),
            _ => None,
        };
        let mut same_path = self.routes.iter().filter(|route| route.path == first.path);
        let found = same_path.find(|route| Some(route.method) == verb);
        found.ok_or_else(|| ApiError::method_not_allowed(self.allowed_methods(first)))
    }

    /// The methods that a path allows, as `Allow` lists them; `None` if no route has the path.
    pub(crate) fn allow_header(&self, path: &str) -> Option<&'static str> {
        let first = self.routes.iter().find(|route| route.matches(path).is_some())?;
        Some(self.allowed_methods(first))
    }

    /// The methods of all routes with the path of this one.
    fn allowed_methods(&self, first: &Route) -> &'static str {
        let has = |method: HttpMethod| {
            self.routes.iter().any(|route| route.path == first.path && route.method == method)
        };
        match (has(HttpMethod::Get), has(HttpMethod::Post)) {
            (true, true) => "GET, HEAD, OPTIONS, POST",
            (true, false) => READ_METHODS,
            (false, _) => "OPTIONS, POST",
        }
    }
}
