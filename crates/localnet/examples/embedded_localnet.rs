//! A Solana ledger inside a program: it starts, executes a transaction, and its accounts are read, without a socket.
//!
//! `cargo run -p localnet --example embedded_localnet`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use chain_solana::{EventSink, LedgerEvent, Reader, VerifiedTransaction};
use clients::ClientId;
use ledger::{Address, Commitment};
use localnet::Config;
use solana_account::ReadableAccount;
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction::versioned::VersionedTransaction;

const SOL: u64 = 1_000_000_000;
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends the ledger's events to this program. It is called on the executing thread, so it must not wait: a program that
/// reads too slowly loses events.
struct Events(SyncSender<LedgerEvent>);

impl EventSink for Events {
    fn send(&mut self, event: &LedgerEvent) {
        let _ = self.0.try_send(event.clone());
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let alice = Keypair::new();
    let bob = Keypair::new().pubkey();
    // In memory, a block for each transaction. Alice gets the lamports of genesis.
    let config = Config { slot_ms: 0, mint: Some(alice.pubkey()), ..Config::default() };
    let localnet = localnet::open(&config)?;
    let reader = localnet.reader().clone();
    let sender = localnet.transaction_sender();
    let (events, received) = sync_channel(1_000);
    let handle = localnet.start(vec![Box::new(Events(events))])?;

    let blockhash = reader.view(Commitment::Processed).meta().last_blockhash();
    let instruction = transfer(&alice.pubkey(), &bob, SOL);
    let message = Message::new_with_blockhash(&[instruction], Some(&alice.pubkey()), &blockhash);
    let transaction = VersionedTransaction::try_new(VersionedMessage::Legacy(message), &[&alice])?;
    let verified = VerifiedTransaction::verify(transaction)?;
    let signature = verified.signature();
    sender.send(ClientId(1).into(), verified)?;
    let slot = wait_for(&received, &signature)?;

    println!(
        "{signature} is confirmed in slot {slot}; bob has {} lamports",
        lamports(&reader, &bob)
    );
    assert_eq!(lamports(&reader, &bob), SOL);
    handle.stop()?;
    Ok(())
}

/// Waits until the block of a transaction is confirmed; returns its slot.
fn wait_for(
    events: &Receiver<LedgerEvent>,
    signature: &Signature,
) -> Result<ledger::Slot, Box<dyn Error>> {
    loop {
        let LedgerEvent::Confirmed { block, .. } = events.recv_timeout(EVENT_TIMEOUT)? else {
            continue;
        };
        let executed = block.transactions.iter().find(|one| one.signature() == *signature);
        if let Some(executed) = executed {
            executed.meta.status.clone()?;
            return Ok(executed.slot);
        }
    }
}

/// The lamports of an account in the newest complete block.
fn lamports(reader: &Reader, key: &Pubkey) -> u64 {
    let account = reader.view(Commitment::Confirmed).record(&Address::from(key.to_bytes()));
    account.map_or(0, |account| account.0.lamports())
}
