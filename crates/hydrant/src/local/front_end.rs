//! The output of a process with a local ledger: its banner, `validator.log`, and the status line.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use localnet::Localnet;
use rpc_solana::NodeMemory;
use solana_pubkey::Pubkey;

use crate::banner::{Banner, OutputStyle};
use crate::console::{has_terminal, now, print_line};
use crate::local::LocalConfig;
use crate::node::NodeConfig;
use crate::node::solana::front_end::{ReadyNode, SolanaFrontEnd};
use crate::status_line::{StatusLine, StatusSource};
use crate::validator_log;

/// The output of a process with a local ledger.
pub(crate) struct LocalFrontEnd {
    style: OutputStyle,
    started: Instant,
    is_manual: bool,
    vote_account: Pubkey,
    faucet: Pubkey,
    mint: Option<Pubkey>,
    has_wallet: bool,
    ledger_dir: Option<PathBuf>,
    console: bool,
    has_banner: bool,
    prints_agave_lines: bool,
    has_status_line: bool,
    line: Option<StatusLine>,
}

impl LocalFrontEnd {
    pub(crate) fn new(
        localnet: &Localnet,
        local: &LocalConfig,
        node: &NodeConfig,
        started: Instant,
    ) -> Self {
        // `solana-test-validator` has either a log or a status line.
        let is_replaced_by_log = node.log && local.style == OutputStyle::TestValidator;
        Self {
            style: local.style,
            started,
            is_manual: local.localnet.is_manual,
            vote_account: localnet.vote_account(),
            faucet: localnet.faucet_pubkey(),
            mint: localnet.mint(),
            has_wallet: local.localnet.mint.is_some(),
            ledger_dir: node.ledger_dir.clone(),
            console: node.console,
            has_banner: !node.quiet,
            prints_agave_lines: local.prints_agave_lines(node),
            has_status_line: !node.quiet && !is_replaced_by_log,
            line: None,
        }
    }
}

impl SolanaFrontEnd for LocalFrontEnd {
    fn show_ready(&mut self, node: &ReadyNode<'_>) -> Result<()> {
        if self.prints_agave_lines && !has_terminal() {
            print_line("Connecting...");
        }
        let api = &node.server.api;
        let banner = Banner {
            style: self.style,
            cluster_info: &api.cluster_info,
            is_manual: self.is_manual,
            vote_account: self.vote_account,
            faucet: self.faucet,
            mint: self.mint,
            has_wallet: self.has_wallet,
            ledger: self.ledger_dir.as_deref(),
            addresses: node.addresses,
            console: self.console,
            ready_after: now() - self.started,
            usage: NodeMemory::new(&api.reader, &api.history),
        };
        if self.has_banner {
            print_line(&banner.to_string());
        }
        if let Some(dir) = banner.ledger {
            validator_log::write(dir, &banner)?;
        }
        let status = StatusSource {
            style: self.style,
            started: self.started,
            identity: api.cluster_info.identity,
            reader: api.reader.clone(),
            pubsub: node.pubsub.clone(),
            snapshots: api.snapshots.clone(),
            health: api.health.clone(),
        };
        let line = self.has_status_line.then(|| StatusLine::start(status));
        self.line = line.transpose()?.flatten();
        Ok(())
    }

    fn stop(&mut self) {
        self.line.take().into_iter().for_each(StatusLine::stop);
    }
}
