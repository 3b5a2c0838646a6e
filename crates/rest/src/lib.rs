//! REST: a second door to the methods of JSON-RPC, for scripts, spreadsheets and HTTP caches.
//!
//! In: requests below `/v1/`, on the port of JSON-RPC ([`rpc::HttpApi`]). Out: what the method of a `route::Route` answers, without its envelope: the slot and the commitment are in headers.
//! Bounds: those of the methods, which run as JSON-RPC's do, limits and cancellation included; beside them
//! `answer::HOLD_BYTES_MAX` of an answer are held to know its `ETag`, and what is longer is streamed.
//! Invariant: nothing is read here but slots and examples. What a route answers, methods of `rpc` have answered.
#![forbid(unsafe_code)]

mod accept;
mod answer;
mod document;
mod error;
mod figures;
mod input;
mod link;
#[cfg(test)]
mod listed;
mod openapi;
mod page;
mod route;
mod routes;
mod schema;
mod several;
mod shape;
mod wait;
mod waits;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode};
use rpc::metrics::{Collector, Exposition};
use rpc::{HttpApi, HttpApiRequest, Node, ResponseBody};

use crate::answer::Asked;
use crate::document::Document;
use crate::error::Problem;
use crate::figures::Figures;
use crate::input::{Args, Limits};
use crate::route::{Answer, Route, Verb};
use crate::waits::Waits;

pub use crate::waits::Events;

/// The REST API of a node.
pub struct Rest {
    figures: Figures,
    openapi: Document,
    page: answer::Fixed,
    waits: Waits,
    hold_bytes_max: usize,
}

impl Rest {
    /// The API of a ledger that stands still: nobody is woken who waits for a transaction.
    pub fn new() -> Self {
        Self {
            figures: Figures::new(),
            openapi: Document::default(),
            page: answer::Fixed::new("text/html; charset=utf-8", page::html().as_bytes()),
            waits: Waits::default(),
            hold_bytes_max: answer::HOLD_BYTES_MAX,
        }
    }

    /// The API, and where the ledger puts its events: those who wait for a transaction are woken by them.
    /// Starts a thread, which ends when the events are dropped.
    ///
    /// Errors: the thread could not be started.
    pub fn start() -> io::Result<(Self, Events)> {
        let rest = Self::new();
        let events = rest.waits.begin()?;
        Ok((rest, events))
    }

    /// Holds at most so many bytes of a list or a block to hash them; 1 MiB if it is not said. What is longer
    /// gets an `ETag` of what it is made from, where that is known.
    pub fn hold(self, bytes_max: usize) -> Self {
        Self { hold_bytes_max: bytes_max, ..self }
    }

    /// How many clients wait for a transaction now.
    pub fn waiting(&self) -> usize {
        self.waits.len()
    }

    async fn respond(
        &self,
        node: &Arc<Node>,
        request: HttpApiRequest,
        number: &mut Option<usize>,
    ) -> Result<Response<ResponseBody>, Problem> {
        let path = request.head.uri.path();
        let is_read = matches!(request.head.method, Method::GET | Method::HEAD);
        let headers = &request.head.headers;
        let found = find(path, &request.head.method);
        let route = found.as_ref().ok().copied();
        *number = route.and_then(|it| routes::ROUTES.iter().position(|one| std::ptr::eq(one, it)));
        // Whatever comes of it, it is a request.
        request.method_client.admit(node)?;
        match path {
            "/v1" | "/v1/" | "/v1/openapi.json" if !is_read => {
                return Err(Problem::method_not_allowed(READS));
            }
            "/v1" | "/v1/" => return Ok(self.page.respond(headers)),
            "/v1/openapi.json" => return Ok(self.openapi.of(node).await?.respond(headers)),
            _ => {}
        }
        let route = found?;
        let has_raw = route.answer.has_raw();
        let media = accept::media(headers, has_raw).ok_or_else(|| {
            Problem::not_acceptable(if has_raw {
                "application/json or application/octet-stream"
            } else {
                "application/json"
            })
        })?;
        let body = request.body.map_err(|(status, words)| Problem::of_body(status, words))?;
        let (uri, caller, hold_bytes_max) =
            (&request.head.uri, request.method_client, self.hold_bytes_max);
        let (uri_to_read, content_type) = (uri.clone(), headers.get(header::CONTENT_TYPE).cloned());
        let (bytes, limits) = (body.len(), Limits::of(node));
        // A long body on the CPU pool.
        let read = move || {
            let args = Args::read(route, &uri_to_read, content_type.as_ref(), &body, limits)?;
            let plan = (route.plan)(&args)?;
            Ok::<_, Problem>((args, plan))
        };
        let (args, plan) = caller.parse_offloaded(node, bytes, read).await??;
        let asked = Asked { node, caller, uri, headers, media, is_read, hold_bytes_max };
        match (&route.answer, plan) {
            (Answer::Several, plan) => several::answer(&asked, &args, plan).await,
            (Answer::Status, plan) => wait::answer(&asked, &self.waits, &args, plan).await,
            (_, plan) => answer::answer(&asked, route, &args, plan).await,
        }
    }
}

impl Default for Rest {
    fn default() -> Self {
        Self::new()
    }
}

/// What a path answers that only reads.
const READS: &str = "GET, HEAD, OPTIONS";

impl HttpApi for Rest {
    fn owns_path(&self, path: &str) -> bool {
        path == "/v1" || path.starts_with("/v1/")
    }

    fn handle<'a>(
        &'a self,
        node: &'a Arc<Node>,
        request: HttpApiRequest,
    ) -> Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send + 'a>> {
        Box::pin(async move {
            if request.head.method == Method::OPTIONS {
                return options(request.head.uri.path());
            }
            let (began, mut number) = (node.pool.now(), None);
            let (caller, is_head) = (request.method_client, request.head.method == Method::HEAD);
            let response = match self.respond(node, request, &mut number).await {
                Ok(response) => response,
                Err(problem) => problem.into_response(),
            };
            if !is_head {
                caller.charge(node, response.body().immediate_bytes());
            }
            let took = node.pool.now().saturating_sub(began);
            self.figures.count(number, response.status(), took);
            response
        })
    }

    fn refuse(&self, status: StatusCode, message: &str) -> Response<ResponseBody> {
        let response = Problem::of_head(status, message).into_response();
        self.figures.count(None, status, Duration::ZERO);
        response
    }
}

impl Collector for Rest {
    fn write(&self, to: &mut Exposition) {
        self.figures.write(to);
    }
}

/// The route of a request.
fn find(path: &str, method: &Method) -> Result<&'static Route, Problem> {
    let mut found = routes::ROUTES.iter().filter(|route| route.matches(path).is_some());
    // A path without variables comes before one with them.
    let first = found.next().ok_or_else(Problem::no_route)?;
    let verb = match *method {
        Method::GET | Method::HEAD => Some(Verb::Get),
        Method::POST => Some(Verb::Post),
        _ => None,
    };
    let of_path = routes::ROUTES.iter().filter(|route| route.path == first.path);
    match of_path.clone().find(|route| Some(route.verb) == verb) {
        Some(route) => Ok(route),
        None => Err(Problem::method_not_allowed(allowed(of_path.map(|route| route.verb)))),
    }
}

fn allowed(verbs: impl Iterator<Item = Verb>) -> &'static str {
    let verbs: Vec<Verb> = verbs.collect();
    match (verbs.contains(&Verb::Get), verbs.contains(&Verb::Post)) {
        (true, true) => "GET, HEAD, OPTIONS, POST",
        (true, false) => READS,
        (false, _) => "OPTIONS, POST",
    }
}

fn options(path: &str) -> Response<ResponseBody> {
    let allow = match routes::ROUTES.iter().find(|route| route.matches(path).is_some()) {
        Some(first) => {
            let of_path = routes::ROUTES.iter().filter(|route| route.path == first.path);
            allowed(of_path.map(|route| route.verb))
        }
        None if matches!(path, "/v1" | "/v1/" | "/v1/openapi.json") => READS,
        None => return Problem::no_route().into_response(),
    };
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}
