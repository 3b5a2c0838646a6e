//! A cheap check of a transaction's bytes before anything is allocated for it.
//!
//! In: bytes. Out: whether the counts at their beginning match each other and the length.
//! Not here: full sanitization (`VersionedTransaction::sanitize`), signatures (`sigverify`).

/// Length of a signature in bytes.
const SIGNATURE: usize = 64;
/// Length of a key, and of a blockhash, in bytes.
const KEY: usize = 32;
/// The highest bit of the first byte marks versioned messages.
const VERSIONED: u8 = 0x80;
/// Signatures that fit into a packet, with their keys and the rest: Agave's own bound.
const SIGNATURES_MAX: usize = 12;

/// Returns whether these bytes may be a transaction.
pub(crate) fn precheck(bytes: &[u8]) -> bool {
    match bytes.first() {
        // From version 1 on, signatures are at the end. The decoder checks everything.
        Some(first) if first & VERSIONED != 0 => bytes.len() > SIGNATURE + 2 * KEY,
        // A count below 128 is one byte, and no more than 12 fit.
        Some(signatures @ 1..) if usize::from(*signatures) <= SIGNATURES_MAX => {
            let signatures = usize::from(*signatures);
            bytes
                .get(1 + signatures * SIGNATURE..)
                .is_some_and(|message| precheck_message(message, signatures))
        }
        _ => false,
    }
}

fn precheck_message(message: &[u8], signatures: usize) -> bool {
    let message = match message.split_first() {
        Some((&VERSIONED, rest)) => rest,
        Some((first, _)) if first & VERSIONED == 0 => message,
        _ => return false,
    };
    let [required, readonly_signed, _, keys, rest @ ..] = message else { return false };
    let required = usize::from(*required);
    let keys = usize::from(*keys);
    required == signatures
        && usize::from(*readonly_signed) < required
        && required <= keys
        && rest.len() > (keys + 1) * KEY
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use solana_keypair::Keypair;
    use solana_message::{Message, VersionedMessage};
    use solana_pubkey::Pubkey;
    use solana_signer::Signer;
    use solana_transaction::versioned::VersionedTransaction;

    use super::*;

    fn transfer() -> Vec<u8> {
        let payer = Keypair::new();
        let to = Pubkey::new_from_array([3; 32]);
        let transfer = solana_system_interface::instruction::transfer(&payer.pubkey(), &to, 1);
        let message = Message::new(&[transfer], Some(&payer.pubkey()));
        let transaction =
            VersionedTransaction::try_new(VersionedMessage::Legacy(message), &[&payer]);
        wincode::serialize(&transaction.expect("signed")).expect("fits")
    }

    #[test]
    fn a_transfer_passes_and_its_parts_do_not() {
        let bytes = transfer();
        assert!(precheck(&bytes));
        assert!((0..150).all(|len| !precheck(&bytes[..len])));
    }

    #[test]
    fn counts_that_contradict_each_other_do_not_pass() {
        let bytes = transfer();
        for (at, value) in [(0, 0), (0, 2), (0, 13), (65, 0), (65, 2), (66, 1), (68, 0), (68, 40)] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            assert!(!precheck(&bytes), "byte {at} as {value}");
        }
    }

    proptest! {
        #[test]
        fn what_decodes_passes_the_precheck(mut bytes in Just(transfer()), at in 0usize..215, value: u8) {
            bytes[at] = value;
            let decoded = wincode::deserialize::<VersionedTransaction>(&bytes);
            if decoded.is_ok_and(|transaction| transaction.sanitize().is_ok()) {
                prop_assert!(precheck(&bytes));
            }
        }
    }
}
