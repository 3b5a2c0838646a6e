//! The keys of a message that its transaction may write, by the message alone.

use solana_message::VersionedMessage;

/// Whether the key at `index` is writable. The keys are the static ones, then the loaded writable ones, of which there
/// are `loaded_writable`, then the loaded read-only ones.
pub(crate) fn is_writable(
    message: &VersionedMessage,
    loaded_writable: usize,
    index: usize,
) -> bool {
    let header = message.header();
    let static_len = message.static_account_keys().len();
    let signers = usize::from(header.num_required_signatures);
    let writable_signers = signers.saturating_sub(header.num_readonly_signed_accounts.into());
    let writable_static = static_len.saturating_sub(header.num_readonly_unsigned_accounts.into());
    match index {
        _ if index < signers => index < writable_signers,
        _ if index < static_len => index < writable_static,
        _ => index < static_len + loaded_writable,
    }
}
