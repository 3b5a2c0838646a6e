//! The nine subscriptions, each with something that makes it speak.

use solana_commitment_config::CommitmentConfig;
use solana_pubkey::Pubkey;
use solana_rpc_client_api::config::{
    RpcAccountInfoConfig, RpcBlockSubscribeConfig, RpcBlockSubscribeFilter,
    RpcProgramAccountsConfig, RpcSignatureSubscribeConfig, RpcTransactionLogsConfig,
    RpcTransactionLogsFilter,
};
use solana_rpc_client_api::response::{RpcSignatureResult, SlotUpdate};
use solana_signature::Signature;
use solana_signer::Signer;
use solana_system_interface::instruction::transfer;
use solana_transaction_status_client_types::TransactionDetails;

use super::stage::stage;
use crate::socket::Socket;
use crate::world::CONFIRMED;

fn socket() -> Socket {
    Socket::open(&stage().node.ws_url()).expect("a socket")
}

fn pay(to: &Pubkey, lamports: u64) -> Signature {
    let world = &stage().world;
    world
        .send(&[transfer(&world.payer.pubkey(), to, lamports)], &[])
        .expect("a transfer that lands")
}

fn confirmed_config() -> RpcAccountInfoConfig {
    RpcAccountInfoConfig { commitment: Some(CONFIRMED), ..RpcAccountInfoConfig::default() }
}

#[test]
fn subscription_accountSubscribe() {
    let socket = socket();
    let to = Pubkey::new_unique();
    let inbox = socket
        .listen(async |client| client.account_subscribe(&to, Some(confirmed_config())).await)
        .expect("subscribed");
    pay(&to, 1_000_001);
    let change = inbox.next().expect("a change");
    assert_eq!(change.value.lamports, 1_000_001);
    assert!(change.context.api_version.is_none(), "PubSub's context has the slot alone");
    socket.close(inbox);
    pay(&to, 1);
}

#[test]
fn subscription_programSubscribe() {
    let socket = socket();
    let to = Pubkey::new_unique();
    let config = RpcProgramAccountsConfig {
        account_config: confirmed_config(),
        ..RpcProgramAccountsConfig::default()
    };
    let system = solana_sdk_ids::system_program::ID;
    let inbox = socket
        .listen(async |client| client.program_subscribe(&system, Some(config)).await)
        .expect("subscribed");
    pay(&to, 1_000_002);
    let change = inbox.find(|change| change.value.pubkey == to.to_string()).expect("a change");
    assert_eq!(change.value.account.lamports, 1_000_002);
}

#[test]
fn subscription_logsSubscribe() {
    let socket = socket();
    let to = Pubkey::new_unique();
    let filter = RpcTransactionLogsFilter::Mentions(vec![to.to_string()]);
    let config = RpcTransactionLogsConfig { commitment: Some(CONFIRMED) };
    let inbox = socket
        .listen(async |client| client.logs_subscribe(filter, config).await)
        .expect("subscribed");
    let signature = pay(&to, 1_000_003);
    let entry = inbox.next().expect("logs").value;
    assert_eq!((entry.signature, entry.err), (signature.to_string(), None));
    assert_eq!(
        entry.logs.last().map(String::as_str),
        Some("Program 11111111111111111111111111111111 success")
    );
}

#[test]
fn subscription_signatureSubscribe() {
    let socket = socket();
    let world = &stage().world;
    let blockhash = world.rpc.get_latest_blockhash().expect("a blockhash");
    let pay = transfer(&world.payer.pubkey(), &Pubkey::new_unique(), 1_000_004);
    let transaction = world.sign(&[pay], &[], &[], blockhash).expect("a message that compiles");
    let signature = transaction.signatures[0];
    let config = RpcSignatureSubscribeConfig {
        commitment: Some(CommitmentConfig::confirmed()),
        enable_received_notification: Some(true),
    };
    let inbox = socket
        .listen(async |client| client.signature_subscribe(&signature, Some(config)).await)
        .expect("subscribed");
    world.rpc.send_transaction(&transaction).expect("sent");
    assert!(matches!(
        inbox.next().expect("received").value,
        RpcSignatureResult::ReceivedSignature(_)
    ));
    let RpcSignatureResult::ProcessedSignature(result) = inbox.next().expect("confirmed").value
    else {
        panic!("received twice");
    };
    assert_eq!(result.err, None);
}

#[test]
fn subscription_slotSubscribe() {
    let socket = socket();
    let inbox = socket.listen(async |client| client.slot_subscribe().await).expect("subscribed");
    let first = inbox.next().expect("a slot");
    let second = inbox.next().expect("a slot");
    assert_eq!((second.slot, second.parent), (first.slot + 1, first.slot));
    assert!(first.root < first.slot);
}

#[test]
fn subscription_rootSubscribe() {
    let socket = socket();
    let inbox = socket.listen(async |client| client.root_subscribe().await).expect("subscribed");
    let first = inbox.next().expect("a root");
    assert_eq!(inbox.next().expect("a root"), first + 1);
}

#[test]
fn subscription_slotsUpdatesSubscribe() {
    let socket = socket();
    let inbox =
        socket.listen(async |client| client.slot_updates_subscribe().await).expect("subscribed");
    let created =
        inbox.find(|update| matches!(update, SlotUpdate::CreatedBank { .. })).expect("a bank");
    let SlotUpdate::CreatedBank { slot, parent, .. } = created else { panic!("{created:?}") };
    assert_eq!(parent, slot - 1);
    inbox
        .find(|update| matches!(update, SlotUpdate::Frozen { slot: at, .. } if *at == slot))
        .expect("frozen");
    inbox.find(|update| matches!(update, SlotUpdate::OptimisticConfirmation { slot: at, .. } if *at == slot)).expect("confirmed");
    inbox
        .find(|update| matches!(update, SlotUpdate::Root { slot: at, .. } if *at == slot))
        .expect("root");
}

#[test]
fn subscription_voteSubscribe() {
    let socket = socket();
    let inbox = socket.listen(async |client| client.vote_subscribe().await).expect("subscribed");
    let vote = inbox.next().expect("a vote");
    let accounts = stage().world.rpc.get_vote_accounts().expect("vote accounts");
    assert_eq!(vote.vote_pubkey, accounts.current[0].vote_pubkey);
    assert!(!vote.slots.is_empty());
}

#[test]
fn subscription_blockSubscribe() {
    let socket = socket();
    let to = Pubkey::new_unique();
    let filter = RpcBlockSubscribeFilter::MentionsAccountOrProgram(to.to_string());
    let config = RpcBlockSubscribeConfig {
        commitment: Some(CONFIRMED),
        transaction_details: Some(TransactionDetails::Signatures),
        max_supported_transaction_version: Some(0),
        ..RpcBlockSubscribeConfig::default()
    };
    let inbox = socket
        .listen(async |client| client.block_subscribe(filter, Some(config)).await)
        .expect("subscribed");
    let signature = pay(&to, 1_000_005);
    let update = inbox.next().expect("a block").value;
    let block = update.block.expect("a block");
    assert_eq!(block.parent_slot, update.slot - 1);
    assert_eq!(
        block.signatures,
        Some(vec![signature.to_string()]),
        "only what mentions the address"
    );
}
