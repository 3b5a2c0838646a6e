//! Durable nonces: the transactions that use one, and the advance of its account.
//!
//! Why here: a failed transaction changes nothing, but its nonce must advance.

use solana_account::AccountSharedData;
use solana_account::state_traits::StateMut;
use solana_hash::Hash;
use solana_message::VersionedMessage;
use solana_nonce::state::{Data, DurableNonce, State};
use solana_nonce::versions::Versions;
use solana_pubkey::Pubkey;
use solana_system_interface::instruction::SystemInstruction;
use solana_transaction::versioned::VersionedTransaction;

use crate::signature_fee::LAMPORTS_PER_SIGNATURE;

/// Returns the nonce account that the first instruction of a message advances, if it does.
pub fn named_account(message: &VersionedMessage) -> Option<Pubkey> {
    let first = message.instructions().first()?;
    let keys = message.static_account_keys();
    let program = keys.get(usize::from(first.program_id_index))?;
    if !solana_sdk_ids::system_program::check_id(program) {
        return None;
    }
    let advance = bincode::serialize(&SystemInstruction::AdvanceNonceAccount).ok()?;
    if !first.data.starts_with(&advance) {
        return None;
    }
    let index = usize::from(*first.accounts.first()?);
    is_writable(message, index).then(|| keys.get(index).copied()).flatten()
}

/// Returns whether a message names a stored nonce instead of a blockhash.
pub fn is_named(message: &VersionedMessage) -> bool {
    named_account(message).is_some()
}

/// Returns whether a static key is writable according to the header.
fn is_writable(message: &VersionedMessage, index: usize) -> bool {
    let header = message.header();
    let signers = usize::from(header.num_required_signatures);
    let keys = message.static_account_keys().len();
    let writable_signers = signers - usize::from(header.num_readonly_signed_accounts);
    let writable_others = keys - usize::from(header.num_readonly_unsigned_accounts);
    if index < signers { index < writable_signers } else { index < writable_others }
}

/// Returns the nonce account of a transaction that names a stored nonce instead of a blockhash, if the nonce is
/// right, its authority signed, and this block has not advanced it yet. `account` returns the state of a nonce
/// account.
pub fn usable<'a>(
    transaction: &VersionedTransaction,
    last_blockhash: &Hash,
    account: impl FnOnce(&Pubkey) -> Option<&'a AccountSharedData>,
) -> Option<Pubkey> {
    let message = &transaction.message;
    let key = named_account(message)?;
    let next = DurableNonce::from_blockhash(last_blockhash);
    if message.recent_blockhash() == next.as_hash() {
        return None;
    }
    let data =
        solana_nonce_account::verify_nonce_account(account(&key)?, message.recent_blockhash())?;
    let first = message.instructions().first()?;
    let signers = usize::from(message.header().num_required_signatures);
    let keys = message.static_account_keys();
    first
        .accounts
        .iter()
        .map(|index| usize::from(*index))
        .any(|index| index < signers && keys.get(index) == Some(&data.authority))
        .then_some(key)
}

/// Sets a nonce account to the nonce of `last_blockhash`.
pub fn advance(account: &mut AccountSharedData, last_blockhash: &Hash) {
    let Some(data) = parse_initialized(account) else { return };
    let next = Data::new(
        data.authority,
        DurableNonce::from_blockhash(last_blockhash),
        LAMPORTS_PER_SIGNATURE,
    );
    if let Err(err) = account.set_state(&Versions::new(State::Initialized(next))) {
        tracing::error!(%err, "a nonce account is too small for its state");
    }
}

fn parse_initialized(account: &AccountSharedData) -> Option<Data> {
    use solana_account::ReadableAccount;
    if account.owner() != &solana_sdk_ids::system_program::id() || account.data().is_empty() {
        return None;
    }
    let versions: Versions = account.state().ok()?;
    match versions.state() {
        State::Initialized(data) => Some(data.clone()),
        State::Uninitialized => None,
    }
}
