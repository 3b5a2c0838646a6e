//! A large set of small UTXOs, as the dust of mainnet, and transactions that spend from it.
//!
//! Shape: a script is known by its number ([`numbered_payload`]), so that a pool needs 56 bytes for a UTXO. Hashes are
//! made from numbers. The same seed and the same calls lead to the same transactions.

use fastrand::Rng;
use kaspa::{
    AcceptedTransaction, AddressPayload, Hash, Outpoint, ScriptPublicKey, SubnetworkId,
    Transaction, TransactionInput, TransactionOutput, UtxoEntry,
};

/// The DAA score of the first dust, and the UTXOs of each block of it.
const DUST_DAA_SCORE: u64 = 55_000_000;
const DUST_BLOCK_UTXOS: u32 = 1_185;
/// The least and the most sompi of a UTXO: at most a hundredth of a KAS.
const DUST_SOMPI_MIN: u64 = 10_000;
const DUST_SOMPI_MAX: u64 = 1_000_000;
/// Domains of numbered hashes.
const SCRIPT_DOMAIN: u64 = 1 << 40;
const TRANSACTION_DOMAIN: u64 = 2 << 40;

/// UTXOs that can be spent.
pub struct UtxoPool {
    rng: Rng,
    scripts: u32,
    unspent: Vec<PooledUtxo>,
    /// Rewards that were made.
    rewards: u64,
}

#[derive(Clone, Copy)]
struct PooledUtxo {
    outpoint: Outpoint,
    script: u32,
    amount: u64,
    block_daa_score: u64,
}

/// A transaction of a pool. The outputs that it spends are not in the pool.
pub struct PooledTransaction {
    /// The transaction as a block accepts it.
    pub accepted: AcceptedTransaction,
    inputs: Vec<PooledUtxo>,
    output_scripts: Vec<u32>,
}

/// Returns the key of a script.
pub fn numbered_payload(script: u32) -> AddressPayload {
    AddressPayload::PublicKey(numbered_hash(SCRIPT_DOMAIN, script.into()))
}

/// Returns a UTXO of a set in which each has a script of its own, and each transaction made a number of them.
pub fn dust_utxo(number: u32, outputs_per_transaction: u32) -> (Outpoint, UtxoEntry) {
    let utxo = dust(number, outputs_per_transaction);
    (utxo.outpoint, utxo.to_entry())
}

fn dust(number: u32, outputs_per_transaction: u32) -> PooledUtxo {
    let transaction = number / outputs_per_transaction;
    let transaction_id = Hash(numbered_hash(TRANSACTION_DOMAIN, transaction.into()));
    let spread = Rng::with_seed(number.into()).u64(..DUST_SOMPI_MAX - DUST_SOMPI_MIN);
    PooledUtxo {
        outpoint: Outpoint { transaction_id, index: number % outputs_per_transaction },
        script: number,
        amount: DUST_SOMPI_MIN + spread,
        block_daa_score: DUST_DAA_SCORE + u64::from(number / DUST_BLOCK_UTXOS),
    }
}

fn numbered_hash(domain: u64, number: u64) -> [u8; 32] {
    let mut hash = [0; 32];
    Rng::with_seed(domain | number).fill(&mut hash);
    hash
}

fn to_script(number: u32) -> ScriptPublicKey {
    ScriptPublicKey::from_payload(&numbered_payload(number))
}

impl PooledUtxo {
    fn to_entry(self) -> UtxoEntry {
        UtxoEntry {
            amount: self.amount,
            script_public_key: to_script(self.script),
            block_daa_score: self.block_daa_score,
            is_coinbase: false,
            covenant_id: None,
        }
    }
}

impl UtxoPool {
    /// Creates a pool with one UTXO for each of `scripts` scripts: [`dust_utxo`], one output a transaction.
    pub fn new(seed: u64, scripts: u32) -> Self {
        let unspent = (0..scripts).map(|number| dust(number, 1)).collect();
        Self { rng: Rng::with_seed(seed), scripts, unspent, rewards: 0 }
    }

    /// Makes a transaction that spends UTXOs chosen at random, and pays to scripts chosen at random. They leave the
    /// pool.
    pub fn make_transaction(&mut self, inputs: usize, outputs: usize) -> PooledTransaction {
        let inputs: Vec<PooledUtxo> = (0..inputs).map(|_| self.take_utxo()).collect();
        let amount = inputs.iter().map(|input| input.amount).sum::<u64>() / outputs.max(1) as u64;
        let output_scripts: Vec<u32> = (0..outputs).map(|_| self.rng.u32(..self.scripts)).collect();
        let to_input = |utxo: &PooledUtxo| TransactionInput {
            previous_outpoint: utxo.outpoint,
            signature_script: vec![0x41; 66],
            sequence: 0,
            sig_op_count: 1,
            compute_budget: 0,
        };
        let transaction = Transaction {
            inputs: inputs.iter().map(to_input).collect(),
            outputs: output_scripts.iter().map(|script| new_output(*script, amount)).collect(),
            ..Transaction::default()
        };
        let spent = inputs.iter().map(|input| input.to_entry()).collect();
        PooledTransaction { accepted: accept(transaction, spent), inputs, output_scripts }
    }

    /// Makes a reward that pays to these scripts. Its outputs do not come into the pool.
    pub fn make_reward(&mut self, scripts: &[u32]) -> AcceptedTransaction {
        self.rewards += 1;
        let outputs = scripts.iter().map(|script| new_output(*script, DUST_SOMPI_MAX));
        let transaction = Transaction {
            outputs: outputs.collect(),
            subnetwork_id: SubnetworkId::COINBASE,
            payload: self.rewards.to_le_bytes().to_vec(),
            ..Transaction::default()
        };
        accept(transaction, Vec::new())
    }

    /// Takes the outputs of a transaction that a block with this DAA score accepts.
    pub fn add_outputs(&mut self, accepted: &PooledTransaction, block_daa_score: u64) {
        let PooledTransaction { accepted, output_scripts, .. } = accepted;
        let outputs = accepted.transaction.outputs.iter().zip(output_scripts);
        let utxos = (0..).zip(outputs).map(|(index, (output, script))| PooledUtxo {
            outpoint: Outpoint { transaction_id: accepted.id, index },
            script: *script,
            amount: output.amount,
            block_daa_score,
        });
        self.unspent.extend(utxos);
    }

    /// Takes back the UTXOs that a transaction spends: no block accepts it.
    pub fn restore_inputs(&mut self, dropped: &PooledTransaction) {
        self.unspent.extend_from_slice(&dropped.inputs);
    }

    fn take_utxo(&mut self) -> PooledUtxo {
        let at = self.rng.usize(..self.unspent.len());
        self.unspent.swap_remove(at)
    }
}

fn new_output(script: u32, amount: u64) -> TransactionOutput {
    TransactionOutput { amount, script_public_key: to_script(script), covenant: None }
}

fn accept(transaction: Transaction, spent: Vec<UtxoEntry>) -> AcceptedTransaction {
    let id = transaction.id();
    AcceptedTransaction { id, transaction, spent, block_hash: Hash::default(), block_time_ms: 0 }
}
