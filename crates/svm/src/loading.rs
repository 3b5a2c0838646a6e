//! The loading of a transaction before it runs: the bytes that count against its limit, and the programs it calls.
//!
//! In: a message, its accounts, and the size of each program's code. Out: [`Loaded`], or the reason why the
//! transaction only pays. LiteSVM knows neither code accounts nor Agave's rules for programs, so both are checked here.
//! Bounds: one step for each account and each instruction.
//! Source: `load_transaction_accounts` of Agave's SVM; SIMD-0186 has the sizes.
//! Not here: whether the transaction may be in a block at all (`vm`).

use solana_account::{AccountSharedData, ReadableAccount};
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{
    bpf_loader, bpf_loader_deprecated, bpf_loader_upgradeable, compute_budget, loader_v4,
    native_loader, sysvar,
};
use solana_transaction_error::TransactionError;

use crate::program_account::program_data_key;

/// Bytes that a transaction may load unless it sets a limit of its own.
const BYTES_MAX_DEFAULT: u32 = 64 << 20;
/// Bytes that an account counts in addition to its data.
const ACCOUNT_BYTES: u64 = 64;
/// Bytes that a lookup table counts, whatever its contents.
const TABLE_BYTES: u64 = 8_248;
/// The first byte of the instruction that sets the limit.
const SET_LIMIT_TAG: u8 = 4;

/// The loaders of programs. An account of one of them is a program, was one, or may become one.
const LOADERS: [Pubkey; 4] =
    [bpf_loader_upgradeable::ID, bpf_loader::ID, bpf_loader_deprecated::ID, loader_v4::ID];

/// A transaction that has all its accounts and programs.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Bytes that count against the limit.
    pub(crate) bytes: u32,
    /// Programs that it calls and that a loader owns, but that are not deployed: calling one fails.
    pub(crate) undeployed: Vec<Pubkey>,
}

/// A transaction that pays its fee and does not run.
#[derive(Debug)]
pub(crate) struct NotLoaded {
    pub(crate) err: TransactionError,
    /// Bytes counted until the failure, at most the limit.
    pub(crate) bytes: u32,
}

/// Returns the limit of the bytes that a message may load. `None` if one of its instructions sets it.
pub(crate) fn bytes_max(message: &VersionedMessage) -> Option<u32> {
    if let VersionedMessage::V1(message) = message {
        return Some(message.config.loaded_accounts_data_size_limit.unwrap_or(0));
    }
    let keys = message.static_account_keys();
    let sets_limit = message.instructions().iter().any(|instruction| {
        instruction.data.first() == Some(&SET_LIMIT_TAG)
            && keys.get(usize::from(instruction.program_id_index)) == Some(&compute_budget::ID)
    });
    (!sets_limit).then_some(BYTES_MAX_DEFAULT)
}

/// Checks the load of a message. `accounts` are those of `keys`; missing ones are empty. `program_data_bytes` returns
/// the size of the code account of a program among `keys`, if that account exists.
pub(crate) fn load(
    message: &VersionedMessage,
    keys: &[Pubkey],
    accounts: &[AccountSharedData],
    bytes_max: u32,
    program_data_bytes: impl Fn(&Pubkey) -> Option<usize>,
) -> Result<Loaded, NotLoaded> {
    let tables = message.address_table_lookups().map_or(0, <[_]>::len);
    let mut bytes = tables as u64 * TABLE_BYTES;
    let mut counted: Vec<Pubkey> = Vec::new();
    for (key, account) in keys.iter().zip(accounts) {
        if *key == sysvar::instructions::ID || account.lamports() == 0 {
            continue;
        }
        bytes += ACCOUNT_BYTES + account.data().len() as u64;
        // Code counts once, whether its account is named or not.
        if let Some(data_key) = program_data_key(account)
            && !keys.contains(&data_key)
            && !counted.contains(&data_key)
            && let Some(data_bytes) = program_data_bytes(key)
        {
            counted.push(data_key);
            bytes += ACCOUNT_BYTES + data_bytes as u64;
        }
    }
    if bytes > u64::from(bytes_max) {
        let err = TransactionError::MaxLoadedAccountsDataSizeExceeded;
        return Err(NotLoaded { err, bytes: bytes_max });
    }
    let bytes = u32::try_from(bytes).unwrap_or(bytes_max);
    let undeployed = find_undeployed(message, keys, accounts);
    undeployed
        .map(|undeployed| Loaded { bytes, undeployed })
        .map_err(|err| NotLoaded { err, bytes })
}

/// Returns the programs that a message calls and that are not deployed.
fn find_undeployed(
    message: &VersionedMessage,
    keys: &[Pubkey],
    accounts: &[AccountSharedData],
) -> Result<Vec<Pubkey>, TransactionError> {
    let mut undeployed = Vec::new();
    for instruction in message.instructions() {
        let index = usize::from(instruction.program_id_index);
        let (key, program) = match (keys.get(index), accounts.get(index)) {
            (Some(key), Some(program)) if program.lamports() > 0 => (key, program),
            _ => return Err(TransactionError::ProgramAccountNotFound),
        };
        if native_loader::check_id(program.owner()) {
            continue;
        }
        if !LOADERS.contains(program.owner()) {
            return Err(TransactionError::InvalidProgramForExecution);
        }
        // No builtin of this release executes programs of the fourth loader.
        let is_deployed = program.executable() && !loader_v4::check_id(program.owner());
        if !is_deployed && !undeployed.contains(key) {
            undeployed.push(*key);
        }
    }
    Ok(undeployed)
}

#[cfg(test)]
mod tests {
    use solana_account::WritableAccount;
    use solana_instruction::Instruction;
    use solana_message::v0::MessageAddressTableLookup;
    use solana_message::{Message, v0, v1};

    use super::*;

    const PAYER: Pubkey = Pubkey::new_from_array([1; 32]);
    const PROGRAM: Pubkey = Pubkey::new_from_array([2; 32]);
    const CODE: Pubkey = Pubkey::new_from_array([3; 32]);

    fn account(owner: Pubkey, bytes: usize) -> AccountSharedData {
        AccountSharedData::new(1, bytes, &owner)
    }

    /// Returns a program with its code under [`CODE`].
    fn program() -> AccountSharedData {
        let mut data = vec![2, 0, 0, 0];
        data.extend_from_slice(CODE.as_ref());
        let mut account = account(bpf_loader_upgradeable::ID, 36);
        account.set_data_from_slice(&data);
        account.set_executable(true);
        account
    }

    fn call() -> VersionedMessage {
        let call = Instruction { program_id: PROGRAM, accounts: Vec::new(), data: Vec::new() };
        VersionedMessage::Legacy(Message::new(&[call], Some(&PAYER)))
    }

    /// Returns the counted bytes of a message that names `keys` and may load `bytes_max`.
    fn bytes(
        message: &VersionedMessage,
        keyed: &[(Pubkey, AccountSharedData)],
        bytes_max: u32,
    ) -> Result<u32, (TransactionError, u32)> {
        let (keys, accounts): (Vec<_>, Vec<_>) = keyed.iter().cloned().unzip();
        load(message, &keys, &accounts, bytes_max, |_| Some(1_000))
            .map(|loaded| loaded.bytes)
            .map_err(|not| (not.err, not.bytes))
    }

    #[test]
    fn accounts_code_and_lookup_tables_count_and_absent_accounts_do_not() {
        let own = [(PAYER, account(Pubkey::default(), 10)), (PROGRAM, program())];
        let sum = 64 + 10 + 64 + 36 + 64 + 1_000;
        assert_eq!(bytes(&call(), &own, sum), Ok(sum));
        let exceeded = TransactionError::MaxLoadedAccountsDataSizeExceeded;
        assert_eq!(bytes(&call(), &own, sum - 1), Err((exceeded, sum - 1)));

        // A code account that the message names counts once.
        let mut named = own.to_vec();
        named.push((CODE, account(bpf_loader_upgradeable::ID, 500)));
        assert_eq!(bytes(&call(), &named, sum), Ok(sum - 500));
        let mut absent = own.to_vec();
        absent.push((Pubkey::new_from_array([4; 32]), AccountSharedData::default()));
        assert_eq!(bytes(&call(), &absent, sum), Ok(sum));

        let lookup = MessageAddressTableLookup {
            account_key: Pubkey::new_from_array([5; 32]),
            writable_indexes: vec![0],
            readonly_indexes: Vec::new(),
        };
        let VersionedMessage::Legacy(legacy) = call() else { unreachable!("it was made legacy") };
        let with_tables = VersionedMessage::V0(v0::Message {
            header: legacy.header,
            account_keys: legacy.account_keys,
            recent_blockhash: legacy.recent_blockhash,
            instructions: legacy.instructions,
            address_table_lookups: vec![lookup.clone(), lookup],
        });
        assert_eq!(bytes(&with_tables, &own, 1 << 20), Ok(sum + 2 * 8_248));
    }

    #[test]
    fn the_limit_is_the_messages_own_or_64_mib() {
        assert_eq!(bytes_max(&call()), Some(64 << 20));
        let instruction = |data: Vec<u8>| Instruction {
            program_id: compute_budget::ID,
            accounts: Vec::new(),
            data,
        };
        let with =
            |instruction| VersionedMessage::Legacy(Message::new(&[instruction], Some(&PAYER)));
        assert_eq!(bytes_max(&with(instruction(vec![4, 1, 0, 0, 0]))), None);
        assert_eq!(bytes_max(&with(instruction(vec![2, 1, 0, 0, 0]))), Some(64 << 20));
        let message = v1::Message::try_compile(&PAYER, &[], Default::default());
        let message = VersionedMessage::V1(message.expect("a message"));
        assert_eq!(bytes_max(&message), Some(0));
    }
}
