//! Accounts of programs under the upgradeable loader: their contents, and one that cannot be called.

use ledger::Slot;
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_message::VersionedMessage;
use solana_pubkey::Pubkey;
use solana_sdk_ids::bpf_loader_upgradeable;

/// The first byte of a program under the upgradeable loader.
const PROGRAM_TAG: u8 = 2;
/// The first byte of a program's data account under the upgradeable loader.
const PROGRAM_DATA_TAG: u8 = 3;
/// Offset of the deployment slot in program data.
const DEPLOYED_SLOT_AT: usize = 4;
/// Offset of the address of the program data in a program account.
const PROGRAM_DATA_KEY_AT: usize = 4;
const PROGRAM_SIZE: usize = 36;

/// Returns the address of the code of a program of the upgradeable loader.
pub(crate) fn program_data_key(program: &AccountSharedData) -> Option<Pubkey> {
    let is_program = program.owner() == &bpf_loader_upgradeable::id()
        && program.data().first() == Some(&PROGRAM_TAG);
    if !is_program {
        return None;
    }
    let key = program.data().get(PROGRAM_DATA_KEY_AT..PROGRAM_SIZE)?;
    Pubkey::try_from(key).ok()
}

/// Tags of the upgradeable loader's instructions that compile no code: those that write buffers, set authorities and
/// close accounts.
const TAGS_WITHOUT_CODE: [u8; 5] = [0, 1, 4, 5, 7];

/// Returns whether the upgradeable loader may compile code while a message runs: it deploys, upgrades or extends a
/// program, or another program may call the loader.
pub(crate) fn may_deploy(message: &VersionedMessage, keys: &[Pubkey]) -> bool {
    let Some(loader) = keys.iter().position(|key| *key == bpf_loader_upgradeable::ID) else {
        return false;
    };
    message.instructions().iter().any(|instruction| {
        if usize::from(instruction.program_id_index) == loader {
            instruction.data.first().is_none_or(|tag| !TAGS_WITHOUT_CODE.contains(tag))
        } else {
            instruction.accounts.iter().any(|index| usize::from(*index) == loader)
        }
    })
}

/// Returns the slot in which a program's code was deployed, from its program data.
pub(crate) fn deployed_slot(program_data: &AccountSharedData) -> Option<Slot> {
    let is_ours = program_data.owner() == &bpf_loader_upgradeable::id()
        && program_data.data().first() == Some(&PROGRAM_DATA_TAG);
    let slot = program_data.data().get(DEPLOYED_SLOT_AT..)?.first_chunk()?;
    is_ours.then_some(Slot::from_le_bytes(*slot))
}

/// Returns a program with its own address `key` as its code account, which is not one. A call of it fails as one of a
/// program that is not deployed.
pub(crate) fn closed_program(key: &Pubkey) -> AccountSharedData {
    let mut data = vec![0; PROGRAM_SIZE];
    data[0] = PROGRAM_TAG;
    data[PROGRAM_DATA_KEY_AT..].copy_from_slice(key.as_ref());
    let mut closed = AccountSharedData::new(1, 0, &bpf_loader_upgradeable::ID);
    closed.set_data_from_slice(&data);
    closed.set_executable(true);
    closed
}
