//! The faucet: airdrops as transfers that wait in the queue.

use std::collections::HashSet;
use std::sync::Arc;

use chain_solana::{AirdropError, Faucet, Reader, SendError, Sender, VerifiedTransaction};
use ledger::{Address, Commitment};
use parking_lot::Mutex;
use solana_account::ReadableAccount;
use solana_hash::Hash;
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;

use crate::queue::TransactionQueue;

/// The faucet of a local ledger.
pub(crate) struct LocalFaucet {
    queue: Arc<TransactionQueue>,
    reader: Reader,
    keypair: Keypair,
    airdrop_lamports_max: Option<u64>,
    airdrops: Mutex<Airdrops>,
}

/// The airdrops that named the newest blockhash, so that two equal requests are two transactions.
#[derive(Default)]
struct Airdrops {
    blockhash: Hash,
    issued: HashSet<(Pubkey, u64, u32)>,
}

impl LocalFaucet {
    pub(crate) fn new(
        queue: Arc<TransactionQueue>,
        reader: Reader,
        keypair: Keypair,
        airdrop_lamports_max: Option<u64>,
    ) -> Self {
        Self { queue, reader, keypair, airdrop_lamports_max, airdrops: Mutex::default() }
    }

    /// Number of earlier equal requests with the same blockhash.
    fn next_repetition(&self, to: Pubkey, lamports: u64, blockhash: Hash) -> u32 {
        let mut airdrops = self.airdrops.lock();
        if airdrops.blockhash != blockhash {
            *airdrops = Airdrops { blockhash, issued: HashSet::new() };
        }
        let mut repetition = 0;
        while !airdrops.issued.insert((to, lamports, repetition)) {
            repetition += 1;
        }
        repetition
    }
}

impl Faucet for LocalFaucet {
    fn airdrop(
        &self,
        sender: Sender,
        to: Pubkey,
        lamports: u64,
        blockhash: Hash,
    ) -> Result<Signature, AirdropError> {
        if let Some(limit) = self.airdrop_lamports_max.filter(|limit| lamports > *limit) {
            return Err(AirdropError::TooMuch { lamports, limit });
        }
        let faucet = self.keypair.pubkey();
        let address = Address::from(faucet.to_bytes());
        let account = self.reader.view(Commitment::Processed).record(&address);
        let balance = account.map_or(0, |account| account.0.lamports());
        if balance <= lamports {
            return Err(AirdropError::FaucetEmpty { lamports, balance });
        }
        let mut instructions =
            vec![solana_system_interface::instruction::transfer(&faucet, &to, lamports)];
        let repetition = self.next_repetition(to, lamports, blockhash);
        if repetition > 0 {
            instructions.push(compute_unit_limit(AIRDROP_UNITS + repetition));
        }
        let message = Message::new_with_blockhash(&instructions, Some(&faucet), &blockhash);
        let message = VersionedMessage::Legacy(message);
        let signed = VersionedTransaction::try_new(message, &[&self.keypair])
            .ok()
            .and_then(|transaction| VerifiedTransaction::verify(transaction).ok());
        let Some(transaction) = signed else { return Err(SendError::Closed.into()) };
        let signature = transaction.signature();
        // The airdrop waits in the queue of its receiver, not behind all other airdrops. So the receiver's next
        // transactions are executed after it.
        self.queue.push(sender, to, transaction)?;
        Ok(signature)
    }
}

/// More compute units than an airdrop needs, so that the limit can distinguish repetitions.
const AIRDROP_UNITS: u32 = 10_000;

/// `ComputeBudgetInstruction::SetComputeUnitLimit`.
fn compute_unit_limit(units: u32) -> Instruction {
    let mut data = vec![2];
    data.extend_from_slice(&units.to_le_bytes());
    Instruction { program_id: solana_sdk_ids::compute_budget::ID, accounts: Vec::new(), data }
}
