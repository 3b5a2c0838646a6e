//! Makes an account of another cluster fit a local ledger, whose slots are other ones.
//!
//! * Accounts that every ledger makes itself are absent: sysvars, builtin programs, features.
//! * A program was deployed at slot 0, and a lookup table was extended last at slot 0: their slots are later than those
//!   of the local ledger, in which the program could not be called and the addresses could not be looked up.

use std::sync::Arc;

use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_address_lookup_table_interface::state::{AddressLookupTable, LookupTableMeta};
use solana_loader_v3_interface::state::UpgradeableLoaderState;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{
    address_lookup_table, bpf_loader_upgradeable, feature, native_loader, sysvar,
};

/// Whether the account of an address is always the ledger's own, whatever the upstream has.
pub(crate) fn is_local_only(pubkey: &Pubkey) -> bool {
    svm::sysvars::ALL.contains(pubkey)
}

/// The account as the local ledger takes it over; `None` if it does not.
pub(crate) fn localize(account: Arc<Account>) -> Option<Arc<Account>> {
    let owner = *account.0.owner();
    if [sysvar::ID, native_loader::ID, feature::ID].contains(&owner) {
        return None;
    }
    let changed = match owner {
        bpf_loader_upgradeable::ID => deployed_at_genesis(&account.0),
        address_lookup_table::ID => extended_at_genesis(&account.0),
        _ => None,
    };
    Some(changed.map_or(account, |changed| Arc::new(Account(changed))))
}

/// The data account of a program with slot 0.
fn deployed_at_genesis(account: &AccountSharedData) -> Option<AccountSharedData> {
    let head = account.data().get(..UpgradeableLoaderState::size_of_programdata_metadata())?;
    let Ok(UpgradeableLoaderState::ProgramData { upgrade_authority_address, .. }) =
        bincode::deserialize(head)
    else {
        return None;
    };
    let state = UpgradeableLoaderState::ProgramData { slot: 0, upgrade_authority_address };
    let bytes = bincode::serialize(&state).ok()?;
    let mut account = account.clone();
    account.data_as_mut_slice().get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some(account)
}

/// The lookup table with slot 0.
fn extended_at_genesis(account: &AccountSharedData) -> Option<AccountSharedData> {
    let table = AddressLookupTable::deserialize(account.data()).ok()?;
    // In slot 0 itself only the addresses before this index can be looked up.
    let last_extended_slot_start_index = u8::try_from(table.addresses.len()).unwrap_or(u8::MAX);
    let meta =
        LookupTableMeta { last_extended_slot: 0, last_extended_slot_start_index, ..table.meta };
    let mut account = account.clone();
    AddressLookupTable::overwrite_meta_data(account.data_as_mut_slice(), meta).ok()?;
    Some(account)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(owner: Pubkey, data: &[u8]) -> Arc<Account> {
        let mut account = AccountSharedData::new(1, 0, &owner);
        account.set_data_from_slice(data);
        Arc::new(Account(account))
    }

    #[test]
    fn slots_of_the_other_cluster_are_replaced() {
        let authority = Some(Pubkey::new_from_array([3; 32]));
        let program_data = |slot| {
            let state =
                UpgradeableLoaderState::ProgramData { slot, upgrade_authority_address: authority };
            let mut data = bincode::serialize(&state).expect("it serializes");
            data.extend_from_slice(b"\x7fELF");
            data
        };
        let upgradeable = bpf_loader_upgradeable::ID;
        let local = localize(account(upgradeable, &program_data(u64::MAX))).expect("it is taken");
        assert_eq!(local.0.data(), program_data(0));

        let listed = [Pubkey::new_from_array([9; 32]); 3];
        let table = |slot, index| {
            let meta = LookupTableMeta {
                last_extended_slot: slot,
                last_extended_slot_start_index: index,
                authority,
                ..LookupTableMeta::default()
            };
            let table = AddressLookupTable { meta, addresses: listed.as_slice().into() };
            table.serialize_for_tests().expect("it serializes")
        };
        let tables = address_lookup_table::ID;
        let local = localize(account(tables, &table(300_000_000, 2))).expect("it is taken");
        assert_eq!(local.0.data(), table(0, 3));
    }

    #[test]
    fn accounts_of_the_ledger_itself_are_not_taken_and_others_stay_as_they_are() {
        for owner in [sysvar::ID, native_loader::ID, feature::ID] {
            assert!(localize(account(owner, b"x")).is_none());
        }
        assert!(is_local_only(&sysvar::clock::ID) && !is_local_only(&Pubkey::default()));
        for owner in [Pubkey::default(), bpf_loader_upgradeable::ID, address_lookup_table::ID] {
            let other = account(owner, b"abc");
            assert_eq!(localize(Arc::clone(&other)).map(|it| it.0.clone()), Some(other.0.clone()));
        }
    }
}
