//! Each kind of filter matches as documented.

use std::sync::Arc;

use chain_solana::{ExecutedTransaction, StatusVisibility};
use grpc::Config;
use solana_transaction_status::TransactionTokenBalance;
use yellowstone_grpc_proto::cuckoo::CompressedAccountFilterSet;
use yellowstone_grpc_proto::geyser::subscribe_request_filter_accounts_filter::Filter;
use yellowstone_grpc_proto::geyser::subscribe_request_filter_accounts_filter_lamports::Cmp;
use yellowstone_grpc_proto::geyser::subscribe_request_filter_accounts_filter_memcmp::Data;
use yellowstone_grpc_proto::geyser::subscribe_update::UpdateOneof;
use yellowstone_grpc_proto::geyser::{
    SubscribeRequest, SubscribeRequestAccountsDataSlice, SubscribeRequestFilterAccounts,
    SubscribeRequestFilterAccountsFilter, SubscribeRequestFilterAccountsFilterLamports,
    SubscribeRequestFilterAccountsFilterMemcmp, SubscribeRequestFilterBlocks,
    SubscribeRequestFilterBlocksMeta, SubscribeRequestFilterSlots,
    SubscribeRequestFilterTransactions, TokenAccountExpansionControlFlag,
};

use crate::client::{Subscription, connect};
use crate::ledger::{FIRST, ScriptedLedger, failed_transaction, key, transaction};

type Accounts = SubscribeRequestFilterAccounts;
type Transactions = SubscribeRequestFilterTransactions;

fn text(n: u8) -> String {
    key(n).to_string()
}

fn condition(filter: Filter) -> Vec<SubscribeRequestFilterAccountsFilter> {
    vec![SubscribeRequestFilterAccountsFilter { filter: Some(filter) }]
}

fn memcmp(offset: u64, data: Data) -> Vec<SubscribeRequestFilterAccountsFilter> {
    condition(Filter::Memcmp(SubscribeRequestFilterAccountsFilterMemcmp {
        offset,
        data: Some(data),
    }))
}

fn lamports(cmp: Cmp) -> Vec<SubscribeRequestFilterAccountsFilter> {
    condition(Filter::Lamports(SubscribeRequestFilterAccountsFilterLamports { cmp: Some(cmp) }))
}

/// The accounts of a fixed set of writes that a filter matches: 1 and 2 of owner 9, 3 of owner 8.
async fn matched_accounts(filter: Accounts) -> Vec<String> {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let request = SubscribeRequest {
        accounts: [("f".to_owned(), filter)].into(),
        // Says that no account follows.
        blocks_meta: [("end".to_owned(), SubscribeRequestFilterBlocksMeta {})].into(),
        ..SubscribeRequest::default()
    };
    let mut subscription = Subscription::start(&mut client, request).await;
    ledger.open(FIRST);
    ledger.write(FIRST, 1, 9, b"one", Some(1));
    ledger.write(FIRST, 2, 9, b"two!", None);
    ledger.write(FIRST, 3, 8, b"one", Some(1));
    ledger.freeze(FIRST);
    let mut found = Vec::new();
    loop {
        let next = subscription.take(1).await.remove(0);
        if next.starts_with("end") {
            return found;
        }
        found.push(next.trim_start_matches("f: account 101 ").to_owned());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_has_a_status_before_a_client_gets_it() {
    let transactions = SubscribeRequest {
        transactions: [("t".to_owned(), Transactions::default())].into(),
        ..SubscribeRequest::default()
    };
    let accounts = SubscribeRequest {
        accounts: [("a".to_owned(), Accounts::default())].into(),
        ..SubscribeRequest::default()
    };
    let slots = SubscribeRequest {
        slots: [("s".to_owned(), SubscribeRequestFilterSlots::default())].into(),
        ..SubscribeRequest::default()
    };
    for (request, is_told) in [(transactions, true), (accounts, true), (slots, false)] {
        let mut ledger = ScriptedLedger::start(Config::default());
        let mut client = connect(ledger.address()).await;
        let mut subscription = Subscription::start(&mut client, request).await;
        ledger.open(FIRST);
        let visibility = StatusVisibility::hidden();
        let executed = ExecutedTransaction { visibility, ..transaction(FIRST, 0, 1, &[1]) };
        let executed = Arc::new(executed);
        ledger.write_and_execute(1, &executed);
        ledger.freeze(FIRST);
        subscription.take(1).await;
        assert_eq!(executed.has_status(), is_told);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn account_filters_match_address_owner_data_lamports_and_signature() {
    let one = "1 one";
    let two = "2 two!";
    let three = "3 one";
    let mut cuckoo = CompressedAccountFilterSet::with_capacity(8).expect("it fits");
    cuckoo.insert(key(2)).expect("space");
    let base = Accounts::default;
    let cases = [
        (base(), vec![one, two, three]),
        (Accounts { account: vec![text(1), text(3)], ..base() }, vec![one, three]),
        (Accounts { owner: vec![text(9)], ..base() }, vec![one, two]),
        (Accounts { owner: vec![text(8)], account: vec![text(1)], ..base() }, vec![]),
        (Accounts { nonempty_txn_signature: Some(true), ..base() }, vec![one, three]),
        (Accounts { nonempty_txn_signature: Some(false), ..base() }, vec![two]),
        (Accounts { filters: condition(Filter::Datasize(4)), ..base() }, vec![two]),
        (Accounts { filters: memcmp(1, Data::Bytes(b"ne".to_vec())), ..base() }, vec![one, three]),
        (Accounts { filters: memcmp(2, Data::Base64("byE=".to_owned())), ..base() }, vec![two]),
        (Accounts { filters: memcmp(9, Data::Bytes(vec![1])), ..base() }, vec![]),
        (Accounts { filters: lamports(Cmp::Gt(1_000)), ..base() }, vec![two, three]),
        (Accounts { filters: lamports(Cmp::Eq(1_000)), ..base() }, vec![one]),
        (Accounts { filters: condition(Filter::TokenAccountState(true)), ..base() }, vec![]),
        (cuckoo.to_account_filter(), vec![two]),
        (Accounts { account: vec![text(1)], ..cuckoo.to_account_filter() }, vec![one, two]),
    ];
    for (filter, expected) in cases {
        assert_eq!(matched_accounts(filter.clone()).await, expected, "{filter:?}");
    }
}

fn with_owner(mut executed: ExecutedTransaction, n: u8, changes: bool) -> ExecutedTransaction {
    let balance = |amount: &str| TransactionTokenBalance {
        account_index: 0,
        mint: text(99),
        ui_token_amount: solana_account_decoder_client_types::token::UiTokenAmount {
            ui_amount: None,
            decimals: 0,
            amount: amount.to_owned(),
            ui_amount_string: amount.to_owned(),
        },
        owner: text(n),
        program_id: text(98),
    };
    executed.meta.pre_token_balances = Some(vec![balance("1")]);
    executed.meta.post_token_balances = Some(vec![balance(if changes { "2" } else { "1" })]);
    executed
}

/// The signatures of a fixed set of transactions that a filter matches.
async fn matched_transactions(filter: Transactions) -> Vec<u8> {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let filters = [("f".to_owned(), filter)];
    let request = SubscribeRequest {
        transactions: filters.clone().into(),
        transactions_status: filters.into(),
        blocks_meta: [("end".to_owned(), SubscribeRequestFilterBlocksMeta {})].into(),
        ..SubscribeRequest::default()
    };
    let mut subscription = Subscription::start(&mut client, request).await;
    ledger.open(FIRST);
    ledger.execute(transaction(FIRST, 0, 1, &[1, 2]));
    ledger.execute(failed_transaction(FIRST, 1, 2, &[2, 3]));
    ledger.execute(ExecutedTransaction { is_vote: true, ..transaction(FIRST, 2, 3, &[1, 3]) });
    ledger.execute(with_owner(transaction(FIRST, 3, 4, &[5]), 40, false));
    ledger.execute(with_owner(transaction(FIRST, 4, 5, &[6]), 40, true));
    ledger.freeze(FIRST);
    let mut found = Vec::new();
    let mut statuses = Vec::new();
    loop {
        match subscription.next().await.expect("an update").update_oneof.expect("an update") {
            UpdateOneof::Transaction(update) => {
                found.push(update.transaction.expect("a transaction").signature[0]);
            }
            UpdateOneof::TransactionStatus(status) => statuses.push(status.signature[0]),
            UpdateOneof::BlockMeta(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(found, statuses, "both kinds match the same");
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_filters_match_accounts_result_vote_and_token_owners() {
    let base = Transactions::default;
    let all = TokenAccountExpansionControlFlag::All.into();
    let changed = TokenAccountExpansionControlFlag::BalanceChanged.into();
    let signature = crate::ledger::signature(2).to_string();
    let mut cuckoo = CompressedAccountFilterSet::with_capacity(8).expect("it fits");
    cuckoo.insert(key(5)).expect("space");
    let cases = [
        (base(), vec![1, 2, 3, 4, 5]),
        (Transactions { vote: Some(true), ..base() }, vec![3]),
        (Transactions { failed: Some(true), ..base() }, vec![2]),
        (Transactions { vote: Some(false), failed: Some(false), ..base() }, vec![1, 4, 5]),
        (Transactions { signature: Some(signature), ..base() }, vec![2]),
        (Transactions { account_include: vec![text(1), text(5)], ..base() }, vec![1, 3, 4]),
        (Transactions { account_exclude: vec![text(2)], ..base() }, vec![3, 4, 5]),
        (Transactions { account_required: vec![text(1), text(3)], ..base() }, vec![3]),
        (
            Transactions {
                account_include: vec![text(2)],
                account_required: vec![text(1)],
                ..base()
            },
            vec![1],
        ),
        (Transactions { account_include: vec![text(40)], ..base() }, vec![]),
        (
            Transactions { account_include: vec![text(40)], token_accounts: Some(all), ..base() },
            vec![4, 5],
        ),
        (
            Transactions {
                account_include: vec![text(40)],
                token_accounts: Some(changed),
                ..base()
            },
            vec![5],
        ),
        (cuckoo.to_transaction_filter(), vec![4]),
    ];
    for (filter, expected) in cases {
        assert_eq!(matched_transactions(filter.clone()).await, expected, "{filter:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_the_names_of_all_filters_and_the_slices_of_the_data() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let of = |account: u8| Accounts { account: vec![text(account)], ..Accounts::default() };
    let request = |slices: &[(u64, u64)]| SubscribeRequest {
        accounts: [
            ("b".to_owned(), of(1)),
            ("a".to_owned(), Accounts { owner: vec![text(9)], ..Accounts::default() }),
            ("c".to_owned(), of(2)),
        ]
        .into(),
        accounts_data_slice: slices
            .iter()
            .map(|(offset, length)| SubscribeRequestAccountsDataSlice {
                offset: *offset,
                length: *length,
            })
            .collect(),
        ..SubscribeRequest::default()
    };
    let mut whole = Subscription::start(&mut client, request(&[])).await;
    let mut sliced = Subscription::start(&mut client, request(&[(0, 1), (3, 2)])).await;
    ledger.open(FIRST);
    ledger.write(FIRST, 1, 9, b"abcdef", None);
    assert_eq!(whole.take(1).await, ["a,b: account 101 1 abcdef"]);
    assert_eq!(sliced.take(1).await, ["a,b: account 101 1 ade"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_come_by_commitment_and_between_slots() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let slots = |by_commitment, interslot| SubscribeRequestFilterSlots {
        filter_by_commitment: Some(by_commitment),
        interslot_updates: Some(interslot),
    };
    let request = SubscribeRequest {
        slots: [
            ("all".to_owned(), slots(false, true)),
            ("own".to_owned(), slots(true, false)),
            ("plain".to_owned(), SubscribeRequestFilterSlots::default()),
        ]
        .into(),
        commitment: Some(1),
        ..SubscribeRequest::default()
    };
    let mut subscription = Subscription::start(&mut client, request).await;
    ledger.bank_with_write(FIRST, 1);
    ledger.root(crate::ledger::block_id(FIRST));
    let expected = [
        "all: created_bank 101",
        "all: completed 101",
        "all,plain: processed 101",
        "all,own,plain: confirmed 101",
        "all,plain: finalized 101",
    ];
    assert_eq!(subscription.take(5).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_has_what_its_filter_includes() {
    let mut ledger = ScriptedLedger::start(Config::default());
    let mut client = connect(ledger.address()).await;
    let base = SubscribeRequestFilterBlocks::default;
    let accounts = Some(true);
    let request = SubscribeRequest {
        blocks: [
            ("default".to_owned(), base()),
            (
                "of 2".to_owned(),
                SubscribeRequestFilterBlocks {
                    account_include: vec![text(2)],
                    include_accounts: accounts,
                    ..base()
                },
            ),
            (
                "only accounts".to_owned(),
                SubscribeRequestFilterBlocks {
                    include_transactions: Some(false),
                    include_accounts: accounts,
                    include_entries: Some(true),
                    ..base()
                },
            ),
        ]
        .into(),
        ..SubscribeRequest::default()
    };
    let mut subscription = Subscription::start(&mut client, request).await;
    ledger.open(FIRST);
    ledger.write(FIRST, 1, 9, b"old", Some(1));
    ledger.write(FIRST, 1, 9, b"new", Some(1));
    ledger.write(FIRST, 2, 9, b"x", Some(1));
    ledger.execute(transaction(FIRST, 0, 1, &[1]));
    ledger.execute(transaction(FIRST, 1, 2, &[2]));
    ledger.freeze(FIRST);
    let expected =
        ["default: block 101 2 0", "of 2: block 101 1 1", "only accounts: block 101 0 2"];
    assert_eq!(subscription.take(3).await, expected);
}
