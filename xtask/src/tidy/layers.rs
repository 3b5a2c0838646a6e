//! The layers of the workspace: the one table of allowed imports.
//!
//! Invariant: a crate imports only from layers below its own. ARCHITECTURE.md describes each layer;
//! `docs` checks that both list the same crates on the same layers.

use std::collections::BTreeSet;

use crate::workspace::Crate;

/// Layer by layer, the lowest first. A new crate is added here and in ARCHITECTURE.md.
pub(crate) const LAYERS: &[&[&str]] = &[
    &["ledger"],
    &["address", "state", "index", "metrics", "lattice", "muhash", "api_keys", "node_differences"],
    &["subscriptions", "clients", "cache", "process_usage", "input_file", "store"],
    &["cpu_pool", "query", "solana", "kaspa", "agave-precompiles"],
    &["authentication", "chain_solana", "chain_kaspa", "snapshot_solana", "verify", "feed"],
    &[
        "svm",
        "snapshot_ledger",
        "ledger_store",
        "stakes_solana",
        "tpu",
        "http_server",
        "http_client",
        "depot",
    ],
    &[
        "localnet",
        "follow",
        "follow_kaspa",
        "upstream_fork",
        "response_cache",
        "loadgen",
        "replicated_log",
        "websocket",
        "grpc_server",
        "cluster_snapshot",
    ],
    &["jsonrpc", "loadgen_solana", "ingest", "replica"],
    &["rpc_solana", "rpc_kaspa", "grpc", "rest", "snapshot_server"],
    &["rest_solana", "rest_kaspa", "grpc_kaspa", "web_console"],
    &["hydrant", "benchmarks", "testkit", "xtask", "fuzz"],
];

/// The first layer that may wait, open sockets and start tasks.
const FIRST_ASYNC_LAYER: usize = 5;

/// Packages that only layers from [`FIRST_ASYNC_LAYER`] up may import.
const ASYNC_PACKAGES: &[&str] =
    &["tokio", "hyper", "hyper-util", "futures-util", "tokio-tungstenite"];

/// The last layer that knows no chain.
pub(crate) const LAST_NEUTRAL_LAYER: usize = 2;

/// The crates of each chain. All others serve, store or load any ledger, except the programs of the top layer.
const CHAIN_CRATES: &[(&str, &[&str])] = &[
    ("Kaspa", &["chain_kaspa", "follow_kaspa", "grpc_kaspa", "kaspa", "rest_kaspa", "rpc_kaspa"]),
    (
        "Solana",
        &[
            "agave-precompiles",
            "chain_solana",
            "cluster_snapshot",
            "feed",
            "follow",
            "grpc",
            "ingest",
            "ledger_store",
            "loadgen_solana",
            "localnet",
            "replica",
            "rest_solana",
            "rpc_solana",
            "snapshot_ledger",
            "snapshot_server",
            "snapshot_solana",
            "solana",
            "stakes_solana",
            "svm",
            "tpu",
            "upstream_fork",
            "verify",
            "web_console",
        ],
    ),
];

/// Packages of one chain, by the prefix of their names.
const CHAIN_PACKAGES: &[(&str, &[&str])] = &[
    ("Kaspa", &["kaspa-", "workflow-"]),
    ("Solana", &["solana-", "spl-", "agave-", "litesvm", "yellowstone-"]),
];

/// The crates that may import more than one chain.
const MULTI_CHAIN_CRATES: &[&str] = &["hydrant", "benchmarks", "testkit", "fuzz"];

/// Imports that the layers would allow and the design forbids: servers see state and indices only through `query`, and
/// the producer of a ledger only through `chain_solana` or `chain_kaspa`.
const FORBIDDEN_IMPORTS: &[(&str, &[&str])] = &[
    ("http_server", &["state", "index"]),
    ("response_cache", &["state", "index"]),
    ("websocket", &["state", "index"]),
    ("grpc_server", &["state", "index"]),
    ("jsonrpc", &["state", "index", "localnet", "svm"]),
    ("rpc_solana", &["state", "index", "localnet", "svm"]),
    ("rpc_kaspa", &["state", "index", "follow_kaspa"]),
    ("grpc", &["state", "index", "localnet", "svm"]),
    ("rest", &["state", "index", "localnet", "svm"]),
    ("rest_solana", &["state", "index", "localnet", "svm"]),
    ("rest_kaspa", &["state", "index", "follow_kaspa"]),
    ("grpc_kaspa", &["state", "index", "follow_kaspa"]),
    ("web_console", &["state", "index", "localnet", "svm"]),
];

/// The crate that tests of any layer may use, and the other tools of the top layer too.
const TEST_HELPER: &str = "testkit";

/// The chain of one of our crates.
fn chain_of_crate(name: &str) -> Option<&'static str> {
    let mut chains = CHAIN_CRATES.iter();
    chains.find(|(_, crates)| crates.contains(&name)).map(|(chain, _)| *chain)
}

/// The chain that an import belongs to: a crate of ours, or a package.
fn chain_of_import(name: &str) -> Option<&'static str> {
    let mut packages = CHAIN_PACKAGES.iter();
    let is_package = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let package = || packages.find(|(_, prefixes)| is_package(prefixes)).map(|(chain, _)| *chain);
    chain_of_crate(name).or_else(package)
}

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
    for (chain, of_chain) in CHAIN_CRATES {
        for name in of_chain.iter().filter(|name| layer_of(name) <= Some(LAST_NEUTRAL_LAYER)) {
            complaints.push(format!(
                "{name}: is {chain}'s, and has no layer above L{LAST_NEUTRAL_LAYER}"
            ));
        }
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
        complaints.extend(
            chain_of_import(imported)
                .filter(|_| !is_tool)
                .and_then(|chain| check_chain(name, layer, imported, chain)),
        );
        if FORBIDDEN_IMPORTS
            .iter()
            .any(|(importer, forbidden)| importer == name && forbidden.contains(&imported))
        {
            complaints.push(format!("{name}: must not import {imported}; see FORBIDDEN_IMPORTS"));
        }
        let Some(below) = layer_of(imported) else { continue };
        let is_help = imported == TEST_HELPER && (dependency.is_dev || is_tool);
        // A crate may be its own dev-dependency, to enable a feature in its tests.
        let is_itself = imported == name && dependency.is_dev;
        if below >= layer && !is_help && !is_itself {
            complaints.push(format!(
                "{name} (L{layer}): imports {imported} (L{below}), which is not below it"
            ));
        }
    }
    let imported = krate.dependencies.iter().map(|dependency| dependency.name.as_str());
    let chains: BTreeSet<&str> = imported.filter_map(chain_of_import).collect();
    if is_tool && chains.len() > 1 && !MULTI_CHAIN_CRATES.contains(&name.as_str()) {
        let chains: Vec<&str> = chains.into_iter().collect();
        complaints.push(format!(
            "{name}: imports {}; only {} may import two chains",
            chains.join(" and "),
            MULTI_CHAIN_CRATES.join(", ")
        ));
    }
}

/// Returns a complaint if a crate below the programs may not import something of a chain.
fn check_chain(name: &str, layer: usize, imported: &str, chain: &str) -> Option<String> {
    if layer <= LAST_NEUTRAL_LAYER {
        return Some(format!(
            "{name} (L{layer}): knows a chain ({imported}); that is for L{} and up",
            LAST_NEUTRAL_LAYER + 1
        ));
    }
    match chain_of_crate(name) {
        Some(own) if own == chain => None,
        Some(own) => {
            Some(format!("{name}, which is {own}'s: imports {imported}, which is {chain}'s"))
        }
        None => Some(format!(
            "{name}: imports {imported}, which is {chain}'s, and is not in CHAIN_CRATES"
        )),
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
    fn a_crate_may_switch_on_a_feature_of_its_own_for_its_tests() {
        assert_eq!(check_with("hydrant", &["dev:hydrant"]), [""; 0]);
        assert_eq!(check_with("hydrant", &["hydrant"]).len(), 1);
        assert_eq!(check_with("hydrant", &["dev:benchmarks"]).len(), 1);
    }

    #[test]
    fn a_crate_without_a_layer_and_a_layer_without_a_crate_are_caught() {
        let mut crates = all_crates();
        crates.retain(|krate| krate.name != "cpu_pool");
        crates.push(krate("attic", &[]));
        assert_eq!(
            check(&crates),
            [
                "attic: has no layer; add it to xtask/src/tidy/layers.rs and ARCHITECTURE.md",
                "cpu_pool: has a layer but does not exist",
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
                [format!(
                    "jsonrpc: imports {import}, which is Solana's, and is not in CHAIN_CRATES"
                )]
            );
        }
        assert_eq!(check_with("rpc_solana", &["chain_solana"]), [""; 0]);
    }

    #[test]
    fn a_crate_of_a_chain_is_listed_whatever_its_name_is() {
        let complaint =
            ["response_cache: imports verify, which is Solana's, and is not in CHAIN_CRATES"];
        assert_eq!(check_with("response_cache", &["verify"]), complaint);
        assert_eq!(check_with("follow", &["verify", "yellowstone-grpc-proto"]), [""; 0]);
        assert_eq!(check_with("benchmarks", &["verify"]), [""; 0]);
    }

    #[test]
    fn two_chains_meet_in_the_programs_and_test_tools_only() {
        for name in MULTI_CHAIN_CRATES {
            assert_eq!(check_with(name, &["solana", "kaspa-hashes"]), [""; 0], "{name}");
        }
        assert_eq!(
            check_with("xtask", &["solana", "dev:kaspa-hashes"]),
            [
                "xtask: imports Kaspa and Solana; only hydrant, benchmarks, testkit, fuzz may import two chains"
            ]
        );
        assert_eq!(check_with("xtask", &["solana", "solana-pubkey"]), [""; 0]);
    }

    #[test]
    fn a_crate_of_one_chain_does_not_import_another() {
        assert_eq!(
            check_with("rpc_solana", &["solana", "kaspa-hashes"]),
            ["rpc_solana, which is Solana's: imports kaspa-hashes, which is Kaspa's"]
        );
    }

    #[test]
    fn neutral_layers_query_and_the_serving_crates_are_of_no_chain() {
        let neutral = LAYERS.iter().take(LAST_NEUTRAL_LAYER + 1).copied().flatten().copied();
        let serving =
            ["query", "cpu_pool", "authentication", "http_server", "http_client", "response_cache"];
        for name in
            neutral.chain(serving).chain(["depot", "jsonrpc", "rest", "loadgen", "replicated_log"])
        {
            assert_eq!(chain_of_crate(name), None, "{name}");
            for import in ["solana-pubkey", "kaspa-hashes"] {
                assert_eq!(check_with(name, &[import]).len(), 1, "{name} imports {import}");
            }
        }
    }
}
