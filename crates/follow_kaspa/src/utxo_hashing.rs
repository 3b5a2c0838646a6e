//! The product over UTXOs, computed on all threads of the machine.
//!
//! A product does not depend on the order of its factors, so each thread multiplies a part of them.
//! Bounds: the threads end with the call.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use chain_kaspa::hash_utxos;
use kaspa::{Outpoint, UtxoEntry};
use muhash::MuHash;

/// A UTXO with its outpoint.
pub(crate) type Utxo = (Outpoint, UtxoEntry);

/// Returns the number of threads that run at the same time.
pub(crate) fn count_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Returns the product over the UTXOs of some batches, which should have equal lengths.
///
/// Cost: 3.3 µs of CPU time for each UTXO.
pub(crate) fn hash_batches(batches: &[Vec<Utxo>]) -> MuHash {
    let next = AtomicUsize::new(0);
    let hash_some = || {
        let mut product = MuHash::EMPTY;
        while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
            product.mix_in(&hash_utxos(batch));
        }
        product
    };
    let others = count_threads().min(batches.len()).saturating_sub(1);
    thread::scope(|scope| {
        // A thread that cannot be started leaves its part to the others.
        let start = |_| thread::Builder::new().spawn_scoped(scope, hash_some).ok();
        let threads: Vec<_> = (0..others).filter_map(start).collect();
        let mut product = hash_some();
        for thread in threads {
            match thread.join() {
                Ok(part) => product.mix_in(&part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        product
    })
}

#[cfg(test)]
mod tests {
    use kaspa::{AddressPayload, Hash, ScriptPublicKey};

    use super::*;

    #[test]
    fn the_product_does_not_depend_on_the_batches() {
        let utxo = |index: u32| {
            let payload = AddressPayload::PublicKey([7; 32]);
            let entry = UtxoEntry {
                amount: u64::from(index) + 1,
                script_public_key: ScriptPublicKey::from_payload(&payload),
                block_daa_score: 3,
                is_coinbase: false,
                covenant_id: None,
            };
            (Outpoint { transaction_id: Hash([1; 32]), index }, entry)
        };
        let utxos: Vec<Utxo> = (0..100).map(utxo).collect();
        let expected = hash_utxos(&utxos).finalize();
        for batch_len in [1, 7, 50, 99, 100, 1_000] {
            let batches: Vec<Vec<Utxo>> = utxos.chunks(batch_len).map(<[Utxo]>::to_vec).collect();
            assert_eq!(hash_batches(&batches).finalize(), expected, "{batch_len}");
        }
        assert_eq!(hash_batches(&[]).finalize(), MuHash::EMPTY.finalize());
    }
}
