//! The ladder: the cost of a constant response and of each step above it, for a small response and for 1 MB.
//!
//! Steps: constant; computed, of records from all over the ledger; with the read cached; with the encoded response
//! cached. The state is in memory, so a cache of reads can save only the wait for memory and the search for the ids.
//! That is measured by repeating the same request (`one`), which is then in the core's caches, and by one of many
//! (`any`). A record is unpacked in both.
//! Not here: rounds and ratios (`rounds`); getAccountInfo from the cache: it is never cached, because computing it
//! takes less time than a lookup.

use std::net::SocketAddr;

use ::loadgen::{Stream, status_ok};
use anyhow::Result;
use http_client::Endpoint;

use super::rounds::{Case, Rounds};
use super::server::Server;
use super::size::Size;
use super::targets::Targets;
use crate::ledger_process::protocol::Serving;
use crate::threshold;

/// Connections of cheap requests, and of large ones.
const CONNECTIONS: usize = 32;
const CONNECTIONS_LARGE: usize = 8;

/// "At least 0.7 of the constant response's rate", for cheap methods and for 1 MB alike.
const RATIO_OF_CONSTANT_MIN: f64 = 0.7;

/// Bytes of a response with one token account, without headers.
const SMALL_BYTES: usize = 450;

const LARGE_CACHED: &str = "1 MB cached";

pub(crate) fn run(server: &Server, serving: Serving, targets: &Targets, size: &Size) -> Result<()> {
    let cases = cases(serving, targets);
    let rounds = Rounds::measure(&cases, server.process(), size, size.runs)?;
    println!("\nladder: closed loop, {CONNECTIONS} connections, {CONNECTIONS_LARGE} for 1 MB");
    rounds.print();
    for (nth, case) in cases.iter().enumerate().filter(|(nth, case)| *nth != case.constant) {
        let name = &case.stream.name;
        let ratio = rounds.rate_ratio(nth);
        println!("{name} of the constant's rate: {ratio:.3}");
        if name == LARGE_CACHED || targets.cheap.iter().any(|(method, _)| method == name) {
            let name = format!("load_{}_of_constant", name.replace(' ', "_"));
            threshold::at_least(&name, ratio, "x", RATIO_OF_CONSTANT_MIN);
        }
    }
    Ok(())
}

pub(crate) fn cases(serving: Serving, targets: &Targets) -> Vec<Case> {
    let Serving { rpc, uncached, constant } = serving;
    let megabyte = targets.megabyte();
    let health = Endpoint::from(rpc).post("/health", BODY);
    let fixed = |bytes: usize| Endpoint::from(constant).post(&format!("/{bytes}"), BODY);
    let mut cases = vec![
        as_constant(small(rpc, "constant", vec![health])),
        as_constant(large(constant, "constant 1 MB", vec![fixed(megabyte.bytes)])),
        as_constant(small(constant, "constant 450 B", vec![fixed(SMALL_BYTES)])),
    ];
    for (method, _) in &targets.cheap {
        cases.push(small(rpc, method, targets.requests(rpc, method)));
    }
    let infos = calls(rpc, "getAccountInfo", &targets.accounts);
    let lists = calls(uncached, "getProgramAccounts", &targets.lists);
    let cached = calls(rpc, "getProgramAccounts", &targets.lists);
    let megabytes = targets.megabytes.iter().map(|call| call.request(uncached));
    cases.extend([
        small(rpc, "getAccountInfo any", infos.clone()),
        small(rpc, "getAccountInfo one", infos[..1].to_vec()),
        small(uncached, "list of 1 computed any", lists.clone()),
        small(uncached, "list of 1 computed one", lists[..1].to_vec()),
        small(rpc, "list of 1 cached", cached),
        large(uncached, "1 MB computed any", megabytes.collect()),
        large(uncached, "1 MB computed one", vec![megabyte.request(uncached)]),
        large(rpc, LARGE_CACHED, vec![megabyte.request(rpc)]),
    ]);
    cases
}

fn calls(address: SocketAddr, method: &str, params: &[serde_json::Value]) -> Vec<Vec<u8>> {
    params.iter().map(|params| Endpoint::from(address).call(method, params)).collect()
}

/// A body with as many bytes as a cheap request.
const BODY: &str =
    r#"{"id":1,"jsonrpc":"2.0","method":"getSlot","params":[{"commitment":"processed"}]}"#;

fn small(address: SocketAddr, name: &str, requests: Vec<Vec<u8>>) -> Case {
    Case { address, stream: Stream::closed_loop(name, requests, CONNECTIONS), constant: 0 }
}

fn large(address: SocketAddr, name: &str, requests: Vec<Vec<u8>>) -> Case {
    Case { address, stream: Stream::closed_loop(name, requests, CONNECTIONS_LARGE), constant: 1 }
}

fn as_constant(case: Case) -> Case {
    Case { stream: Stream { classifier: status_ok, ..case.stream }, ..case }
}
