//! The faucet: airdrops as transfers that wait in the queue, or that the client sends itself.

use std::collections::HashSet;
use std::sync::Arc;

use chain_solana::{AirdropError, Faucet, SendError, Sender, VerifiedTransaction};
use core::net::IpAddr;
use parking_lot::Mutex;
use solana_hash::Hash;
use solana_instruction::Instruction;
use solana_keypair::Keypair;
use solana_message::{Message, VersionedMessage};
use solana_native_token::LAMPORTS_PER_SOL;
use solana_pubkey::Pubkey;
use solana_signature::Signature;
use solana_signer::Signer;
use solana_transaction::versioned::VersionedTransaction;

use crate::airdrop_limits::{AirdropCounts, AirdropLimits, Receiver};
use crate::executor::now;
use crate::queue::TransactionQueue;

/// A request for a signed airdrop, as Agave's faucet takes it over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AirdropRequest {
    /// What is requested.
    pub lamports: u64,
    /// The account that gets it.
    pub to: Pubkey,
    /// The blockhash of the transaction.
    pub blockhash: Hash,
}

impl AirdropRequest {
    /// Bytes of a request: the number of its kind, then its fields, all in little endian.
    pub const BYTES: usize = 4 + 8 + 32 + 32;

    /// The request of these bytes. `None` if it is of another kind.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        // GetAirdrop is the only kind.
        let (kind, lamports, to, blockhash): (u32, u64, [u8; 32], [u8; 32]) =
            bincode::deserialize(bytes).ok()?;
        let to = Pubkey::new_from_array(to);
        let blockhash = Hash::new_from_array(blockhash);
        (kind == 0).then_some(Self { lamports, to, blockhash })
    }
}

/// The faucet of a local ledger.
pub struct LocalFaucet {
    queue: Arc<TransactionQueue>,
    keypair: Keypair,
    counts: Mutex<AirdropCounts>,
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
        keypair: Keypair,
        limits: AirdropLimits,
    ) -> Self {
        let counts = Mutex::new(AirdropCounts::new(limits));
        Self { queue, keypair, counts, airdrops: Mutex::default() }
    }

    /// A signed transfer for the client to send, in its wire format. Beyond the limit of one airdrop, a memo with the
    /// reason, as Agave's faucet returns it. A client on the same machine has no limit of its own.
    pub fn sign(&self, request: AirdropRequest, client: IpAddr) -> Result<Vec<u8>, AirdropError> {
        let AirdropRequest { lamports, to, blockhash } = request;
        let receivers = [Receiver::Account(to), Receiver::Client(client)];
        let receivers = if client.is_loopback() { &receivers[..1] } else { &receivers[..] };
        let taken = self.counts.lock().take(now(), lamports, receivers);
        let faucet = self.keypair.pubkey();
        let instruction = match taken {
            Ok(()) => solana_system_interface::instruction::transfer(&faucet, &to, lamports),
            Err(AirdropError::TooMuch { lamports, limit }) => {
                let sol = |lamports: u64| lamports as f64 / LAMPORTS_PER_SOL as f64;
                let requested = sol(lamports);
                let cap = sol(limit);
                let memo = format!("request too large; req: ◎{requested}, cap: ◎{cap}");
                let program_id = spl_memo_interface::v4::ID;
                Instruction { program_id, accounts: Vec::new(), data: memo.into_bytes() }
            }
            Err(err) => return Err(err),
        };
        let transaction = self.sign_transaction(&[instruction], &blockhash)?;
        wincode::serialize(&transaction).map_err(|_| SendError::Closed.into())
    }

    fn sign_transaction(
        &self,
        instructions: &[Instruction],
        blockhash: &Hash,
    ) -> Result<VersionedTransaction, SendError> {
        let payer = self.keypair.pubkey();
        let message = Message::new_with_blockhash(instructions, Some(&payer), blockhash);
        let message = VersionedMessage::Legacy(message);
        // Signing does not fail with the only signer's key.
        VersionedTransaction::try_new(message, &[&self.keypair]).map_err(|_| SendError::Closed)
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
        self.counts.lock().take(now(), lamports, &[Receiver::Account(to)])?;
        // As in Agave, the balance is not compared: a transfer of more than the faucet has fails when it is executed.
        let faucet = self.keypair.pubkey();
        let mut instructions =
            vec![solana_system_interface::instruction::transfer(&faucet, &to, lamports)];
        let repetition = self.next_repetition(to, lamports, blockhash);
        if repetition > 0 {
            instructions.push(compute_unit_limit(AIRDROP_UNITS + repetition));
        }
        let transaction = self.sign_transaction(&instructions, &blockhash)?;
        let transaction =
            VerifiedTransaction::verify(transaction).map_err(|_| SendError::Closed)?;
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
