//! `kill -9` of a node with a ledger directory, at random moments under a load of transfers.
//!
//! Each transfer goes to its own account, so that after a restart its status and its account can be compared: a
//! transfer that was reported as confirmed must have both, and any other both or neither. A transfer
//! that was executed before is not executed again. So few slots of history are retained that it is pruned under the
//! same kills.
//! Rounds: 5, or as many as `HYDRANT_CRASH_ROUNDS` says.

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::BuildHasher;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use solana_commitment_config::CommitmentConfig;
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_rpc_client::rpc_client::RpcClient;
use solana_rpc_client_api::config::RpcSendTransactionConfig;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;
use testkit::node::{Node, NodeCommand};

use crate::node::HYDRANT;
use crate::world::{CONFIRMED, WAIT_TIMEOUT, wait_until};

const ROUNDS: &str = "HYDRANT_CRASH_ROUNDS";
const ROUNDS_DEFAULT: usize = 5;
/// Short slots: a kill then hits every part of a block's making.
const SLOT_MS: &str = "40";
const SENDERS: usize = 2;
/// About ten rounds. It is more than the window in which a transaction may be repeated.
const HISTORY_SLOTS: &str = "500";
/// Transfers that are sent before their statuses are requested.
const BURST: usize = 24;
/// A new account needs 890,880 lamports to exist.
const LAMPORTS: u64 = 1_000_000;

/// A transfer, and its last reported status.
struct SentTransfer {
    transaction: VersionedTransaction,
    to: Pubkey,
    lamports: u64,
    /// The slot that a status named, once that status was "confirmed".
    confirmed: Option<u64>,
}

#[test]
#[expect(clippy::print_stdout, reason = "a failure shows how far it came")]
fn nothing_confirmed_is_lost_when_the_node_is_killed() -> Result<()> {
    let rounds = env::var(ROUNDS).map_or(Ok(ROUNDS_DEFAULT), |rounds| rounds.parse())?;
    let files = tempfile::tempdir()?;
    let payer = Keypair::new();
    let mut fresh: Vec<SentTransfer> = Vec::new();
    let mut confirmed: Vec<(Pubkey, u64)> = Vec::new();
    let mut sent = 0;
    for round in 0..rounds {
        let node = start(files.path(), &payer.pubkey())?;
        check(&node, &fresh).with_context(|| format!("after {round} kills"))?;
        fresh = load_until_killed(node, &payer)?;
        let before = confirmed.len();
        let landed = fresh.iter().filter(|sent| sent.confirmed.is_some());
        confirmed.extend(landed.map(|sent| (sent.to, sent.lamports)));
        let landed = confirmed.len() - before;
        println!("kill {}: {} sent, {landed} confirmed", round + 1, fresh.len());
        sent += fresh.len();
    }
    let node = start(files.path(), &payer.pubkey())?;
    check(&node, &fresh).context("after the last kill")?;
    check_accounts(&node, &confirmed)?;
    let confirmed = confirmed.len();
    println!("{rounds} kills: {sent} sent, {confirmed} confirmed, none of them lost");
    // A kill before the first confirmation proves little; not every round may be like that.
    ensure!(confirmed > rounds, "only {confirmed} were confirmed");
    Ok(())
}

/// Sends transfers to a node until it is killed at a random moment.
fn load_until_killed(mut node: Node, payer: &Keypair) -> Result<Vec<SentTransfer>> {
    let delay = Duration::from_millis(200 + RandomState::new().hash_one(()) % 1_500);
    let (ended, end) = sync_channel(SENDERS);
    let url = node.rpc_url();
    thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|_| {
                let ended = ended.clone();
                let url = url.clone();
                scope.spawn(move || {
                    let mut sent = Vec::new();
                    let why = send_until_error(&url, payer, &mut sent);
                    // If the node was killed, the receiver is gone.
                    let _ = ended.try_send(format!("{why:#}"));
                    sent
                })
            })
            .collect();
        let early = end.recv_timeout(delay);
        node.process().kill()?;
        node.process().wait()?;
        let mut all = Vec::new();
        for sender in senders {
            all.extend(sender.join().map_err(|_| anyhow::anyhow!("a sender panicked"))?);
        }
        match early {
            Err(RecvTimeoutError::Timeout) => Ok(all),
            Ok(why) => bail!("a sender ended before the kill: {why}"),
            Err(RecvTimeoutError::Disconnected) => bail!("the senders are gone"),
        }
    })
}

/// Sends transfers and requests their statuses, until the node does not respond. Returns the error.
fn send_until_error(url: &str, payer: &Keypair, sent: &mut Vec<SentTransfer>) -> anyhow::Error {
    let rpc = RpcClient::new_with_commitment(url.to_owned(), CONFIRMED);
    loop {
        if let Err(err) = send_burst(&rpc, payer, sent).and_then(|()| poll_statuses(&rpc, sent)) {
            return err;
        }
    }
}

fn send_burst(rpc: &RpcClient, payer: &Keypair, sent: &mut Vec<SentTransfer>) -> Result<()> {
    let blockhash = rpc.get_latest_blockhash()?;
    for _ in 0..BURST {
        let to = Keypair::new().pubkey();
        let lamports = LAMPORTS + sent.len() as u64;
        let instruction = transfer(&payer.pubkey(), &to, lamports);
        let message =
            Message::new_with_blockhash(&[instruction], Some(&payer.pubkey()), &blockhash);
        let message = VersionedMessage::Legacy(message);
        let transaction = VersionedTransaction::try_new(message, &[payer])?;
        // Recorded before it is sent: it may be executed although its response never arrives.
        sent.push(SentTransfer { transaction: transaction.clone(), to, lamports, confirmed: None });
        rpc.send_transaction_with_config(&transaction, skip_preflight())?;
    }
    Ok(())
}

/// Records which of the latest transfers are confirmed, and checks their accounts at once.
fn poll_statuses(rpc: &RpcClient, sent: &mut [SentTransfer]) -> Result<()> {
    let first = sent.len().saturating_sub(256);
    let latest = &mut sent[first..];
    let signatures: Vec<Signature> = latest.iter().map(SentTransfer::signature).collect();
    let statuses = rpc.get_signature_statuses(&signatures)?.value;
    for (sent, status) in latest.iter_mut().zip(statuses) {
        let Some(status) = status else { continue };
        status.status.clone().with_context(|| format!("{} failed", sent.signature()))?;
        if status.satisfies_commitment(CommitmentConfig::confirmed()) && sent.confirmed.is_none() {
            let balance = rpc.get_balance(&sent.to)?;
            ensure!(
                balance == sent.lamports,
                "{} is confirmed, {} is not",
                sent.signature(),
                sent.to
            );
            sent.confirmed = Some(status.slot);
        }
    }
    Ok(())
}

/// Compares a restarted node with the statuses that were reported before it was killed.
fn check(node: &Node, sent: &[SentTransfer]) -> Result<()> {
    let rpc = RpcClient::new_with_commitment(node.rpc_url(), CONFIRMED);
    for sent in sent.chunks(100) {
        let signatures: Vec<Signature> = sent.iter().map(SentTransfer::signature).collect();
        let statuses = rpc.get_signature_statuses_with_history(&signatures)?.value;
        let keys: Vec<Pubkey> = sent.iter().map(|sent| sent.to).collect();
        let accounts = rpc.get_multiple_accounts(&keys)?;
        for ((sent, status), account) in sent.iter().zip(statuses).zip(accounts) {
            let signature = sent.signature();
            match (sent.confirmed, &status) {
                (Some(slot), None) => bail!("{signature} was confirmed in slot {slot} and is lost"),
                (Some(slot), Some(status)) if status.slot != slot => {
                    bail!("{signature} was confirmed in slot {slot}, now in {}", status.slot)
                }
                _ => {}
            }
            let expected = status.map(|_| sent.lamports);
            let found = account.map(|account| account.lamports);
            ensure!(found == expected, "{signature}: {found:?} lamports, expected {expected:?}");
        }
    }
    sent.iter()
        .rev()
        .find(|sent| sent.confirmed.is_some())
        .map_or(Ok(()), |sent| repeat(&rpc, sent))
}

/// Checks the balance of every account of a confirmed transfer.
fn check_accounts(node: &Node, confirmed: &[(Pubkey, u64)]) -> Result<()> {
    let rpc = RpcClient::new_with_commitment(node.rpc_url(), CONFIRMED);
    for confirmed in confirmed.chunks(100) {
        let keys: Vec<Pubkey> = confirmed.iter().map(|(to, _)| *to).collect();
        for ((to, lamports), account) in confirmed.iter().zip(rpc.get_multiple_accounts(&keys)?) {
            let found = account.map(|account| account.lamports);
            ensure!(found == Some(*lamports), "{to}: {found:?} lamports, expected {lamports}");
        }
    }
    Ok(())
}

/// A transfer that was executed before the kill is not executed again, though its blockhash is valid.
fn repeat(rpc: &RpcClient, sent: &SentTransfer) -> Result<()> {
    let blockhash = sent.transaction.message.recent_blockhash();
    if !rpc.is_blockhash_valid(blockhash, CONFIRMED)? {
        return Ok(());
    }
    let again = rpc.send_transaction(&sent.transaction);
    let refused = again.err().map(|err| err.to_string()).unwrap_or_default();
    ensure!(refused.contains("already been processed"), "sent again: {refused}");
    rpc.send_transaction_with_config(&sent.transaction, skip_preflight())?;
    let slot = rpc.get_slot()?;
    wait_until("a block after the repetition", WAIT_TIMEOUT, || {
        Ok((rpc.get_slot()? > slot + 1).then_some(()))
    })?;
    ensure!(rpc.get_balance(&sent.to)? == sent.lamports, "{} ran twice", sent.signature());
    Ok(())
}

impl SentTransfer {
    fn signature(&self) -> Signature {
        self.transaction.signatures[0]
    }
}

/// Starts a node on the ledger in `files`, which the first start creates.
fn start(files: &Path, mint: &Pubkey) -> Result<Node> {
    NodeCommand::dev(Command::new(HYDRANT))
        .args(["--slot-ms", SLOT_MS, "--history-slots", HISTORY_SLOTS])
        .args(["--mint", &mint.to_string()])
        .args(["--ledger".as_ref(), files.join("ledger").as_os_str()])
        .logged()
        .start()
}

fn skip_preflight() -> RpcSendTransactionConfig {
    RpcSendTransactionConfig { skip_preflight: true, ..RpcSendTransactionConfig::default() }
}
