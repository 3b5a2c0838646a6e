//! Pages of a script's UTXOs, read while the chain moves.

use chain_kaspa::{PAGE_UTXOS_MIN, UtxoCursor, hash_utxos, page_script_utxos};
use kaspa::{
    AcceptedTransaction, AcceptingBlock, AddressUtxo, Hash, Header, Network, Outpoint,
    ParentLevels, Parents, SubnetworkId, Transaction, TransactionOutput, UtxoChanges, UtxoEntry,
};
use ledger::Commitment;

use crate::bounds::{config, load, p2pk, utxo};

/// One fewer than a script's record holds.
const FINAL_UTXOS: u32 = 7;

#[test]
fn a_final_utxo_is_on_one_page_and_a_virtual_one_may_not_be() {
    let script = p2pk(1);
    let address = script.ledger_address();
    let final_utxos: Vec<_> =
        (0..FINAL_UTXOS).map(|number| utxo(number, &script, u64::from(number))).collect();
    let mut chain = load(config(), &final_utxos).expect("the set of the header");
    let reader = chain.reader();
    let sink = chain.sink();
    let read_page = |after| {
        let view = reader.utxos.view(Commitment::Processed);
        page_script_utxos(&view, &address, after, PAGE_UTXOS_MIN).expect("the same run")
    };

    // The virtual block has two more: x fits into the script's record, y has a record of its own.
    let output = TransactionOutput { amount: 200, script_public_key: script, covenant: None };
    let transaction = Transaction {
        outputs: vec![output],
        subnetwork_id: SubnetworkId::COINBASE,
        ..Transaction::default()
    };
    let daa_score = sink.daa_score + 1;
    let y = Outpoint { transaction_id: transaction.id(), index: 0 };
    let y_entry = transaction.outputs[0].to_utxo(daa_score, true);
    let x = Outpoint { transaction_id: Hash::default(), index: 0 };
    let x_entry = UtxoEntry { amount: 100, ..y_entry.clone() };
    let to_utxo =
        |outpoint, entry: &UtxoEntry| AddressUtxo { address: None, outpoint, entry: entry.clone() };
    chain.join_virtual();
    let added = vec![to_utxo(x, &x_entry), to_utxo(y, &y_entry)];
    chain.apply_utxos_changed(&UtxoChanges { added, removed: Vec::new() });
    drop(chain.publish().expect("a publication"));
    let first = read_page(None);
    assert_eq!(first.next, Some(UtxoCursor::Inside));

    // A chain block accepts y only. Now y is in the script's record, and x has one of its own.
    let levels = ParentLevels { cumulative_level: 1, parents: vec![sink.hash] };
    let mut product = hash_utxos(&final_utxos);
    product.add(&y_entry.element(&y));
    let header = Header {
        parents: Parents::new(vec![levels]).expect("one level"),
        utxo_commitment: Hash(product.finalize()),
        daa_score,
        blue_score: sink.blue_score + 1,
        ..Network::Simnet.genesis()
    };
    let accepted = AcceptedTransaction {
        id: y.transaction_id,
        transaction,
        spent: Vec::new(),
        block_hash: Hash::default(),
        block_time_ms: 0,
    };
    let block = AcceptingBlock { hash: header.hash(), header, transactions: vec![accepted] };
    let mut step = chain.start_step(&[]).expect("a step");
    step.add_block(block).expect("an honest block");
    step.commit();
    drop(chain.publish().expect("a publication"));
    let second = read_page(first.next);
    assert_eq!(second.next, None);

    let mut amounts: Vec<u64> =
        first.utxos.iter().chain(&second.utxos).map(|utxo| utxo.amount).collect();
    amounts.sort_unstable();
    let finals: Vec<u64> = (0..u64::from(FINAL_UTXOS)).collect();
    let (on_pages, others) = amounts.split_at(finals.len());
    assert_eq!(on_pages, finals, "each once");
    assert_eq!(others, [100, 100], "x twice, and y not at all");
}
