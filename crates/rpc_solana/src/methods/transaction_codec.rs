//! Decodes and sanitizes transactions and messages that clients send.
//!
//! Bounds: those of Agave, by the first bytes of the text: 1,232 bytes, or 4,096 for a version 1 message in
//! base64. The length of the text is checked before it is decoded.
//! Not here: signatures (`chain_solana::VerifiedTransaction`), execution (`chain_solana::TransactionSender`).

use std::any::type_name;
use std::sync::LazyLock;

use agave_reserved_account_keys::ReservedAccountKeys;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chain_solana::View;
use jsonrpc::error::RpcError;
use solana_account::ReadableAccount;
use solana_address_lookup_table_interface::error::AddressLookupError;
use solana_address_lookup_table_interface::program as lookup_table_program;
use solana_address_lookup_table_interface::state::AddressLookupTable;
use solana_hash::Hash;
use solana_message::AddressLoader;
use solana_message::v0::{LoadedAddresses, MessageAddressTableLookup};
use solana_message::v1::MAX_TRANSACTION_SIZE;
use solana_runtime_transaction::runtime_transaction::RuntimeTransaction;
use solana_sdk_ids::sysvar::slot_hashes;
use solana_slot_hashes::SlotHashes;
use solana_transaction::sanitized::{MessageHash, SanitizedTransaction};
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::AddressLoaderError;
use solana_transaction_status::{TransactionBinaryEncoding, UiTransactionEncoding};
use wincode::SchemaRead;
use wincode::config::DefaultConfig;

use super::accounts_reader;

/// Maximum bytes of a transaction up to version 0: they fit into a packet.
const PACKET_BYTES_MAX: usize = 1232;
/// Characters of 1,232 bytes in base58.
const BASE58_CHARS_MAX: usize = 1683;
/// Characters of 1,232 bytes in base64.
const BASE64_CHARS_MAX: usize = 1644;
/// Characters of 4,096 bytes in base64.
const BASE64_V1_CHARS_MAX: usize = 5464;
/// Version 1 starts with byte 0x81, older versions with a small count. Two characters are enough to know.
const BASE64_V1_PREFIX: &[u8] = b"gQ";

/// A transaction whose parts fit together and whose lookup tables are resolved.
pub(super) type SanitizedTx = RuntimeTransaction<SanitizedTransaction>;

/// Keys that no transaction may write to. In this release no feature adds one.
pub(super) static RESERVED: LazyLock<ReservedAccountKeys> =
    LazyLock::new(ReservedAccountKeys::new_all_activated);

/// Returns the binary encoding of a config. Default: base58.
pub(super) fn binary(
    encoding: Option<UiTransactionEncoding>,
) -> Result<TransactionBinaryEncoding, RpcError> {
    let encoding = encoding.unwrap_or(UiTransactionEncoding::Base58);
    encoding.into_binary_encoding().ok_or_else(|| {
        RpcError::invalid_params(format!(
            "unsupported encoding: {encoding}. Supported encodings: base58, base64"
        ))
    })
}

/// Decodes a transaction or a message.
pub(crate) fn decode<T>(text: &str, encoding: TransactionBinaryEncoding) -> Result<T, RpcError>
where
    T: for<'de> SchemaRead<'de, DefaultConfig, Dst = T>,
{
    let name = type_name::<T>();
    let (form, chars_max, bytes_max) = limits(text, encoding);
    if text.len() > chars_max {
        return Err(RpcError::invalid_params(format!(
            "{form} encoded {name} too large: {} bytes (max: encoded/raw {chars_max}/{bytes_max})",
            text.len()
        )));
    }
    let bytes = match encoding {
        TransactionBinaryEncoding::Base58 => {
            bs58::decode(text).into_vec().map_err(|err| format!("{err:?}"))
        }
        TransactionBinaryEncoding::Base64 => {
            BASE64_STANDARD.decode(text).map_err(|err| format!("{err:?}"))
        }
    };
    let bytes =
        bytes.map_err(|err| RpcError::invalid_params(format!("invalid {form} encoding: {err}")))?;
    if bytes.len() > bytes_max {
        return Err(RpcError::invalid_params(format!(
            "decoded {name} too large: {} bytes (max: {bytes_max} bytes)",
            bytes.len()
        )));
    }
    wincode::deserialize(&bytes)
        .map_err(|err| RpcError::invalid_params(format!("failed to deserialize {name}: {err}")))
}

/// Returns the name of the encoding, and the maximum numbers of characters and bytes.
fn limits(text: &str, encoding: TransactionBinaryEncoding) -> (&'static str, usize, usize) {
    let is_v1 = text.as_bytes().get(..2).is_some_and(|prefix| prefix >= BASE64_V1_PREFIX);
    match encoding {
        TransactionBinaryEncoding::Base58 => ("base58", BASE58_CHARS_MAX, PACKET_BYTES_MAX),
        TransactionBinaryEncoding::Base64 if is_v1 => {
            ("base64", BASE64_V1_CHARS_MAX, MAX_TRANSACTION_SIZE)
        }
        TransactionBinaryEncoding::Base64 => ("base64", BASE64_CHARS_MAX, PACKET_BYTES_MAX),
    }
}

/// Checks that a transaction does not contradict itself or the lookup tables of `view`. Its hash and `is_vote` are not
/// used, so they are not computed.
pub(super) fn sanitize(
    transaction: VersionedTransaction,
    view: &View,
) -> Result<SanitizedTx, RpcError> {
    let hash = MessageHash::Precomputed(Hash::default());
    let is_vote = Some(false);
    let limits_instruction_accounts = true;
    SanitizedTx::try_create(
        transaction,
        hash,
        is_vote,
        LookupTables(view),
        &RESERVED.active,
        limits_instruction_accounts,
    )
    .map_err(|err| RpcError::invalid_params(format!("invalid transaction: {err}")))
}

#[derive(Clone, Copy)]
pub(super) struct LookupTables<'a>(pub(super) &'a View);

impl AddressLoader for LookupTables<'_> {
    fn load_addresses(
        self,
        lookups: &[MessageAddressTableLookup],
    ) -> Result<LoadedAddresses, AddressLoaderError> {
        if lookups.is_empty() {
            return Ok(LoadedAddresses::default());
        }
        let hashes: SlotHashes = accounts_reader::account(self.0, &slot_hashes::ID)
            .and_then(|account| bincode::deserialize(account.0.data()).ok())
            .ok_or(AddressLoaderError::SlotHashesSysvarNotFound)?;
        let mut loaded = LoadedAddresses::default();
        for lookup in lookups {
            self.load(lookup, &hashes, &mut loaded).map_err(|err| match err {
                AddressLookupError::LookupTableAccountNotFound => {
                    AddressLoaderError::LookupTableAccountNotFound
                }
                AddressLookupError::InvalidAccountOwner => AddressLoaderError::InvalidAccountOwner,
                AddressLookupError::InvalidAccountData => AddressLoaderError::InvalidAccountData,
                AddressLookupError::InvalidLookupIndex => AddressLoaderError::InvalidLookupIndex,
            })?;
        }
        Ok(loaded)
    }
}

impl LookupTables<'_> {
    fn load(
        self,
        lookup: &MessageAddressTableLookup,
        hashes: &SlotHashes,
        into: &mut LoadedAddresses,
    ) -> Result<(), AddressLookupError> {
        let account = accounts_reader::account(self.0, &lookup.account_key)
            .ok_or(AddressLookupError::LookupTableAccountNotFound)?;
        if !lookup_table_program::check_id(account.0.owner()) {
            return Err(AddressLookupError::InvalidAccountOwner);
        }
        let table = AddressLookupTable::deserialize(account.0.data())
            .map_err(|_| AddressLookupError::InvalidAccountData)?;
        let slot = self.0.block().slot;
        for (indexes, to) in [
            (&lookup.writable_indexes, &mut into.writable),
            (&lookup.readonly_indexes, &mut into.readonly),
        ] {
            for address in table.lookup_iter(slot, indexes, hashes)? {
                to.push(address.ok_or(AddressLookupError::InvalidLookupIndex)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use solana_message::VersionedMessage;

    use super::*;

    fn err(text: &str, encoding: TransactionBinaryEncoding) -> String {
        decode::<VersionedTransaction>(text, encoding)
            .map_or_else(|err| err.message, |_| "ok".into())
    }

    #[test]
    fn text_past_its_limit_is_refused_before_it_is_decoded() {
        use TransactionBinaryEncoding::{Base58, Base64};
        let name = "solana_transaction::versioned::VersionedTransaction";
        for (text, encoding, expected) in [
            (
                "!".repeat(1684),
                Base58,
                format!("base58 encoded {name} too large: 1684 bytes (max: encoded/raw 1683/1232)"),
            ),
            (
                "!".repeat(1645),
                Base64,
                format!("base64 encoded {name} too large: 1645 bytes (max: encoded/raw 1644/1232)"),
            ),
            (
                "gQ".repeat(2733),
                Base64,
                format!("base64 encoded {name} too large: 5466 bytes (max: encoded/raw 5464/4096)"),
            ),
            (
                "1".repeat(1233),
                Base58,
                format!("decoded {name} too large: 1233 bytes (max: 1232 bytes)"),
            ),
            (
                "A".repeat(1644),
                Base64,
                format!("decoded {name} too large: 1233 bytes (max: 1232 bytes)"),
            ),
        ] {
            assert_eq!(err(&text, encoding), expected);
        }
    }

    #[test]
    fn text_that_is_no_transaction_names_the_failing_step() {
        use TransactionBinaryEncoding::{Base58, Base64};
        assert_eq!(
            err("0", Base58),
            "invalid base58 encoding: InvalidCharacter { character: '0', index: 0 }"
        );
        assert_eq!(err("!!!!", Base64), "invalid base64 encoding: InvalidByte(0, 33)");
        assert!(
            err("AQ==", Base64).starts_with(
                "failed to deserialize solana_transaction::versioned::VersionedTransaction: "
            ),
            "{}",
            err("AQ==", Base64)
        );
        let message = decode::<VersionedMessage>("", Base64).err();
        assert!(message.is_some_and(|err| {
            err.message
                .starts_with("failed to deserialize solana_message::versions::VersionedMessage")
        }));
    }

    #[test]
    fn only_binary_encodings_carry_transactions() {
        assert_eq!(binary(None), Ok(TransactionBinaryEncoding::Base58));
        assert_eq!(
            binary(Some(UiTransactionEncoding::JsonParsed)).map_err(|err| err.message),
            Err("unsupported encoding: jsonParsed. Supported encodings: base58, base64".into())
        );
    }
}
