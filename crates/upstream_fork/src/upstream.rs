//! The JSON-RPC of the upstream, which is a stranger.
//!
//! Shape: each fetching thread has a [`Link`], a connection of its own. Every new connection requests the genesis hash
//! first: behind a name there may be another cluster by now.
//! Bounds: [`RESPONSE_BYTES_MAX`] for a response; a call for several accounts is split if its response is longer.
//! [`ADDRESSES_PER_CALL`] addresses in a call. Each call ends at the deadline of its request. Rate limits and servers that
//! are behind are tried again until then, with a growing pause; a broken connection [`BROKEN_MAX`] times.
//! A redirect is an error.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chain_solana::FetchError;
use http_client::{Connection, Endpoint, HttpClientError, Server, describe_error, shorten_message};
use parking_lot::RwLock;
use serde_json::json;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use tokio::runtime::Runtime;

use crate::cache::CachedAccount;
use crate::counters::{CallEnd, Counters};
use crate::response::{self, AccountsAt, CallError};

/// Bytes of a response: two of the largest accounts in base64.
pub(crate) const RESPONSE_BYTES_MAX: usize = 32 << 20;
/// Addresses of a call. Public endpoints accept 100.
const ADDRESSES_PER_CALL: usize = 100;
/// How often a call is tried again after a broken connection.
const BROKEN_MAX: u32 = 2;
/// The first pause before a call is tried again, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Codes of servers that are busy or behind: a rate limit, a node that is unhealthy, and a slot that is not reached.
const BUSY_CODES: [i64; 4] = [-32005, -32016, -32429, 429];

/// Another cluster.
pub(crate) struct Upstream {
    url: String,
    /// Its host, without what the URL has for authentication.
    name: String,
    genesis: RwLock<Option<Hash>>,
    /// No account may be older than this slot.
    min_slot: AtomicU64,
    pin: Option<u64>,
    timeout_ms: u64,
}

/// A connection of one thread.
pub(crate) struct Link {
    runtime: Runtime,
    connection: Option<(Endpoint, Connection)>,
}

impl Link {
    pub(crate) fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, connection: None })
    }
}

/// Why a call has no result.
enum Failure {
    /// It may have one later.
    Busy(String),
    /// The connection broke, or there is none.
    Broken(String),
    /// The response is too long.
    TooLong,
    /// The deadline is over.
    Late(String),
    /// It has none.
    Final(FetchError),
}

impl Upstream {
    pub(crate) fn new(url: &str, pin: Option<u64>, timeout_ms: u64) -> Self {
        let genesis = RwLock::default();
        let min_slot = AtomicU64::new(0);
        let name = Server::from_url(url).to_string();
        Self { url: url.to_owned(), name, genesis, min_slot, pin, timeout_ms }
    }

    /// Host of the upstream.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sets the identity that every connection must have.
    pub(crate) fn set_genesis(&self, genesis: Hash) {
        *self.genesis.write() = Some(genesis);
    }

    /// Sets the slot that no account may be older than.
    pub(crate) fn set_min_slot(&self, slot: u64) {
        self.min_slot.store(slot, Ordering::Relaxed);
    }

    /// Its genesis hash and its newest finalized slot.
    pub(crate) fn identify(
        &self,
        link: &mut Link,
        counters: &Counters,
        deadline: Instant,
    ) -> Result<(Hash, u64), FetchError> {
        let genesis = self.call_text(link, counters, deadline, "getGenesisHash", "[]")?;
        let genesis = genesis.parse();
        let genesis = genesis.map_err(|err| self.unreachable(format!("getGenesisHash: {err}")))?;
        let params = r#"[{"commitment":"finalized"}]"#;
        let body = self.call(link, counters, deadline, "getSlot", params)?;
        let slot = response::result(&body).map_err(|why| self.unreachable(why))?;
        Ok((genesis, slot.map_err(|err| self.refusal_error(err))?))
    }

    fn call_text(
        &self,
        link: &mut Link,
        counters: &Counters,
        deadline: Instant,
        method: &str,
        params: &str,
    ) -> Result<String, FetchError> {
        let body = self.call(link, counters, deadline, method, params)?;
        let text = response::result(&body).map_err(|why| self.unreachable(why))?;
        text.map_err(|err| self.refusal_error(err))
    }

    fn call(
        &self,
        link: &mut Link,
        counters: &Counters,
        deadline: Instant,
        method: &str,
        params: &str,
    ) -> Result<Vec<u8>, FetchError> {
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        // No client waits for it.
        let charge = || ();
        self.try_call(link, counters, deadline, &request, Ok, &charge)
            .map_err(|failure| self.failure_error(failure))
    }

    /// Returns the accounts of `addresses`, each with its slot. Calls `charge` before each request to the upstream.
    pub(crate) fn accounts(
        &self,
        link: &mut Link,
        counters: &Counters,
        deadline: Instant,
        addresses: &[Pubkey],
        charge: &dyn Fn(),
    ) -> Result<Vec<CachedAccount>, FetchError> {
        let mut calls: Vec<&[Pubkey]> = addresses.chunks(ADDRESSES_PER_CALL).rev().collect();
        let mut found = Vec::new();
        while let Some(addresses) = calls.pop() {
            let request = self.accounts_request(addresses);
            let read = |body: Vec<u8>| match response::accounts(&body, addresses) {
                Ok(Ok(accounts)) => Ok(accounts),
                Ok(Err(err)) if BUSY_CODES.contains(&err.code) => Err(Failure::Busy(err.message)),
                Ok(Err(err)) => Err(Failure::Final(self.refusal_error(err))),
                Err(why) => Err(Failure::Final(self.unreachable(why))),
            };
            match self.try_call(link, counters, deadline, &request, read, charge) {
                Ok(AccountsAt { slot, accounts }) => {
                    self.check_slot(slot, addresses)?;
                    let with_slot = |(pubkey, account): (&Pubkey, _)| CachedAccount {
                        pubkey: *pubkey,
                        slot,
                        account,
                    };
                    found.extend(addresses.iter().zip(accounts).map(with_slot));
                }
                Err(Failure::TooLong) if addresses.len() > 1 => {
                    let (first, second) = addresses.split_at(addresses.len() / 2);
                    calls.extend([second, first]);
                }
                Err(failure) => return Err(self.failure_error(failure)),
            }
        }
        Ok(found)
    }

    fn accounts_request(&self, addresses: &[Pubkey]) -> String {
        let texts: Vec<String> = addresses.iter().map(Pubkey::to_string).collect();
        let min_slot = self.min_slot.load(Ordering::Relaxed);
        let config = json!({
            "encoding": "base64",
            "commitment": "finalized",
            "minContextSlot": min_slot,
        });
        let params = json!([texts, config]);
        json!({ "jsonrpc": "2.0", "id": 1, "method": "getMultipleAccounts", "params": params })
            .to_string()
    }

    fn check_slot(&self, slot: u64, addresses: &[Pubkey]) -> Result<(), FetchError> {
        let min_slot = self.min_slot.load(Ordering::Relaxed);
        if slot < min_slot {
            return Err(self.unreachable(format!("as of slot {slot}, which is before {min_slot}")));
        }
        match (self.pin, addresses.first()) {
            (Some(pin), Some(pubkey)) if slot > pin => {
                Err(FetchError::Newer { upstream: self.name.clone(), pubkey: *pubkey, slot, pin })
            }
            _ => Ok(()),
        }
    }

    /// A call, tried again as long as that may help.
    fn try_call<T>(
        &self,
        link: &mut Link,
        counters: &Counters,
        deadline: Instant,
        request: &str,
        read: impl Fn(Vec<u8>) -> Result<T, Failure>,
        charge: &dyn Fn(),
    ) -> Result<T, Failure> {
        let mut pause = PAUSE_MIN;
        let mut broken = 0;
        loop {
            let result = self.exchange(link, deadline, request, charge).and_then(&read);
            counters.count_call(match &result {
                Ok(_) => CallEnd::Answered,
                Err(Failure::Busy(_)) => CallEnd::Limited,
                Err(Failure::Broken(_)) => CallEnd::Broken,
                Err(Failure::Late(_)) => CallEnd::Late,
                Err(Failure::TooLong) => CallEnd::TooLong,
                Err(Failure::Final(_)) => CallEnd::Refused,
            });
            let why = match result {
                Err(Failure::Busy(why)) => why,
                Err(Failure::Broken(why)) if broken < BROKEN_MAX => {
                    broken += 1;
                    why
                }
                result => return result,
            };
            if now() + pause >= deadline {
                return Err(Failure::Late(why));
            }
            link.runtime.block_on(async { tokio::time::sleep(pause).await });
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }

    /// Sends one request and reads its response, over the open connection or a new one.
    fn exchange(
        &self,
        link: &mut Link,
        deadline: Instant,
        request: &str,
        charge: &dyn Fn(),
    ) -> Result<Vec<u8>, Failure> {
        let Link { runtime, connection } = link;
        let timeout = tokio::time::Instant::from_std(deadline);
        // It stays only if the exchange succeeds.
        let opened = connection.take().filter(|(_, connection)| connection.is_usable());
        if opened.is_none() && now() >= deadline {
            return Err(Failure::Late("nothing".to_owned()));
        }
        let exchanged = async {
            let (endpoint, mut connection) = match opened {
                Some(opened) => opened,
                None => self.connect(charge).await?,
            };
            charge();
            let body = exchange(&mut connection, &endpoint.body(request)).await?;
            Ok::<_, Failure>((body, endpoint, connection))
        };
        // A timer is made within the runtime.
        let exchanged =
            runtime.block_on(async { tokio::time::timeout_at(timeout, exchanged).await });
        let late = |_| Failure::Late("no response".to_owned());
        let (body, endpoint, opened) = exchanged.map_err(late)??;
        *connection = Some((endpoint, opened));
        Ok(body)
    }

    /// A new connection to the same cluster.
    async fn connect(&self, charge: &dyn Fn()) -> Result<(Endpoint, Connection), Failure> {
        let broken = |err: HttpClientError| Failure::Broken(describe_error(&err));
        let url = self.url.clone();
        // It resolves the name, which may block.
        let endpoint = tokio::task::spawn_blocking(move || Endpoint::parse(&url)).await;
        let endpoint = endpoint.map_err(|_| Failure::Final(FetchError::Closed))?;
        let endpoint = endpoint.map_err(|err| match err {
            // The error that this becomes names the server.
            HttpClientError::Url { why, .. } => Failure::Broken(why),
            err => broken(err),
        })?;
        let opened = Connection::open_with_body_limit(endpoint.clone(), RESPONSE_BYTES_MAX).await;
        let mut connection = opened.map_err(broken)?;
        let expected = *self.genesis.read();
        let Some(expected) = expected else { return Ok((endpoint, connection)) };
        let request = endpoint.call("getGenesisHash", &json!([]));
        charge();
        let body = exchange(&mut connection, &request).await?;
        let unreachable = |why| Failure::Final(self.unreachable(why));
        let found: String = match response::result(&body).map_err(unreachable)? {
            Ok(found) => found,
            Err(err) if BUSY_CODES.contains(&err.code) => return Err(Failure::Busy(err.message)),
            Err(err) => return Err(Failure::Final(self.refusal_error(err))),
        };
        if found != expected.to_string() {
            let why =
                format!("it is another cluster now: genesis hash {found:.44} and not {expected}");
            return Err(unreachable(why));
        }
        Ok((endpoint, connection))
    }

    fn failure_error(&self, failure: Failure) -> FetchError {
        match failure {
            Failure::Final(err) => err,
            Failure::Broken(why) => self.unreachable(why),
            Failure::TooLong => {
                self.unreachable(format!("a response of more than {RESPONSE_BYTES_MAX} bytes"))
            }
            Failure::Busy(why) | Failure::Late(why) => {
                let upstream = self.name.clone();
                let timeout_ms = self.timeout_ms;
                FetchError::TimedOut { upstream, timeout_ms, why: shorten_message(&why) }
            }
        }
    }

    fn unreachable(&self, why: String) -> FetchError {
        FetchError::Unreachable { upstream: self.name.clone(), why: shorten_message(&why) }
    }

    fn refusal_error(&self, CallError { code, message }: CallError) -> FetchError {
        FetchError::Refused {
            upstream: self.name.clone(),
            code,
            message: shorten_message(&message),
        }
    }
}

/// Sends a request, and reads a response of bounded length.
async fn exchange(connection: &mut Connection, request: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    let mut is_too_long = false;
    let too_long = std::cell::Cell::new(false);
    let started = |bytes: Option<u64>| {
        too_long.set(bytes.is_some_and(|bytes| bytes > RESPONSE_BYTES_MAX as u64));
    };
    let sink = |chunk: &[u8]| {
        is_too_long = too_long.get() || body.len() + chunk.len() > RESPONSE_BYTES_MAX;
        if is_too_long {
            return Err(io::Error::other("the response is too long"));
        }
        body.extend_from_slice(chunk);
        Ok(())
    };
    match connection.exchange_into(request, started, sink).await {
        Ok((200, _)) => Ok(body),
        Ok((status @ (429 | 502 | 503 | 504), _)) => Err(Failure::Busy(format!("HTTP {status}"))),
        Ok((status, Some(_))) => {
            Err(Failure::Broken(format!("HTTP {status}: a redirect is not followed")))
        }
        Ok((status, None)) => Err(Failure::Broken(format!("HTTP {status}"))),
        Err(HttpClientError::Sink(_)) if is_too_long => Err(Failure::TooLong),
        Err(err) => Err(Failure::Broken(describe_error(&err))),
    }
}

#[expect(clippy::disallowed_methods, reason = "deadlines of the network are here")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Write;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use http_client::testing::{respond, serve};

    use super::*;

    #[test]
    fn every_request_at_the_upstream_is_charged() {
        let genesis = Hash::new_from_array([9; 32]);
        let addresses: Vec<_> = (1..=4).map(|n| Pubkey::new_from_array([n; 32])).collect();
        let texts: Vec<_> = addresses.iter().map(Pubkey::to_string).collect();
        let requests = Arc::new(AtomicUsize::new(0));
        let received = Arc::clone(&requests);
        let address = serve(move |request, socket| {
            let request = String::from_utf8_lossy(request).into_owned();
            let number = received.fetch_add(1, Ordering::Relaxed);
            if request.contains("getGenesisHash") {
                return respond(socket, 200, &format!(r#"{{"id":1,"result":"{genesis}"}}"#));
            }
            if number == 1 {
                return respond(socket, 429, "");
            }
            // Only a call for one account has a response that is short enough.
            if texts.iter().filter(|text| request.contains(text.as_str())).count() > 1 {
                let length = RESPONSE_BYTES_MAX + 1;
                let head = format!("HTTP/1.1 200 X\r\nContent-Length: {length}\r\n\r\n");
                let _ = socket.write_all(head.as_bytes());
                return false;
            }
            let result = r#"{"context":{"slot":5},"value":[null]}"#;
            respond(socket, 200, &format!(r#"{{"id":1,"result":{result}}}"#))
        });
        let upstream = Upstream::new(&format!("http://{address}"), None, 60_000);
        upstream.set_genesis(genesis);
        let mut link = Link::new().expect("a runtime");
        let charged = Cell::new(0);
        let charge = || charged.set(charged.get() + 1);
        let deadline = now() + Duration::from_secs(60);
        let found =
            upstream.accounts(&mut link, &Counters::default(), deadline, &addresses, &charge);
        assert_eq!(found.expect("accounts").len(), addresses.len());
        // 4 accounts twice, 2, 1, 1, 2, 1 and 1, and the genesis hash for each new connection.
        let received = requests.load(Ordering::Relaxed);
        assert!(received > 8, "{received}");
        assert_eq!(charged.get(), received);
    }
}
