//! A transaction service that executes nothing: it records every call and answers as a test says.

use chain_solana::{
    AirdropError, Faucet, SendError, Sender, Simulation, SimulationError, SimulationRequest,
    Simulator, TransactionSender, VerifiedTransaction, View, WrittenAccounts,
};
use ledger::Slot;
use parking_lot::Mutex;
use solana_hash::Hash;
use solana_pubkey::Pubkey;
use solana_signature::Signature;

/// A larger airdrop is refused, in lamports.
pub const AIRDROP_MAX: u64 = 1_000_000_000_000;

/// The next results of a service, and the calls that it received. It accepts transactions and airdrops, and fails
/// simulations, until a test says otherwise.
pub struct FakeTransactionService {
    /// The transactions that it accepted.
    pub sent: Mutex<Vec<VerifiedTransaction>>,
    /// The senders of all transactions and airdrops.
    pub senders: Mutex<Vec<Sender>>,
    /// The result of sending a transaction. An error is the result of an airdrop too.
    pub send: Mutex<Result<(), SendError>>,
    /// The simulations, with the slots of their views.
    pub simulated: Mutex<Vec<(Slot, SimulationRequest)>>,
    /// The accounts that each simulation was after.
    pub written: Mutex<Vec<WrittenAccounts>>,
    /// The result of a simulation.
    pub simulation: Mutex<Result<Simulation, SimulationError>>,
    /// The airdrops: receiver, lamports, blockhash.
    pub airdrops: Mutex<Vec<(Pubkey, u64, Hash)>>,
    /// The result of an airdrop of at most [`AIRDROP_MAX`].
    pub airdrop: Mutex<Result<Signature, AirdropError>>,
}

impl Default for FakeTransactionService {
    fn default() -> Self {
        let error = SimulationError::Sanitize("no simulation is set".to_owned());
        Self {
            sent: Mutex::default(),
            senders: Mutex::default(),
            send: Mutex::new(Ok(())),
            simulated: Mutex::default(),
            written: Mutex::default(),
            simulation: Mutex::new(Err(error)),
            airdrops: Mutex::default(),
            airdrop: Mutex::new(Ok(Signature::from([9; 64]))),
        }
    }
}

impl TransactionSender for FakeTransactionService {
    fn send(&self, sender: Sender, transaction: VerifiedTransaction) -> Result<(), SendError> {
        self.senders.lock().push(sender);
        self.send.lock().clone()?;
        self.sent.lock().push(transaction);
        Ok(())
    }
}

impl Simulator for FakeTransactionService {
    fn simulate_after(
        &self,
        view: &View,
        written: &WrittenAccounts,
        request: SimulationRequest,
    ) -> Result<Simulation, SimulationError> {
        self.written.lock().push(written.clone());
        self.simulated.lock().push((view.block().slot, request));
        self.simulation.lock().clone()
    }
}

impl Faucet for FakeTransactionService {
    fn airdrop(
        &self,
        sender: Sender,
        to: Pubkey,
        lamports: u64,
        blockhash: Hash,
    ) -> Result<Signature, AirdropError> {
        self.senders.lock().push(sender);
        self.airdrops.lock().push((to, lamports, blockhash));
        if lamports > AIRDROP_MAX {
            return Err(AirdropError::TooMuch { lamports, limit: AIRDROP_MAX });
        }
        self.send.lock().clone().map_err(AirdropError::Send)?;
        self.airdrop.lock().clone()
    }
}
