//! The UTXOs of one address while they are read from a view.

use chain_kaspa::{UtxoScan, View};
use kaspa::{AddressPayload, AddressUtxo, KaspaAddress, Prefix, ScriptPublicKey};

/// The UTXOs of one address while they are read.
pub(crate) struct AddressScan {
    address: KaspaAddress,
    script: ScriptPublicKey,
    scan: UtxoScan,
}

impl AddressScan {
    /// Starts to read the UTXOs of an address, which they have with this prefix.
    pub(crate) fn new(payload: AddressPayload, prefix: Prefix) -> Self {
        Self {
            address: KaspaAddress { prefix, payload },
            script: ScriptPublicKey::from_payload(&payload),
            scan: UtxoScan::new(payload.ledger_address()),
        }
    }

    /// Calls `visit` for the next UTXOs, as [`UtxoScan::step`] does. Returns whether there may be more.
    pub(crate) fn step(
        &mut self,
        view: &View,
        visits_max: usize,
        mut visit: impl FnMut(&AddressUtxo),
    ) -> bool {
        let Self { address, script, scan } = self;
        scan.step(view, visits_max, |utxo| {
            visit(&AddressUtxo {
                address: Some(*address),
                outpoint: utxo.outpoint,
                entry: utxo.to_entry(script.clone()),
            });
        })
    }
}
