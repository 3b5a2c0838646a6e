//! The addresses of a run, and the transactions of its load.
//!
//! Most addresses are hashes of scripts that anyone can spend: a number is dropped, and true remains. So transactions
//! need no signature, and there is any number of addresses. Standard rules of kaspad's mempool allow these scripts. The
//! others are public keys without a known private key: their UTXOs stay.
//! Bounds: [`SPENDABLE_ADDRESSES`] and [`KEY_ADDRESSES`], so each UTXO of the network is found by one of them.

use std::collections::HashMap;

use kaspa::{
    AddressPayload, AddressUtxo, Hash, KaspaAddress, Outpoint, Prefix, ScriptPublicKey,
    Transaction, TransactionInput, TransactionOutput,
};
use serde_json::{Value, json};

use crate::rig::random::Random;

/// Addresses with a script that anyone can spend.
pub(crate) const SPENDABLE_ADDRESSES: usize = 200;
/// Addresses of public keys. Every second key is an ECDSA key.
pub(crate) const KEY_ADDRESSES: usize = 24;
/// DAA scores until a coinbase can be spent, in the networks of the rig.
pub(crate) const COINBASE_MATURITY: u64 = 10;
/// DAA scores until the load spends a coinbase: the chain may lose some by a reorganization.
const SPEND_DELAY: u64 = 2 * COINBASE_MATURITY;
/// Fee of a transaction, in sompi. kaspad requires 100 sompi for each gram of mass.
const FEE: u64 = 10_000_000;
/// The smallest output of the load, in sompi. Smaller ones have a larger mass.
const OUTPUT_MIN: u64 = 100_000_000;
/// The most inputs and outputs of a transaction. More inputs than outputs, so that the UTXO set does not grow without
/// end.
pub(crate) const INPUTS_MAX: usize = 5;
pub(crate) const OUTPUTS_MAX: usize = 3;

/// Operations of scripts.
mod op {
    pub(super) const DATA_4: u8 = 0x04;
    pub(super) const DROP: u8 = 0x75;
    pub(super) const TRUE: u8 = 0x51;
}

/// The addresses of a run and the UTXOs that the load may spend.
pub(crate) struct Wallet {
    addresses: Vec<KaspaAddress>,
    spendable: Vec<SpendableUtxo>,
}

/// A UTXO with the number of its script.
#[derive(Clone, Copy, Debug)]
struct SpendableUtxo {
    outpoint: Outpoint,
    amount: u64,
    script: usize,
}

impl Wallet {
    /// Creates a wallet without UTXOs.
    pub(crate) fn new() -> Self {
        let scripts = (0..SPENDABLE_ADDRESSES)
            .map(|number| AddressPayload::ScriptHash(hash_script(&redeem_script(number))));
        let keys = (0..KEY_ADDRESSES).map(|number| {
            let key = [number as u8 + 1; 32];
            if number % 2 == 0 {
                AddressPayload::PublicKey(key)
            } else {
                let mut ecdsa_key = [2; 33];
                ecdsa_key[1..].copy_from_slice(&key);
                AddressPayload::EcdsaPublicKey(ecdsa_key)
            }
        });
        let to_address = |payload| KaspaAddress { prefix: Prefix::Simnet, payload };
        Self { addresses: scripts.chain(keys).map(to_address).collect(), spendable: Vec::new() }
    }

    /// Returns all addresses.
    pub(crate) fn addresses(&self) -> &[KaspaAddress] {
        &self.addresses
    }

    /// Returns a spendable address for the reward of a block.
    pub(crate) fn random_reward_address(&self, random: &mut Random) -> KaspaAddress {
        self.addresses[random.next_below(SPENDABLE_ADDRESSES)]
    }

    /// Sets the UTXOs that may be spent at this DAA score, out of those of all addresses.
    pub(crate) fn set_utxos(&mut self, utxos: &[AddressUtxo], daa_score: u64) {
        let is_ripe = |utxo: &&AddressUtxo| {
            !utxo.entry.is_coinbase || utxo.entry.block_daa_score + SPEND_DELAY <= daa_score
        };
        let scripts: HashMap<&KaspaAddress, usize> =
            self.addresses[..SPENDABLE_ADDRESSES].iter().zip(0..).collect();
        let find = |utxo: &AddressUtxo| {
            let script = *scripts.get(utxo.address.as_ref()?)?;
            let AddressUtxo { outpoint, entry, .. } = utxo;
            Some(SpendableUtxo { outpoint: *outpoint, amount: entry.amount, script })
        };
        self.spendable = utxos.iter().filter(is_ripe).filter_map(find).collect();
    }

    /// Returns a transaction that spends UTXOs which no other one spends. `None` if too few of them are left.
    pub(crate) fn next_transaction(&mut self, random: &mut Random) -> Option<Transaction> {
        self.next_conflict(random, 1)?.pop()
    }

    /// Returns transactions that spend the same UTXOs: at most one of them can be accepted.
    pub(crate) fn next_conflict(
        &mut self,
        random: &mut Random,
        count: usize,
    ) -> Option<Vec<Transaction>> {
        let inputs_count = 1 + random.next_below(INPUTS_MAX);
        let rest = self.spendable.len().checked_sub(inputs_count)?;
        let inputs = self.spendable.split_off(rest);
        Some((0..count).filter_map(|_| self.pay(&inputs, random)).collect())
    }

    /// Pays the sum of the inputs to random addresses. `None` if it is too small.
    fn pay(&self, inputs: &[SpendableUtxo], random: &mut Random) -> Option<Transaction> {
        let sum: u64 = inputs.iter().map(|input| input.amount).sum();
        let mut left = sum.checked_sub(FEE + OUTPUT_MIN)?;
        let mut outputs = Vec::new();
        for _ in 1..=random.next_below(OUTPUTS_MAX) {
            let address = self.addresses[random.next_below(self.addresses.len())];
            // Amounts differ, so that wrong outputs do not have the right sum by chance.
            let amount = OUTPUT_MIN + random.next_below(1_000_000) as u64;
            let Some(remainder) = left.checked_sub(amount) else { break };
            outputs.push(pay_to(&address, amount));
            left = remainder;
        }
        let change = self.random_reward_address(random);
        outputs.push(pay_to(&change, left + OUTPUT_MIN));
        let inputs = inputs.iter().map(|input| TransactionInput {
            previous_outpoint: input.outpoint,
            signature_script: unlocking_script(&redeem_script(input.script)),
            sequence: 0,
            sig_op_count: 0,
            compute_budget: 0,
        });
        Some(Transaction { inputs: inputs.collect(), outputs, ..Transaction::default() })
    }
}

/// Returns the script with this number. Anyone can spend it.
fn redeem_script(number: usize) -> Vec<u8> {
    let mut script = vec![op::DATA_4];
    script.extend_from_slice(&(number as u32).to_le_bytes());
    script.extend_from_slice(&[op::DROP, op::TRUE]);
    script
}

/// Returns the script of an input: it pushes the script that the output has the hash of.
fn unlocking_script(redeem_script: &[u8]) -> Vec<u8> {
    let mut script = vec![redeem_script.len() as u8];
    script.extend_from_slice(redeem_script);
    script
}

fn hash_script(script: &[u8]) -> [u8; 32] {
    let mut hash = Hash::default();
    let digest = blake2b_simd::Params::new().hash_length(hash.0.len()).hash(script);
    hash.0.copy_from_slice(digest.as_bytes());
    hash.0
}

fn pay_to(address: &KaspaAddress, amount: u64) -> TransactionOutput {
    let script_public_key = ScriptPublicKey::from_payload(&address.payload);
    TransactionOutput { amount, script_public_key, covenant: None }
}

/// Returns a transaction in the JSON of submitTransaction.
pub(crate) fn to_json(transaction: &Transaction) -> Value {
    let inputs = transaction.inputs.iter().map(|input| {
        json!({
            "previousOutpoint": {
                "transactionId": input.previous_outpoint.transaction_id.to_string(),
                "index": input.previous_outpoint.index,
            },
            "signatureScript": to_hex(&input.signature_script),
            "sequence": input.sequence,
            "sigOpCount": input.sig_op_count,
            "computeBudget": input.compute_budget,
            "verboseData": null,
        })
    });
    let outputs = transaction.outputs.iter().map(|output| {
        let mut script = Vec::new();
        output.script_public_key.encode_hex_into(&mut script);
        json!({
            "value": output.amount,
            "scriptPublicKey": String::from_utf8_lossy(&script),
            "covenant": null,
            "verboseData": null,
        })
    });
    json!({
        "version": transaction.version,
        "inputs": inputs.collect::<Vec<Value>>(),
        "outputs": outputs.collect::<Vec<Value>>(),
        "lockTime": transaction.lock_time,
        "subnetworkId": to_hex(&transaction.subnetwork_id.0),
        "gas": transaction.gas,
        "payload": to_hex(&transaction.payload),
        "mass": 0,
        "storageMass": 0,
        "verboseData": null,
    })
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use kaspa::UtxoEntry;

    use super::*;

    fn utxo(address: KaspaAddress, index: u32, is_coinbase: bool) -> AddressUtxo {
        AddressUtxo {
            address: Some(address),
            outpoint: Outpoint { transaction_id: Hash([7; 32]), index },
            entry: UtxoEntry {
                amount: 5_000_000_000,
                script_public_key: ScriptPublicKey::from_payload(&address.payload),
                block_daa_score: 100,
                is_coinbase,
                covenant_id: None,
            },
        }
    }

    #[test]
    fn addresses_are_distinct_and_the_first_one_is_known() {
        let wallet = Wallet::new();
        let mut addresses = wallet.addresses().to_vec();
        // The address that Python's hashlib and a real kaspad agreed on.
        let expected = "kaspasim:pr9uavj5cxvwmyy3rdeqmd7ae2umc22cu0adupzjfts3jlp4hlhpz7vsxcup5";
        assert!(addresses.iter().any(|address| address.to_string() == expected));
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), SPENDABLE_ADDRESSES + KEY_ADDRESSES);
    }

    #[test]
    fn a_transaction_spends_ripe_utxos_once_and_pays_the_fee() {
        let mut wallet = Wallet::new();
        let mut random = Random::with_seed(1);
        let addresses = wallet.addresses().to_vec();
        let mut utxos: Vec<AddressUtxo> =
            (0..40).map(|index| utxo(addresses[index as usize], index, index % 2 == 0)).collect();
        utxos.push(utxo(addresses[SPENDABLE_ADDRESSES], 99, false));
        wallet.set_utxos(&utxos, 100 + SPEND_DELAY - 1);
        let mut spent = Vec::new();
        while let Some(transaction) = wallet.next_transaction(&mut random) {
            let amount: u64 = transaction.outputs.iter().map(|output| output.amount).sum();
            assert_eq!(amount + FEE, 5_000_000_000 * transaction.inputs.len() as u64);
            let outpoints = transaction.inputs.iter().map(|input| input.previous_outpoint.index);
            spent.extend(outpoints);
            assert!(transaction.outputs.iter().all(|output| output.amount >= OUTPUT_MIN));
        }
        let count = spent.len();
        spent.sort_unstable();
        spent.dedup();
        assert_eq!(spent.len(), count);
        // No unripe coinbase, and nothing of a public key.
        assert!(spent.iter().all(|index| index % 2 == 1 && *index != 99));
        wallet.set_utxos(&utxos, 100 + SPEND_DELAY);
        assert_eq!(wallet.spendable.len(), 40);
    }

    #[test]
    fn conflicting_transactions_spend_the_same_utxos() {
        let mut wallet = Wallet::new();
        let mut random = Random::with_seed(2);
        let address = wallet.addresses()[3];
        wallet.set_utxos(&[utxo(address, 0, false), utxo(address, 1, false)], 100);
        while let Some(pair) = wallet.next_conflict(&mut random, 2) {
            assert_eq!(pair.len(), 2);
            assert_eq!(pair[0].inputs, pair[1].inputs);
            assert_ne!(pair[0].id(), pair[1].id());
        }
    }

    #[test]
    fn a_transaction_in_json_has_kaspads_fields() {
        let mut wallet = Wallet::new();
        let address = wallet.addresses()[0];
        wallet.set_utxos(&[utxo(address, 4, false)], 100);
        let mut random = Random::with_seed(0);
        let mut transaction = None;
        while transaction.is_none() && !wallet.spendable.is_empty() {
            transaction = wallet.next_transaction(&mut random);
        }
        let json = to_json(&transaction.unwrap());
        let input = &json["inputs"][0];
        assert_eq!(input["previousOutpoint"]["index"], 4);
        assert_eq!(input["signatureScript"], "0704000000007551");
        let script = json["outputs"][0]["scriptPublicKey"].as_str().unwrap();
        assert!(script.starts_with("0000"), "{script}");
        assert_eq!(json["subnetworkId"].as_str().unwrap().len(), 40);
    }
}
