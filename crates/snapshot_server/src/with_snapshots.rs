//! The paths of snapshots on the port of JSON-RPC, as a validator has them, before those of another API.
//!
//! `GET /snapshot.tar.bz2` redirects to the newest full archive, whatever its compression. `GET /NAME` is an archive.

use std::sync::Arc;

use clients::ClientId;
use http_server::{PageAccess, ResponseBody, response, text_response};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode};
use jsonrpc::{Api, HttpApi, HttpApiRequest, HttpApiResponse, Server};

use crate::archives::{Counters, NoArchive, SnapshotArchives};
use crate::client_permits::NoPermit;
use crate::download_body::DownloadBody;

/// Path of the newest full archive, for clients that do not know its slot.
const NEWEST: &str = "/snapshot.tar.bz2";
/// The prefixes of the paths of archives.
const PREFIXES: [&str; 2] = ["/snapshot-", "/incremental-snapshot"];
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("5");
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Serves snapshots, and all other paths of another API.
pub struct WithSnapshots<A: Api> {
    archives: Arc<SnapshotArchives>,
    other: Arc<dyn HttpApi<A>>,
}

impl<A: Api> WithSnapshots<A> {
    /// Creates an API with the snapshots of `archives`, and the paths of `other`.
    pub fn new(archives: Arc<SnapshotArchives>, other: Arc<dyn HttpApi<A>>) -> Self {
        Self { archives, other }
    }

    async fn respond(&self, server: &Server<A>, request: HttpApiRequest) -> Response<ResponseBody> {
        let is_head = request.head.method == Method::HEAD;
        if !is_head && request.head.method != Method::GET {
            let mut refusal = text_response(StatusCode::METHOD_NOT_ALLOWED, "GET is required\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(header::ALLOW, allowed);
            return refusal;
        }
        if let Err(err) = request.method_client.admit(&server.context) {
            return busy(StatusCode::TOO_MANY_REQUESTS, &err.message);
        }
        let path = request.head.uri.path();
        let client = request.method_client.client();
        if path == NEWEST {
            // Otherwise an image with this address, on any page, would have an archive made.
            if request.method_client.page_access() == PageAccess::ForeignOrigin {
                let text =
                    "A web page of another site may not have a snapshot made (--allow-origin)\n";
                return text_response(StatusCode::FORBIDDEN, text);
            }
            return self.redirect(client).await;
        }
        let archive = path.strip_prefix('/').and_then(|name| self.archives.find(name));
        let Some(archive) = archive else {
            let text = "There is no such snapshot. GET /snapshot.tar.bz2 redirects to the newest\n";
            return text_response(StatusCode::NOT_FOUND, text);
        };
        let counters = &self.archives.counters;
        let body = if is_head {
            ResponseBody::default()
        } else {
            let permit = match self.archives.downloads.try_acquire(client) {
                Ok(permit) => permit,
                Err(no_permit) => {
                    Counters::add(&counters.refused);
                    return refuse_download(no_permit);
                }
            };
            let body = DownloadBody::new(&archive, Arc::clone(counters), permit);
            ResponseBody::streamed(Box::new(body), None)
        };
        let mut response = response(StatusCode::OK, MEDIA_TYPE, body);
        response.headers_mut().insert(header::CONTENT_LENGTH, archive.bytes.into());
        response
    }

    /// Redirects to the newest archive, which may have to be written first.
    async fn redirect(&self, client: ClientId) -> Response<ResponseBody> {
        let archive = match self.archives.newest(client).await {
            Ok(archive) => archive,
            Err(err @ NoArchive::TooManyOfClient(_)) => {
                return busy(StatusCode::TOO_MANY_REQUESTS, &err.to_string());
            }
            Err(err) => return busy(StatusCode::SERVICE_UNAVAILABLE, &err.to_string()),
        };
        // A slot and a hash: no other bytes are in a name.
        let Ok(location) = HeaderValue::try_from(format!("/{}", archive.name)) else {
            return text_response(StatusCode::INTERNAL_SERVER_ERROR, "the snapshot has no name\n");
        };
        let mut redirect = text_response(StatusCode::SEE_OTHER, "");
        redirect.headers_mut().insert(header::LOCATION, location);
        redirect
    }
}

fn refuse_download(no_permit: NoPermit) -> Response<ResponseBody> {
    match no_permit {
        NoPermit::All => busy(StatusCode::SERVICE_UNAVAILABLE, "too many downloads"),
        NoPermit::Client(full) => busy(StatusCode::TOO_MANY_REQUESTS, &full.to_string()),
    }
}

fn busy(status: StatusCode, reason: &str) -> Response<ResponseBody> {
    let mut refusal = text_response(status, format!("{reason}\n"));
    refusal.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_S);
    refusal
}

impl<A: Api> HttpApi<A> for WithSnapshots<A> {
    fn owns_path(&self, path: &str) -> bool {
        is_snapshot_path(path) || self.other.owns_path(path)
    }

    fn handle<'a>(
        &'a self,
        server: &'a Arc<Server<A>>,
        request: HttpApiRequest,
    ) -> HttpApiResponse<'a> {
        if is_snapshot_path(request.head.uri.path()) {
            return HttpApiResponse::Pending(Box::pin(self.respond(server, request)));
        }
        self.other.handle(server, request)
    }

    fn refuse(&self, status: StatusCode, message: &str) -> Response<ResponseBody> {
        self.other.refuse(status, message)
    }
}

fn is_snapshot_path(path: &str) -> bool {
    path == NEWEST || PREFIXES.iter().any(|prefix| path.starts_with(prefix))
}
