//! Pages of a script's UTXOs, read while the chain moves, and of a script with a million of them.

use chain_kaspa::{
    ChainConfig, PAGE_UTXOS_MIN, UtxoCursor, UtxoScan, hash_utxos, page_script_utxos, script_totals,
};
use kaspa::{
    AcceptedTransaction, AcceptingBlock, AddressUtxo, Hash, Header, Network, Outpoint,
    ParentLevels, Parents, SubnetworkId, Totals, Transaction, TransactionOutput, UtxoChanges,
    UtxoEntry,
};
use ledger::Commitment;

use crate::bounds::{config, load, p2pk, utxo};

/// UTXOs of one script.
const ACCOUNT_UTXOS: u32 = 1_000_000;
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

#[test]
fn an_account_of_a_million_utxos_is_read_in_pages() {
    let script = p2pk(1);
    let address = script.ledger_address();
    let utxos: Vec<_> =
        (0..ACCOUNT_UTXOS).map(|number| utxo(number, &script, u64::from(number))).collect();
    let config = ChainConfig::new(ACCOUNT_UTXOS + 1_000);
    let mut chain = load(config, &utxos).expect("the set of the header");
    drop(utxos);
    let amount = u64::from(ACCOUNT_UTXOS) * u64::from(ACCOUNT_UTXOS - 1) / 2;
    let totals = Totals { amount, count: u64::from(ACCOUNT_UTXOS), with_covenant: 0 };
    let reader = chain.reader();
    let view = reader.utxos.view(Commitment::Confirmed);
    assert_eq!(script_totals(&view, &address), totals);

    // In steps, on one view.
    let mut scan = UtxoScan::new(address);
    let mut count = 0;
    let mut sum = 0;
    let mut longest_step = 0;
    loop {
        let before = count;
        let has_more = scan.step(&view, 1_000, |utxo| {
            count += 1;
            sum += utxo.amount;
        });
        longest_step = longest_step.max(count - before);
        if !has_more {
            break;
        }
    }
    assert_eq!((count, sum), (totals.count, totals.amount));
    assert!(longest_step <= 1_000);

    // In pages, while the virtual state changes: each that stays is on one page.
    chain.join_virtual();
    let mut seen = vec![false; ACCOUNT_UTXOS as usize];
    let mut after: Option<UtxoCursor> = None;
    let mut pages = 0_u32;
    loop {
        let view = reader.utxos.view(Commitment::Processed);
        let page = page_script_utxos(&view, &address, after, 10_000).expect("the same run");
        assert!(page.utxos.len() <= 10_000);
        for utxo in &page.utxos {
            if let Some(seen) = seen.get_mut(utxo.amount as usize) {
                assert!(!*seen, "{} is on two pages", utxo.amount);
                *seen = true;
            }
        }
        pages += 1;
        after = page.next;
        if after.is_none() {
            break;
        }
        // A new one, and one of the first ten, is spent.
        let new = utxo(ACCOUNT_UTXOS + pages, &script, u64::MAX / 1_000);
        let spent = utxo(pages % 10, &script, u64::from(pages % 10));
        let to_utxo = |(outpoint, entry)| AddressUtxo { address: None, outpoint, entry };
        let changes = UtxoChanges { added: vec![to_utxo(new)], removed: vec![to_utxo(spent)] };
        chain.apply_utxos_changed(&changes);
        drop(chain.publish().expect("a publication"));
    }
    assert!(pages >= 100);
    let missed = seen[10..].iter().filter(|seen| !**seen).count();
    assert_eq!(missed, 0);
}
