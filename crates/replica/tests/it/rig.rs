//! A running replica, and its comparison with the chain that was logged.

use std::sync::Arc;
use std::time::Duration;

use chain_solana::{EventSink, History, HistoryLimits, LedgerEvent, Reader, RevertReason};
use depot::Depot;
use ledger::Commitment;
use parking_lot::Mutex;
use query::LedgerConfig;
use replica::{FaultKind, Replica, ReplicaConfig, ReplicaHandle, ReplicaProof, ReplicaStatus};
use solana_pubkey::Pubkey;
use testkit::eventually::eventually;

use crate::source_chain::{Accounts, SourceChain};
use crate::source_log::{CLUSTER, SourceLog};

/// Events as lines of text. Ids of blocks are those of the replica, which are numbers of records.
#[derive(Clone, Default)]
pub(crate) struct EventLog(Arc<Mutex<Vec<String>>>);

impl EventLog {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

impl EventSink for EventLog {
    fn send(&mut self, event: &LedgerEvent) {
        let line = match event {
            LedgerEvent::BankCreated { block, parent, root, .. } => {
                format!("created {block:?} on {parent:?}, root {root}")
            }
            LedgerEvent::AccountsWritten { block, updates } => {
                let versions: Vec<_> = updates.iter().map(|update| update.write_version).collect();
                format!("accounts {block:?} {versions:?}")
            }
            LedgerEvent::Executed(all) => {
                let all: Vec<_> = all.iter().map(|executed| executed.signature()).collect();
                format!("executed {all:?}")
            }
            LedgerEvent::BlockFooter { block, .. } => format!("footer {block:?}"),
            LedgerEvent::Frozen { block, .. } => format!("frozen {:?}", block.id),
            LedgerEvent::TipMoved { block } => format!("tip {block:?}"),
            LedgerEvent::Confirmed { block, .. } => format!("confirmed {:?}", block.id),
            LedgerEvent::Voted(votes) => format!("voted {}", votes.len()),
            LedgerEvent::Rooted { block, .. } => format!("rooted {:?}", block.id),
            LedgerEvent::Jumped { block, .. } => format!("jumped {:?}", block.id),
            LedgerEvent::Reverted { block, reason, .. } => {
                let reason = match reason {
                    RevertReason::Dead { .. } => "dead",
                    RevertReason::Abandoned => "abandoned",
                    RevertReason::Replaced => "replaced",
                };
                format!("reverted {:?} {reason}", block.id)
            }
        };
        self.0.lock().push(line);
    }

    fn needs_account_updates(&self) -> bool {
        true
    }
}

/// The configuration of tests: all waits are short.
pub(crate) fn config() -> ReplicaConfig {
    let history = HistoryLimits { blocks_max: 10_000, bytes_max: 1 << 30 };
    ReplicaConfig {
        retry_interval: Duration::from_millis(5),
        reread_interval: Duration::from_millis(5),
        idle_check_interval: Duration::from_millis(20),
        ..ReplicaConfig::new(CLUSTER, LedgerConfig::new(10_000), history)
    }
}

/// A running replica.
pub(crate) struct RunningReplica {
    pub(crate) handle: ReplicaHandle,
    pub(crate) reader: Reader,
    pub(crate) history: Arc<History>,
    pub(crate) status: Arc<ReplicaStatus>,
    pub(crate) proof: Arc<ReplicaProof>,
    pub(crate) events: EventLog,
}

pub(crate) async fn load(config: ReplicaConfig, log: &SourceLog, depot: &Depot) -> Replica {
    let loaded = Replica::load(config, Arc::new(log.space.clone()), depot.clone()).await;
    loaded.unwrap_or_else(|err| panic!("no replica: {err}"))
}

pub(crate) fn start(replica: Replica) -> RunningReplica {
    let reader = replica.reader().clone();
    let history = Arc::clone(replica.history());
    let status = Arc::clone(replica.status());
    let proof = Arc::clone(replica.proof());
    let events = EventLog::default();
    let handle = replica.start(vec![Box::new(events.clone())]).expect("threads");
    RunningReplica { handle, reader, history, status, proof, events }
}

pub(crate) async fn start_new(log: &SourceLog) -> RunningReplica {
    start(load(config(), log, &log.depot).await)
}

impl RunningReplica {
    /// Waits until the replica shows the tips of a chain.
    pub(crate) async fn wait_for(&self, chain: &SourceChain) {
        let slots =
            [chain.tip, chain.confirmed, chain.root].map(|it| chain.blocks[it].block.id.slot);
        let shown = || {
            let levels = [Commitment::Processed, Commitment::Confirmed, Commitment::Finalized];
            levels.map(|level| self.reader.view(level).block().slot)
        };
        let describe = || {
            let status = &self.status;
            format!(
                "{slots:?}, shown: {:?}, {:?}, last fault {:?}, not ready: {:?}",
                shown(),
                status.state(),
                status.last_fault(),
                status.not_ready_reason()
            )
        };
        eventually(|| shown() == slots, describe).await;
    }

    /// Waits until the replica has read the log.
    pub(crate) async fn wait_for_end(&self, log: &SourceLog) {
        let end = (log.generation, log.sequence);
        let position = || (self.status.generation(), self.status.sequence());
        let describe = || format!("{end:?}, read: {:?}", position());
        eventually(|| position() == end, describe).await;
    }

    /// Compares state and history with a chain. The history starts after the block `start`.
    pub(crate) fn check(&self, chain: &SourceChain, start: usize) {
        for (level, block) in [
            (Commitment::Processed, chain.tip),
            (Commitment::Confirmed, chain.confirmed),
            (Commitment::Finalized, chain.root),
        ] {
            let expected = &chain.blocks[block];
            let view = self.reader.view(level);
            assert_eq!(view.block().slot, expected.block.id.slot, "{level:?}");
            let accounts: Accounts = view
                .all()
                .filter_map(|(address, account)| {
                    Some((Pubkey::new_from_array(address.to_array()?), account.0.clone()))
                })
                .collect();
            assert_eq!(accounts, expected.accounts, "{level:?}");
            let info = view.meta();
            assert_eq!(info.bank_hash, expected.block.bank_hash, "{level:?}");
            assert_eq!(info.last_blockhash(), expected.block.blockhash, "{level:?}");
            assert_eq!(info.block_height, expected.block.block_height, "{level:?}");
            assert_eq!(info.capitalization, expected.info.capitalization, "{level:?}");
        }
        let history = self.history.snapshot();
        let on_chain = chain.chain_to(chain.tip);
        let start_slot = chain.blocks[start].block.id.slot;
        for (index, source) in chain.blocks.iter().enumerate() {
            let slot = source.block.id.slot;
            let found = history.block(slot, Commitment::Processed);
            if !on_chain.contains(&index) {
                assert!(found.is_none(), "slot {slot} is of another fork");
                continue;
            }
            let Some(found) = found else {
                assert!(slot <= start_slot, "slot {slot} is missing");
                continue;
            };
            assert_eq!(found.blockhash, source.block.blockhash);
            let signatures = |block: &chain_solana::Block| -> Vec<_> {
                block.transactions.iter().map(|executed| executed.signature()).collect()
            };
            assert_eq!(signatures(found), signatures(&source.block));
        }
    }

    /// Returns how often the fault of this name was found.
    pub(crate) fn faults(&self, name: &str) -> u64 {
        let kind = FaultKind::ALL.into_iter().find(|kind| kind.name() == name);
        self.status.faults(kind.unwrap_or_else(|| panic!("no fault is called {name}")))
    }

    pub(crate) fn stop(self) -> EventLog {
        self.handle.stop().expect("no error");
        self.events
    }
}
