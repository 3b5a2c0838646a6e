//! A ledger inside a program: one writer, readers at three commitments, a key that records are found by.
//!
//! `cargo run -p query --example embedded_ledger`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;

use ledger::{Address, BlockId, Change, Commitment, KeyKind, Record};
use query::{Ledger, LedgerConfig};

/// The record of an address: a balance and its owner.
struct Balance {
    amount: u64,
    owner: Address,
}

/// Balances are found by their owner.
const OWNER: KeyKind = KeyKind(0);

impl Record for Balance {
    fn keys(&self, key: &mut dyn FnMut(KeyKind, Address)) {
        key(OWNER, self.owner);
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let alice = address("alice")?;
    let first = address("first")?;
    let second = address("second")?;
    let genesis = BlockId { slot: 0, version: 0 };
    let (mut ledger, reader) = Ledger::new(LedgerConfig::new(1_000), genesis, Arc::new(()));

    let block = BlockId { slot: 1, version: 1 };
    ledger.publish();
    ledger.open(block, genesis, Arc::new(()))?;
    let balance = |address, amount| Change {
        address,
        record: Some(Arc::new(Balance { amount, owner: alice })),
    };
    ledger.apply(block, vec![balance(first, 5), balance(second, 7)], Arc::new(()))?;
    ledger.publish();

    // The block is processed, but not confirmed yet.
    let amount = |commitment| reader.view(commitment).record(&first).map(|it| it.amount);
    println!("processed: {:?}", amount(Commitment::Processed));
    println!("confirmed: {:?}", amount(Commitment::Confirmed));
    assert_eq!((amount(Commitment::Processed), amount(Commitment::Confirmed)), (Some(5), None));

    ledger.complete(block, Arc::new(()))?;
    ledger.confirm(block)?;
    ledger.finalize(block)?;
    ledger.publish();
    let finalized = reader.view(Commitment::Finalized);
    let found = finalized.records_by_key_len(OWNER, &alice);
    println!("finalized, found by their owner: {found}");
    assert_eq!(found, 2);
    Ok(())
}

fn address(text: &str) -> Result<Address, ledger::AddressError> {
    Address::try_from(text.as_bytes())
}
