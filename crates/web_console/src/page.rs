//! The page itself: a frame that the scripts fill in, and the state of the node as text for a browser without them.
//!
//! Invariant: its texts are ours, numbers, or hashes in base58, so none of them needs to be escaped.

use std::fmt::Write;

use jsonrpc::Status;
use ledger::{Commitment, Slot};
use response_cache::LedgerVersions;
use rpc_solana::SolanaServer;

use crate::assets::{Assets, FILES};

/// The producer of the ledger's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerKind {
    /// This node makes the blocks itself.
    Local,
    /// Validators make the blocks, and this node follows them.
    Followed,
}

/// The state that the page shows without scripts.
#[derive(Clone, Debug)]
pub(crate) struct NodeState {
    health: String,
    /// Processed, confirmed, finalized.
    slots: [Slot; 3],
    verified: Option<Slot>,
    /// The word for such a slot, and its level; `None` if blocks are not verified.
    level: Option<(&'static str, &'static str)>,
    has_faucet: bool,
    slot_ms: u64,
    genesis: String,
    identity: String,
}

impl NodeState {
    /// Returns the state of a node now. Cost: some microseconds.
    pub(crate) fn read(server: &SolanaServer) -> Self {
        let api = &server.api;
        let info = &server.api.cluster_info;
        let levels = [Commitment::Processed, Commitment::Confirmed, Commitment::Finalized];
        let health = match server.context.health.status() {
            _ if server.context.is_draining() => "draining".to_owned(),
            Status::Ok => "ok".to_owned(),
            Status::Behind { slots } => format!("behind by {slots} slots"),
            Status::Unknown => "unknown".to_owned(),
        };
        Self {
            health,
            slots: levels.map(|level| api.version_and_slot(level).1),
            verified: api.verification.verified_slot(),
            level: api.verification.required_level().map(|it| (it.slot_word(), it.name())),
            has_faucet: api.faucet.is_some(),
            slot_ms: api.cluster.slot_ms(),
            genesis: info.genesis_hash.to_string(),
            identity: info.identity.to_string(),
        }
    }
}

/// The parts of the page that do not change.
pub(crate) struct Page {
    kind: LedgerKind,
    links: String,
    icon: String,
}

impl Page {
    pub(crate) fn new(kind: LedgerKind, assets: &Assets) -> Self {
        let icon = assets.path("icon.svg");
        let mut links = format!(
            "<link rel=icon href=\"{icon}\" type=\"image/svg+xml\">\n<link rel=stylesheet href=\"{}\">\n",
            assets.path("style.css")
        );
        for (number, file) in FILES.iter().filter(|file| file.name.ends_with(".js")).enumerate() {
            let path = assets.path(file.name);
            // Writing to a string does not fail.
            let _ = match number {
                0 => writeln!(links, "<script type=module src=\"{path}\"></script>"),
                _ => writeln!(links, "<link rel=modulepreload href=\"{path}\">"),
            };
        }
        Self { kind, links, icon }
    }

    /// Returns the page. The scripts read how to reach the node from the attributes of `html`: `data-websocket` is
    /// the path at which this port accepts WebSocket.
    pub(crate) fn render(&self, node: &NodeState) -> String {
        let (name, kind) = match self.kind {
            LedgerKind::Local => ("local", "local ledger"),
            LedgerKind::Followed => ("followed", "followed chain"),
        };
        let faucet = if node.has_faucet { "<a href=\"#/faucet\">Faucet</a>" } else { "" };
        let [processed, confirmed, finalized] = node.slots;
        let verified = node.verified.map_or_else(|| "none".to_owned(), |slot| slot.to_string());
        let (word, level) = node.level.unwrap_or(("verified", "none"));
        let links = &self.links;
        let icon = &self.icon;
        let NodeState { health, has_faucet, slot_ms, genesis, identity, .. } = node;
        let version = env!("CARGO_PKG_VERSION");
        let api_version = rpc_solana::api_version();
        format!(
            r##"<!doctype html>
<html lang="en" data-ledger="{name}" data-faucet="{has_faucet}" data-slot-ms="{slot_ms}" data-websocket="/">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Hydrant</title>
{links}</head>
<body>
<header class="top">
<a class="brand" href="#/"><img src="{icon}" alt="" width="22" height="22">Hydrant</a>
<nav aria-label="Console"><a href="#/">Ledger</a><a href="#/node">Node</a>{faucet}<a href="/v1/">API</a></nav>
<div class="search"><input id="search" type="search" placeholder="Slot, signature or address" aria-label="Search by slot, signature or address" autocomplete="off" spellcheck="false"><kbd>/</kbd></div>
<p class="link"><span id="link" class="dot" data-state="off"></span><span id="link-text">{kind}</span></p>
</header>
<main id="view" tabindex="-1">
<section class="card"><h1>The node</h1>
<dl class="facts">
<dt>Health</dt><dd>{health}</dd>
<dt>Version</dt><dd>Hydrant {version}, API of Agave {api_version}</dd>
<dt>Ledger</dt><dd>{kind}</dd>
<dt>Processed slot</dt><dd>{processed}</dd>
<dt>Confirmed slot</dt><dd>{confirmed}</dd>
<dt>Finalized slot</dt><dd>{finalized}</dd>
<dt>Newest {word} slot</dt><dd>{verified}</dd>
<dt>Verification level</dt><dd>{level}</dd>
<dt>Genesis</dt><dd>{genesis}</dd>
<dt>Identity</dt><dd>{identity}</dd>
</dl>
<noscript><p>Load the page again for newer values. With JavaScript the page shows blocks, transactions and accounts while they change.</p></noscript>
</section>
</main>
<footer class="bottom"><span>Hydrant {version}, API of Agave {api_version}</span><span class="keys"><kbd>/</kbd> search <kbd>j</kbd> <kbd>k</kbd> move <kbd>Enter</kbd> open <kbd>Esc</kbd> back</span></footer>
</body></html>
"##
        )
    }
}

/// Returns the state of a node for tests.
#[cfg(test)]
pub(crate) fn example_state() -> NodeState {
    NodeState {
        health: "behind by 7 slots".to_owned(),
        slots: [1_203, 1_202, 1_171],
        verified: None,
        level: None,
        has_faucet: false,
        slot_ms: 400,
        genesis: "GENESIS".to_owned(),
        identity: "IDENTITY".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_nodes_state_without_scripts() {
        let page = Page::new(LedgerKind::Followed, &Assets::new());
        let html = page.render(&example_state());
        for text in ["behind by 7 slots", "1203", "1202", "1171", "GENESIS", "IDENTITY"] {
            assert!(html.contains(&format!("<dd>{text}</dd>")), "{text}");
        }
        assert!(html.contains("<dt>Newest verified slot</dt><dd>none</dd>"));
        assert!(html.contains("<dd>followed chain</dd>"));
        assert!(html.contains("data-ledger=\"followed\""));
        for (word, level) in [("consistent", "consistent"), ("verified", "voted")] {
            let level = Some((word, level));
            let html = page.render(&NodeState { verified: Some(1_190), level, ..example_state() });
            let slot = format!("<dt>Newest {word} slot</dt><dd>1190</dd>");
            assert!(html.contains(&slot), "{word}");
        }
        assert!(html.contains("<dt>Verification level</dt><dd>none</dd>"));
    }

    #[test]
    fn only_a_ledger_with_a_faucet_has_a_link_to_it() {
        let page = Page::new(LedgerKind::Local, &Assets::new());
        assert!(!page.render(&example_state()).contains("Faucet"));
        let html = page.render(&NodeState { has_faucet: true, ..example_state() });
        assert!(html.contains("<a href=\"#/faucet\">Faucet</a>"));
        assert!(html.contains("data-faucet=\"true\""));
    }
}
