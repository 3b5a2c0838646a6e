//! Suites for the routes of a REST API such as Hydrant's, with parameters from the endpoint's own
//! data.
//!
//! Shape: [`RestSuite::ALL`] has a line for each read-only route and verb. Posting transactions
//! needs a new one each time, so a caller with keys must do that. A conditional request
//! (`If-None-Match`) has a suite of its own, and only 304 is ok for it. Requests go to the
//! endpoint's host, whatever path its URL has.
//! Bounds: those of the discovered [`Inputs`].

use http_client::{Client, Endpoint, HttpResponse};
use loadgen::{Classifier, Verdict, not_modified, status_ok};
use serde_json::json;

use crate::addresses::TOKEN_PROGRAM;
use crate::{InputKinds, Inputs, SuiteError};

/// Accounts in one request for several accounts, and in the longest one that every node accepts.
const MULTIPLE_ACCOUNTS: usize = 10;
const MULTIPLE_ACCOUNTS_MAX: usize = 100;

/// Entries of a page.
const PAGE_LIMIT: usize = 100;

/// Requests of a suite that a client with the responses repeats: each is sent once before, for its `ETag`.
const REVALIDATED_MAX: usize = 16;

/// A route that is measured.
#[derive(Clone, Copy, Debug)]
pub struct RestSuite {
    /// Name on the command line.
    pub name: &'static str,
    /// Verb and route, as in the docs.
    pub route: &'static str,
    /// Whether it needs transactions.
    pub needs_history: bool,
    required_inputs: InputKinds,
    /// Whether its requests send the `ETag` of the response.
    sends_if_none_match: bool,
    make: fn(&Endpoint, &Inputs) -> Vec<Vec<u8>>,
}

/// A route that every node has: one request.
const fn node(
    name: &'static str,
    route: &'static str,
    make: fn(&Endpoint, &Inputs) -> Vec<Vec<u8>>,
) -> RestSuite {
    RestSuite {
        name,
        route,
        needs_history: false,
        required_inputs: InputKinds::NONE,
        sends_if_none_match: false,
        make,
    }
}

const fn state(
    name: &'static str,
    route: &'static str,
    make: fn(&Endpoint, &Inputs) -> Vec<Vec<u8>>,
) -> RestSuite {
    let needs = InputKinds { accounts: true, ..InputKinds::NONE };
    RestSuite { required_inputs: needs, ..node(name, route, make) }
}

const fn history(
    name: &'static str,
    route: &'static str,
    make: fn(&Endpoint, &Inputs) -> Vec<Vec<u8>>,
) -> RestSuite {
    let needs = InputKinds { blocks: true, ..InputKinds::NONE };
    RestSuite { needs_history: true, required_inputs: needs, ..node(name, route, make) }
}

/// Returns the suite with other required inputs.
const fn with_inputs(needs: InputKinds, suite: RestSuite) -> RestSuite {
    RestSuite { required_inputs: needs, ..suite }
}

/// Returns the requests of a client that has the responses already.
const fn revalidating(name: &'static str, suite: RestSuite) -> RestSuite {
    RestSuite { name, sends_if_none_match: true, ..suite }
}

fn get(endpoint: &Endpoint, path: &str) -> Vec<u8> {
    endpoint.request("GET", path, None)
}

/// A GET request for each item of a list.
fn each<T: std::fmt::Display>(
    endpoint: &Endpoint,
    list: &[T],
    path: impl Fn(&T) -> String,
) -> Vec<Vec<u8>> {
    list.iter().map(|it| get(endpoint, &path(it))).collect()
}

const ACCOUNT_ONE: RestSuite =
    state("rest-account-one", "GET /v1/accounts/{address} of one", |to, found| {
        let one = found.accounts.iter().take(1);
        one.map(|address| get(to, &account(address))).collect()
    });

const HOLDERS_ONE: RestSuite =
    state("rest-mint-holders-one", "GET /v1/mints/{address}/holders of one", |to, found| {
        let one = found.mints.iter().take(1);
        one.map(|mint| get(to, &holders(mint))).collect()
    });

const ACCOUNT_TRANSACTIONS: RestSuite = with_inputs(
    InputKinds { accounts: true, ..InputKinds::NONE },
    history("rest-account-transactions", "GET /v1/accounts/{address}/transactions", |to, found| {
        let list = &found.accounts[..];
        each(to, list, |it| format!("/v1/accounts/{it}/transactions?limit={PAGE_LIMIT}"))
    }),
);

const SIMULATE: RestSuite = with_inputs(
    InputKinds { transactions: true, ..InputKinds::NONE },
    history("rest-simulate", "POST /v1/transactions/simulate", |to, found| {
        let path = "/v1/transactions/simulate?replaceRecentBlockhash=true";
        let bodies = found.transactions.iter().map(|it| json!({ "transaction": it }));
        bodies.map(|body| to.post(path, &body.to_string())).collect()
    }),
);

/// Requests for `each` accounts at a time.
fn get_accounts(endpoint: &Endpoint, accounts: &[String], each: usize) -> Vec<Vec<u8>> {
    let path = |list: &[String]| format!("/v1/accounts?addresses={}", list.join(","));
    accounts.chunks(each).map(|list| get(endpoint, &path(list))).collect()
}

/// Requests for `each` accounts at a time, with the addresses in the body.
fn post_accounts(endpoint: &Endpoint, accounts: &[String], each: usize) -> Vec<Vec<u8>> {
    let body = |list: &[String]| json!({ "addresses": list }).to_string();
    accounts.chunks(each).map(|list| endpoint.post("/v1/accounts", &body(list))).collect()
}

fn account(address: &String) -> String {
    format!("/v1/accounts/{address}")
}

fn holders(mint: &String) -> String {
    format!("/v1/mints/{mint}/holders?limit={PAGE_LIMIT}")
}

impl RestSuite {
    /// All of them.
    pub const ALL: &[Self] = &[
        node("rest-node", "GET /v1/node", |to, _| vec![get(to, "/v1/node")]),
        node("rest-ledger", "GET /v1/ledger", |to, _| vec![get(to, "/v1/ledger")]),
        node("rest-supply", "GET /v1/supply", |to, _| vec![get(to, "/v1/supply")]),
        state("rest-account", "GET /v1/accounts/{address}", |to, found| {
            each(to, &found.accounts, account)
        }),
        state("rest-account-raw", "GET /v1/accounts/{address} as bytes", |to, found| {
            let raw = [("Accept", "application/octet-stream")];
            let requests = found.accounts.iter().map(account);
            requests.map(|path| to.request_with("GET", &path, &raw, None)).collect()
        }),
        state("rest-accounts", "GET /v1/accounts", |to, found| {
            get_accounts(to, &found.accounts, MULTIPLE_ACCOUNTS)
        }),
        state("rest-accounts-post", "POST /v1/accounts", |to, found| {
            post_accounts(to, &found.accounts, MULTIPLE_ACCOUNTS)
        }),
        state("rest-accounts-100", "GET /v1/accounts of 100", |to, found| {
            get_accounts(to, &found.accounts, MULTIPLE_ACCOUNTS_MAX)
        }),
        state("rest-accounts-post-100", "POST /v1/accounts of 100", |to, found| {
            post_accounts(to, &found.accounts, MULTIPLE_ACCOUNTS_MAX)
        }),
        state("rest-owner-tokens", "GET /v1/owners/{address}/tokens", |to, found| {
            each(to, &found.owners, |owner| format!("/v1/owners/{owner}/tokens?limit={PAGE_LIMIT}"))
        }),
        state("rest-mint-holders", "GET /v1/mints/{address}/holders", |to, found| {
            each(to, &found.mints, holders)
        }),
        state("rest-mint-supply", "GET /v1/mints/{address}/supply", |to, found| {
            each(to, &found.mints, |mint| format!("/v1/mints/{mint}/supply"))
        }),
        state("rest-program-accounts", "GET /v1/programs/{address}/accounts", |to, found| {
            each(to, &found.owners, |owner| {
                format!(
                    "/v1/programs/{TOKEN_PROGRAM}/accounts?dataSize=165&memcmpOffset=32\
                     &memcmpBytes={owner}&limit={PAGE_LIMIT}"
                )
            })
        }),
        state("rest-program-accounts-post", "POST /v1/programs/{address}/accounts", |to, found| {
            let path = format!("/v1/programs/{TOKEN_PROGRAM}/accounts?limit={PAGE_LIMIT}");
            let body = |owner: &String| {
                let memcmp = json!({ "memcmp": { "offset": 32, "bytes": owner } });
                json!({ "filters": [{ "dataSize": 165 }, memcmp] }).to_string()
            };
            found.owners.iter().map(|owner| to.post(&path, &body(owner))).collect()
        }),
        ACCOUNT_TRANSACTIONS,
        history("rest-transaction", "GET /v1/transactions/{signature}", |to, found| {
            each(to, &found.signatures, |it| format!("/v1/transactions/{it}?commitment=confirmed"))
        }),
        history("rest-transaction-status", "GET /v1/transactions/{signature}/status", {
            |to, found| each(to, &found.signatures, |it| format!("/v1/transactions/{it}/status"))
        }),
        SIMULATE,
        history("rest-block", "GET /v1/blocks/{slot}", |to, found| {
            each(to, &found.blocks, |slot| format!("/v1/blocks/{slot}?commitment=confirmed"))
        }),
        node("rest-openapi", "GET /v1/openapi.json", |to, _| vec![get(to, "/v1/openapi.json")]),
        node("rest-ready", "GET /ready", |to, _| vec![get(to, "/ready")]),
        node("rest-metrics", "GET /metrics", |to, _| vec![get(to, "/metrics")]),
        ACCOUNT_ONE,
        revalidating("rest-account-unchanged", ACCOUNT_ONE),
        HOLDERS_ONE,
        revalidating("rest-mint-holders-unchanged", HOLDERS_ONE),
    ];

    /// The suite with a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|suite| suite.name == name).copied()
    }

    /// The first requests of the suite, from a client that has the responses. `None` if they have no `ETag`, or are
    /// computed once for all clients: the 200 of the description costs no more than HTTP itself.
    pub fn into_revalidation(self) -> Option<Self> {
        let has_etag = self.route.starts_with("GET /v1/") && !self.sends_if_none_match;
        (has_etag && self.name != "rest-openapi")
            .then_some(Self { sends_if_none_match: true, ..self })
    }

    /// Data that must be discovered for it.
    pub fn required_inputs(self) -> InputKinds {
        self.required_inputs
    }

    /// Classifies its responses.
    pub fn classifier(self) -> Classifier {
        if self.sends_if_none_match { not_modified } else { status_ok }
    }

    /// Makes the requests of the suite. The first is sent, and its response must be ok.
    ///
    /// Errors: [`SuiteError::NoInput`] if the endpoint has no data for it, or no such route.
    pub fn requests(self, client: &mut Client, found: &Inputs) -> Result<Vec<Vec<u8>>, SuiteError> {
        let no_input = |why: String| SuiteError::NoInput { suite: self.name, why };
        let mut requests = (self.make)(client.endpoint(), found);
        if self.sends_if_none_match {
            requests.truncate(REVALIDATED_MAX);
            for request in &mut requests {
                let response = client.exchange(request)?;
                let tag = response.header("etag");
                let tag = tag.ok_or_else(|| no_input(format!("{} has no ETag", self.route)))?;
                add_if_none_match(request, tag);
            }
        }
        let first = requests
            .first()
            .ok_or_else(|| no_input(format!("the endpoint has no data for {}", self.route)))?;
        let HttpResponse { status, body, .. } = client.exchange(first)?;
        if self.classifier()(status, body) != Verdict::Ok {
            let body: String = String::from_utf8_lossy(body).chars().take(200).collect();
            return Err(no_input(format!("{} is answered with {status} {body}", self.route)));
        }
        Ok(requests)
    }
}

/// Adds `If-None-Match` to a request without a body.
fn add_if_none_match(request: &mut Vec<u8>, tag: &str) {
    // The empty line at the end of the head.
    request.truncate(request.len() - 2);
    request.extend_from_slice(format!("If-None-Match: {tag}\r\n\r\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use http_client::testing::{respond, serve};

    use super::*;

    fn inputs() -> Inputs {
        let one = || vec!["A".to_owned()];
        Inputs {
            accounts: (0..25).map(|n| n.to_string()).collect(),
            owners: one(),
            mints: one(),
            signatures: one(),
            transactions: vec!["AQ==".to_owned()],
            blocks: vec![7],
            ..Inputs::default()
        }
    }

    #[test]
    fn every_suite_requests_its_route() {
        let endpoint = Endpoint::from(std::net::SocketAddr::from(([127, 0, 0, 1], 1)));
        let mut names = HashSet::new();
        for suite in RestSuite::ALL {
            assert!(names.insert(suite.name), "{} is listed twice", suite.name);
            assert_eq!(RestSuite::parse(suite.name).map(|it| it.name), Some(suite.name));
            let requests = (suite.make)(&endpoint, &inputs());
            let text = String::from_utf8_lossy(&requests[0]);
            let (verb, path) = suite.route.split_once(' ').expect("verb and path");
            let begin = path.split(['{', ' ']).next().expect("there is a first");
            assert!(text.starts_with(&format!("{verb} {begin}")), "{}: {text}", suite.name);
        }
        for suite in RestSuite::ALL {
            // A suite without required inputs has requests without data; the others have none.
            let has_requests = !(suite.make)(&endpoint, &Inputs::default()).is_empty();
            assert_eq!(has_requests, suite.required_inputs == InputKinds::NONE, "{}", suite.name);
        }
        let requests = (RestSuite::ALL[5].make)(&endpoint, &inputs());
        assert_eq!(requests.len(), 3, "25 accounts by ten");
    }

    #[test]
    fn a_client_with_the_response_sends_its_etag_and_expects_304() {
        let address = serve(|request, socket| {
            let request = String::from_utf8_lossy(request);
            let answer = if request.ends_with("If-None-Match: \"t\"\r\n\r\n") {
                "HTTP/1.1 304 X\r\n\r\n"
            } else if request.contains("/v1/mints") {
                "HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n"
            } else {
                "HTTP/1.1 200 X\r\nETag: \"t\"\r\nContent-Length: 2\r\n\r\n{}"
            };
            std::io::Write::write_all(socket, answer.as_bytes()).is_ok()
        });
        let mut client = Client::open(address).expect("it listens");
        let suite = RestSuite::parse("rest-account-unchanged").expect("it is one");
        let requests = suite.requests(&mut client, &inputs()).expect("it is answered with 304");
        assert_eq!(requests.len(), 1);
        assert_eq!(suite.classifier()(200, b"{}"), Verdict::Error);
        assert!(suite.into_revalidation().is_none(), "it does that already");
        let every = RestSuite::parse("rest-account").and_then(RestSuite::into_revalidation);
        let every = every.expect("accounts have an ETag");
        let requests = every.requests(&mut client, &inputs()).expect("each is answered with 304");
        assert_eq!(requests.len(), REVALIDATED_MAX);
        let posted = RestSuite::parse("rest-accounts-post").expect("it is one");
        assert!(posted.into_revalidation().is_none());
        let suite = RestSuite::parse("rest-mint-holders-unchanged").expect("it is one");
        let err = suite.requests(&mut client, &inputs()).expect_err("no tag").to_string();
        assert!(err.contains("has no ETag"), "{err}");
    }

    #[test]
    fn a_route_that_is_not_there_has_no_input() {
        let address = serve(|_, socket| respond(socket, 404, "no such route"));
        // The server above is there.
        let mut client = Client::open(address).expect("a client");
        let suite = RestSuite::parse("rest-node").expect("it is one");
        let err = suite.requests(&mut client, &inputs()).expect_err("404");
        assert!(err.to_string().contains("404 no such route"), "{err}");
        let suite = RestSuite::parse("rest-block").expect("it is one");
        let err = suite.requests(&mut client, &Inputs::default()).expect_err("no block");
        assert!(err.to_string().contains("no data for GET /v1/blocks"), "{err}");
    }
}
