//! The layers of the workspace: the one table of allowed imports.
//!
//! Invariant: a crate imports only from layers below its own. ARCHITECTURE.md describes each layer;
//! `docs` checks that both list the same crates on the same layers.

use crate::workspace::Crate;

/// Layer by layer, the lowest first. A new crate is added here and in ARCHITECTURE.md.
pub(crate) const LAYERS: &[&[&str]] = &[
    &["ledger"],
    &["address", "state", "index", "metrics", "lattice", "api_keys"],
    &["subscriptions", "pool", "cache", "process_usage", "store"],
    &["query", "solana", "authentication"],
    &["chain_solana", "snapshot_solana", "verify", "feed"],
    &["svm", "snapshot_ledger", "ledger_store", "stakes_solana", "tpu", "http_server", "loadgen"],
    &["localnet", "follow", "upstream_fork", "response_cache", "loadgen_solana"],
    &["jsonrpc"],
    &["rpc_solana", "grpc", "rest", "snapshot_server"],
    &["rest_solana", "web_console"],
    &["hydrant", "benchmarks", "testkit", "xtask", "fuzz"],
];

/// The first layer that may wait, open sockets and start tasks.
const FIRST_ASYNC_LAYER: usize = 5;

/// Packages that only layers from [`FIRST_ASYNC_LAYER`] up may import.
const ASYNC_PACKAGES: &[&str] =
    &["tokio", "hyper", "hyper-util", "futures-util", "tokio-tungstenite"];

/// The last layer that knows no chain.
pub(crate) const LAST_NEUTRAL_LAYER: usize = 2;

/// Crates above it that know no chain either: they serve, or load, any ledger.
const NEUTRAL_CRATES: &[&str] =
    &["authentication", "http_server", "response_cache", "jsonrpc", "rest", "loadgen"];

/// Packages of one chain, by the prefix of their names.
const CHAIN_PACKAGES: &[&str] = &["solana", "spl-", "agave-", "litesvm"];

/// Imports that the layers would allow and the design forbids: servers see state and indices only through `query`, and
/// the ledger that makes blocks only through `chain_solana`.
const FORBIDDEN_IMPORTS: &[(&str, &[&str])] = &[
    ("http_server", &["state", "index"]),
    ("response_cache", &["state", "index"]),
    ("jsonrpc", &["state", "index", "localnet", "svm"]),
    ("rpc_solana", &["state", "index", "localnet", "svm"]),
    ("grpc", &["state", "index", "localnet", "svm"]),
    ("rest", &["state", "index", "localnet", "svm"]),
    ("rest_solana", &["state", "index", "localnet", "svm"]),
    ("web_console", &["state", "index", "localnet", "svm"]),
];

/// The crate that tests of any layer may use, and the other tools of the top layer too.
const TEST_HELPER: &str = "testkit";

/// The layer of a crate, if it has one.
pub(crate) fn layer_of(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

/// Breaches of the layers.
pub(crate) fn check(crates: &[Crate]) -> Vec<String> {
    let mut complaints = Vec::new();
    for krate in crates {
        let Some(layer) = layer_of(&krate.name) else {
            complaints.push(format!(
                "{}: has no layer; add it to xtask/src/tidy/layers.rs and ARCHITECTURE.md",
                krate.name
            ));
            continue;
        };
        check_crate(krate, layer, &mut complaints);
    }
    for name in LAYERS.iter().copied().flatten() {
        if !crates.iter().any(|krate| krate.name == *name) {
            complaints.push(format!("{name}: has a layer but does not exist"));
        }
    }
    complaints
}

fn check_crate(krate: &Crate, layer: usize, complaints: &mut Vec<String>) {
    let name = &krate.name;
    let is_tool = layer == LAYERS.len() - 1;
    for dependency in &krate.dependencies {
        let imported = dependency.name.as_str();
        if !dependency.is_dev && layer < FIRST_ASYNC_LAYER && ASYNC_PACKAGES.contains(&imported) {
            complaints.push(format!(
                "{name} (L{layer}): async ({imported}) is for L{FIRST_ASYNC_LAYER} and up"
            ));
        }
        let is_of_a_chain = CHAIN_PACKAGES.iter().any(|prefix| imported.starts_with(prefix))
            || imported.ends_with("_solana");
        let is_neutral = NEUTRAL_CRATES.contains(&name.as_str());
        if is_of_a_chain && layer <= LAST_NEUTRAL_LAYER {
            complaints.push(format!(
                "{name} (L{layer}): knows a chain ({imported}); that is for L{} and up",
                LAST_NEUTRAL_LAYER + 1
            ));
        } else if is_of_a_chain && is_neutral {
            complaints.push(format!("{name}: knows a chain ({imported}), and serves any ledger"));
        }
        if FORBIDDEN_IMPORTS
            .iter()
            .any(|(importer, forbidden)| importer == name && forbidden.contains(&imported))
        {
            complaints.push(format!("{name}: must not import {imported}; see FORBIDDEN_IMPORTS"));
        }
        let Some(below) = layer_of(imported) else { continue };
        let is_help = imported == TEST_HELPER && (dependency.is_dev || is_tool);
        if below >= layer && !is_help {
            complaints.push(format!(
                "{name} (L{layer}): imports {imported} (L{below}), which is not below it"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn all_crates() -> Vec<Crate> {
        LAYERS.iter().copied().flatten().map(|name| krate(name, &[])).collect()
    }

    fn krate(name: &str, dependencies: &[&str]) -> Crate {
        let dependencies = dependencies
            .iter()
            .map(|text| {
                let name = text.trim_start_matches("dev:").to_owned();
                let extern_name = name.replace('-', "_");
                Dependency { name, extern_name, is_dev: text.starts_with("dev:") }
            })
            .collect();
        Crate { name: name.to_owned(), dir: format!("crates/{name}").into(), dependencies }
    }

    /// The complaints about a workspace in which one crate has these dependencies.
    fn check_with(name: &str, dependencies: &[&str]) -> Vec<String> {
        let mut crates = all_crates();
        crates.retain(|krate| krate.name != name);
        crates.push(krate(name, dependencies));
        check(&crates)
    }

    #[test]
    fn an_import_from_below_is_fine() {
        assert_eq!(check_with("query", &["ledger", "state", "index", "arc-swap"]), [""; 0]);
    }

    #[test]
    fn an_import_from_above_is_caught() {
        assert_eq!(
            check_with("state", &["query"]),
            ["state (L1): imports query (L3), which is not below it"]
        );
    }

    #[test]
    fn an_import_from_the_same_layer_is_caught() {
        assert_eq!(
            check_with("index", &["address"]),
            ["index (L1): imports address (L1), which is not below it"]
        );
    }

    #[test]
    fn tests_may_use_testkit_in_any_layer_and_code_may_not() {
        assert_eq!(check_with("state", &["dev:testkit"]), [""; 0]);
        assert_eq!(check_with("benchmarks", &["testkit"]), [""; 0]);
        assert_eq!(
            check_with("state", &["testkit"]),
            ["state (L1): imports testkit (L10), which is not below it"]
        );
    }

    #[test]
    fn a_crate_without_a_layer_and_a_layer_without_a_crate_are_caught() {
        let mut crates = all_crates();
        crates.retain(|krate| krate.name != "pool");
        crates.push(krate("attic", &[]));
        assert_eq!(
            check(&crates),
            [
                "attic: has no layer; add it to xtask/src/tidy/layers.rs and ARCHITECTURE.md",
                "pool: has a layer but does not exist",
            ]
        );
    }

    #[test]
    fn async_below_its_layer_is_caught() {
        assert_eq!(
            check_with("chain_solana", &["tokio"]),
            ["chain_solana (L4): async (tokio) is for L5 and up"]
        );
        assert_eq!(check_with("rpc_solana", &["tokio"]), [""; 0]);
    }

    #[test]
    fn a_chain_in_a_neutral_layer_is_caught() {
        assert_eq!(
            check_with("subscriptions", &["solana-pubkey"]),
            ["subscriptions (L2): knows a chain (solana-pubkey); that is for L3 and up"]
        );
    }

    #[test]
    fn a_server_that_reads_state_directly_is_caught() {
        let complaint = ["rpc_solana: must not import state; see FORBIDDEN_IMPORTS"];
        assert_eq!(check_with("rpc_solana", &["state"]), complaint);
    }

    #[test]
    fn a_chain_in_the_serving_layer_is_caught() {
        for import in ["solana-pubkey", "chain_solana"] {
            assert_eq!(
                check_with("jsonrpc", &[import]),
                [format!("jsonrpc: knows a chain ({import}), and serves any ledger")]
            );
        }
        assert_eq!(check_with("rpc_solana", &["chain_solana"]), [""; 0]);
    }
}
