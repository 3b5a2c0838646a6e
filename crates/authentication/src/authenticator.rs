//! The API key of a request: its sources, and the client that it names.
//!
//! In: the head of a request. Out: the client that the request counts for, or the reason of its refusal. Sources, in
//! this order: the header `x-api-key` or `x-token`, `Authorization: Bearer`, the parameter `api-key` of the query, a
//! path of one segment.
//! Invariant: a key from the URI is removed from it, so that no later part of the node, and no response, can repeat it.
//! Not here: the permissions of a key (`api_keys`), the wording of a refusal (the servers).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api_keys::{ApiKeys, AuthError, Charge, Credentials, LimitReached, Permit};
use clients::ClientId;
use cpu_pool::{Class, Pool};
use http::Uri;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;

/// The HTTP header of an API key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The header of a key in clients of Yellowstone gRPC.
const TOKEN: HeaderName = HeaderName::from_static("x-token");
/// The query parameter of an API key.
const PARAMETER: &str = "api-key=";
/// Bytes of a path that may be a key: shorter ones are paths.
const PATH_KEY_BYTES_MIN: usize = 16;

/// The headers of a client's rate (draft-ietf-httpapi-ratelimit-headers-07).
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const RATE_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RATE_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Finds the client of a request by its API key.
#[derive(Clone)]
pub struct Authenticator {
    keys: Arc<ApiKeys>,
    pool: Arc<Pool>,
}

impl Authenticator {
    /// Creates an authenticator with the clock of a pool, by which the rates of the keys are measured everywhere.
    pub fn new(keys: Arc<ApiKeys>, pool: Arc<Pool>) -> Self {
        Self { keys, pool }
    }

    /// Returns the client of a request: its key, or `client`, which is its address. The key is removed from the URI.
    pub fn authenticate(
        &self,
        uri: &mut Uri,
        headers: &HeaderMap,
        address: Option<IpAddr>,
        client: ClientId,
    ) -> Result<ClientId, AuthError> {
        let in_query = uri.query().and_then(query_key);
        let key = header_key(headers).or_else(|| in_query.map(str::as_bytes));
        let path = if key.is_none() { path_key(uri.path()) } else { None };
        let origin = headers.get(header::ORIGIN).map(HeaderValue::as_bytes);
        let credentials = Credentials { key, path, origin, address };
        let found = self.keys.authenticate(&credentials, client.0, self.pool.now())?;
        if in_query.is_some() || (path.is_some() && found.is_some()) {
            *uri = without_key(uri, path.is_some());
        }
        Ok(found.map_or(client, ClientId::from_key))
    }

    /// Returns whether a client may not call a method.
    pub fn denies(&self, client: ClientId, method: &str) -> bool {
        self.keys.denies(client.caller(), method)
    }

    /// Charges a light call with its request.
    pub fn admit_call(&self, client: ClientId, method: &str) -> Result<(), LimitReached> {
        let charge = Charge { requests: 1, ..Charge::call(Class::Light.index()) };
        let now = self.pool.now();
        self.keys.admit(client.caller(), charge, std::iter::once(method), now)
    }

    /// Returns a permit for a stream of gRPC.
    pub fn open_stream(&self, client: ClientId) -> Result<Permit, LimitReached> {
        self.keys.open_stream(client.caller(), self.pool.now())
    }

    /// Returns the delay of the response to a refused request, if its client has too many of them. Nothing else
    /// should be read from the connection meanwhile.
    pub fn delay_refusal(&self, client: ClientId) -> Option<Duration> {
        self.keys.delay_refusal(client.caller(), self.pool.now())
    }

    /// Returns the delay of the response to a request that [`Self::authenticate`] refused, if its address has too many
    /// of them. Nothing else should be read from the connection meanwhile.
    pub fn delay_failure(&self, client: ClientId) -> Option<Duration> {
        self.keys.delay_failure(client.0, self.pool.now())
    }

    /// Returns whether the key of a client was removed.
    pub fn is_removed(&self, client: ClientId) -> bool {
        client.key().is_some_and(|number| !self.keys.contains(number))
    }

    /// Returns a permit for a WebSocket.
    pub fn open_socket(&self, client: ClientId) -> Result<Permit, LimitReached> {
        self.keys.open_socket(client.caller(), self.pool.now())
    }

    /// Writes the state of a client's rate.
    pub fn write_rate(&self, client: ClientId, headers: &mut HeaderMap) {
        if let Some(rate) = self.keys.rate_status(client.caller(), self.pool.now()) {
            headers.insert(RATE_LIMIT, rate.limit.into());
            headers.insert(RATE_REMAINING, rate.remaining.into());
            headers.insert(RATE_RESET, rate.reset_s.into());
        }
    }
}

/// Returns the key of the headers.
fn header_key(headers: &HeaderMap) -> Option<&[u8]> {
    if let Some(key) = headers.get(API_KEY).or_else(|| headers.get(TOKEN)) {
        return Some(key.as_bytes().trim_ascii());
    }
    let authorization = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, key) = authorization.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| key.trim_ascii())
}

/// Returns the key of a query. Keys have no characters that a query escapes.
fn query_key(query: &str) -> Option<&str> {
    query.split('&').find_map(|parameter| parameter.strip_prefix(PARAMETER))
}

/// Returns the only segment of a path, if it may be a key.
fn path_key(path: &str) -> Option<&[u8]> {
    let segment = path.strip_prefix('/')?;
    let segment = segment.strip_suffix('/').unwrap_or(segment).as_bytes();
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    (segment.len() >= PATH_KEY_BYTES_MIN && segment.iter().all(is_allowed)).then_some(segment)
}

/// Returns the URI without its key.
fn without_key(uri: &Uri, is_path_key: bool) -> Uri {
    let mut text = if is_path_key { "/".to_owned() } else { uri.path().to_owned() };
    let parameters = uri.query().into_iter().flat_map(|query| query.split('&'));
    for (at, parameter) in parameters.filter(|it| !it.starts_with(PARAMETER)).enumerate() {
        text.push(if at == 0 { '?' } else { '&' });
        text.push_str(parameter);
    }
    let mut parts = uri.clone().into_parts();
    // A part of a valid URI is valid.
    parts.path_and_query =
        Some(PathAndQuery::try_from(text).unwrap_or_else(|_| PathAndQuery::from_static("/")));
    Uri::from_parts(parts).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use api_keys::{KeyFile, KeyHash};

    use super::*;

    const KEY: &str = "hyd_0123456789abcdef";
    const ADDRESS: ClientId = ClientId(1);

    fn authenticator(anonymous: &str) -> Authenticator {
        let hash = KeyHash::of_key(KEY.as_bytes());
        let text = format!(
            "{anonymous}\n[tiers.t]\nrequests_per_s = 5\n[[keys]]\nname = \"a\"\ntier = \"t\"\nsha256 = \"{hash}\"\n"
        );
        let keys = ApiKeys::new(KeyFile::parse(&text).expect("it is valid"), 0);
        let pool = Pool::new(cpu_pool::Config::default(), Arc::new(|| Duration::ZERO), || {});
        Authenticator::new(Arc::new(keys), Arc::new(pool.expect("a thread")))
    }

    /// Returns whether a request has the key, and the URI that is left.
    fn check(
        authenticator: &Authenticator,
        uri: &str,
        headers: &[(HeaderName, &str)],
    ) -> Result<(bool, String), AuthError> {
        let mut uri: Uri = uri.parse().expect("a URI");
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().expect("a header"));
        }
        let client = authenticator.authenticate(&mut uri, &map, None, ADDRESS)?;
        Ok((client.key().is_some(), uri.to_string()))
    }

    #[test]
    fn a_key_is_found_wherever_providers_put_it_and_is_removed_from_the_uri() {
        let authenticator = authenticator("");
        let bearer = format!("Bearer {KEY}");
        let check = |uri: &str, headers: &[(HeaderName, &str)]| check(&authenticator, uri, headers);
        let found = |uri: &str| Ok((true, uri.to_owned()));
        assert_eq!(check("/", &[(API_KEY, KEY)]), found("/"));
        assert_eq!(check("/a?b=c", &[(header::AUTHORIZATION, &bearer)]), found("/a?b=c"));
        let lower = bearer.replace("Bearer", "bearer");
        assert_eq!(check("/", &[(header::AUTHORIZATION, &lower)]), found("/"));
        assert_eq!(check(&format!("/?api-key={KEY}"), &[]), found("/"));
        assert_eq!(check(&format!("/v1/x?a=1&api-key={KEY}&b=2"), &[]), found("/v1/x?a=1&b=2"));
        assert_eq!(check(&format!("http://h:1/?api-key={KEY}"), &[]), found("http://h:1/"));
        assert_eq!(check(&format!("/{KEY}"), &[]), found("/"));
        assert_eq!(check(&format!("/{KEY}/?x"), &[]), found("/?x"));
        // The first source counts. The URI has no key left, whichever it is.
        assert_eq!(check("/?api-key=wrong", &[(API_KEY, KEY)]), found("/"));
        assert_eq!(
            check(&format!("/?api-key={KEY}"), &[(API_KEY, "wrong")]),
            Err(AuthError::Unknown)
        );
    }

    #[test]
    fn a_request_without_a_key_is_refused_or_anonymous() {
        let basic = [(header::AUTHORIZATION, "Basic YTpi")];
        let segment = "/a-segment-that-is-no-key";
        let strict = authenticator("");
        for (uri, headers) in [("/", &[][..]), (segment, &[]), ("/", &basic), ("/?apikey=1", &[])] {
            assert_eq!(check(&strict, uri, headers), Err(AuthError::Missing), "{uri}");
        }
        assert_eq!(check(&strict, "/?api-key=", &[]), Err(AuthError::Unknown));
        let open = authenticator("anonymous = \"t\"");
        for (uri, headers) in [("/", &[][..]), (segment, &[]), ("/", &basic)] {
            assert_eq!(check(&open, uri, headers), Ok((false, uri.to_owned())));
        }
        assert_eq!(check(&open, "/", &[(API_KEY, "wrong")]), Err(AuthError::Unknown));
        let mut headers = HeaderMap::new();
        open.write_rate(ADDRESS, &mut headers);
        let values = [RATE_LIMIT, RATE_REMAINING, RATE_RESET].map(|name| headers[name].clone());
        assert_eq!(values, ["5", "5", "0"]);
    }
}
