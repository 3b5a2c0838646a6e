//! surfnet_writeProgram, surfnet_setProgramAuthority and surfnet_cloneProgramAccount: programs of the upgradeable
//! loader.
//!
//! A written program can be called at once: its deployment slot is the previous one.

use chain_solana::{ACCOUNT_BYTES_MAX, ControlError, CurrentAccounts, EditedAccounts};
use jsonrpc::error::RpcError;
use jsonrpc::params::Params;
use jsonrpc::{Execution, MethodResult, MethodSpec};
use ledger::Slot;
use solana::JsonU64;
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};
use solana_loader_v3_interface::get_program_data_address;
use solana_loader_v3_interface::state::UpgradeableLoaderState;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{bpf_loader_upgradeable, system_program};

use super::super::parse_key;
use super::{control_result, hex};
use crate::solana_api::SolanaApi;

pub(super) const METHODS: &[MethodSpec<SolanaApi>] = &[
    gated!("surfnet_writeProgram", Execution::Light, write_program),
    gated!("surfnet_setProgramAuthority", Execution::Light, set_program_authority),
    gated!("surfnet_cloneProgramAccount", Execution::Light, clone_program_account),
];

/// Bytes before the ELF in a program's data account.
const HEADER_BYTES: usize = UpgradeableLoaderState::size_of_programdata_metadata();

/// A program of the upgradeable loader, and its data account.
struct Program {
    account: AccountSharedData,
    data_key: Pubkey,
    data: AccountSharedData,
}

impl Program {
    /// Finds the program at an address; `None` if there is no account. Any other account is an error.
    fn find(now: &dyn CurrentAccounts, id: &Pubkey) -> Result<Option<Self>, ControlError> {
        let Some(account) = now.account(id) else { return Ok(None) };
        let account = account.0.clone();
        let state = bincode::deserialize(account.data());
        let owner = account.owner();
        let data_key = match state {
            Ok(UpgradeableLoaderState::Program { programdata_address })
                if bpf_loader_upgradeable::check_id(owner) =>
            {
                programdata_address
            }
            _ => {
                let what =
                    format!("account {id} of {owner} is no program of the upgradeable loader");
                return Err(ControlError::Invalid(what));
            }
        };
        let data = now.account(&data_key).map(|data| data.0.clone());
        let data = data.filter(|data| data.data().len() >= HEADER_BYTES);
        let Some(data) = data else {
            return Err(ControlError::Invalid(format!("program {id} is closed")));
        };
        Ok(Some(Self { account, data_key, data }))
    }

    /// Finds the program at an address; an error if there is no account.
    fn require(now: &dyn CurrentAccounts, id: &Pubkey) -> Result<Self, ControlError> {
        let absent = || ControlError::Invalid(format!("program {id} does not exist"));
        Self::find(now, id)?.ok_or_else(absent)
    }

    /// Creates a program without code.
    fn new(now: &dyn CurrentAccounts, id: &Pubkey) -> Self {
        let data_key = get_program_data_address(id);
        let state = UpgradeableLoaderState::Program { programdata_address: data_key };
        let mut account = owned_by_loader(bincode::serialize(&state).unwrap_or_default());
        account.set_executable(true);
        account.set_lamports(now.minimum_balance(account.data().len()));
        Self { account, data_key, data: owned_by_loader(vec![0; HEADER_BYTES]) }
    }

    fn authority(&self) -> Option<Pubkey> {
        match bincode::deserialize(self.data.data()) {
            Ok(UpgradeableLoaderState::ProgramData { upgrade_authority_address, .. }) => {
                upgrade_authority_address
            }
            _ => None,
        }
    }

    /// Writes the slot and the authority before the code.
    fn set_header(&mut self, slot: Slot, upgrade_authority_address: Option<Pubkey>) {
        let state = UpgradeableLoaderState::ProgramData { slot, upgrade_authority_address };
        let mut header = bincode::serialize(&state).unwrap_or_default();
        header.resize(HEADER_BYTES, 0);
        let mut bytes = self.data.data().to_vec();
        bytes[..HEADER_BYTES].copy_from_slice(&header);
        self.data.set_data_from_slice(&bytes);
    }

    /// Returns the edit that writes both accounts, exempt from rent.
    fn into_edit(mut self, now: &dyn CurrentAccounts, id: Pubkey) -> EditedAccounts {
        let minimum = now.minimum_balance(self.data.data().len());
        self.data.set_lamports(self.data.lamports().max(minimum));
        vec![(self.data_key, self.data), (id, self.account)]
    }
}

fn owned_by_loader(data: Vec<u8>) -> AccountSharedData {
    let mut account = AccountSharedData::new(1, 0, &bpf_loader_upgradeable::ID);
    account.set_data_from_slice(&data);
    account.set_rent_epoch(u64::MAX);
    account
}

/// Returns a deployment slot whose code can already be called.
fn callable_deployment_slot(now: &dyn CurrentAccounts) -> Slot {
    now.slot().saturating_sub(1)
}

/// Writes a part of a program's code. A program that does not exist is created; its authority is the system program
/// unless the request names one.
fn write_program(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    type WriteParams = (String, String, JsonU64, Option<String>);
    let (id, data, JsonU64(offset), authority): WriteParams = params.parse(3)?;
    let id = parse_key::pubkey(&id)?;
    let authority = authority.map(|authority| parse_key::pubkey(&authority)).transpose()?;
    let end = offset.saturating_add(data.len() as u64 / 2);
    let bytes_max = (ACCOUNT_BYTES_MAX - HEADER_BYTES) as u64;
    if end > bytes_max {
        let message = format!("the code would have {end} bytes, at most {bytes_max}");
        return Err(RpcError::invalid_params(message));
    }
    let code = hex::decode("data", &data)?;
    // The offset is at most `bytes_max`.
    let offset = offset as usize;
    control_result::edit(api, params.client(), move |now| {
        let mut program = match Program::find(now, &id)? {
            Some(program) => program,
            None => Program::new(now, &id),
        };
        let start = HEADER_BYTES + offset;
        let mut bytes = program.data.data().to_vec();
        bytes.resize(bytes.len().max(start + code.len()), 0);
        bytes[start..start + code.len()].copy_from_slice(&code);
        let is_new = program.data.lamports() <= 1;
        program.data.set_data_from_slice(&bytes);
        let unchanged = if is_new { Some(system_program::ID) } else { program.authority() };
        program.set_header(callable_deployment_slot(now), authority.or(unchanged));
        Ok(program.into_edit(now, id))
    })
}

/// Sets the upgrade authority of a program. Without an authority the program is final.
fn set_program_authority(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (id, authority): (String, Option<String>) = params.parse(1)?;
    let id = parse_key::pubkey(&id)?;
    let authority = authority.map(|authority| parse_key::pubkey(&authority)).transpose()?;
    control_result::edit(api, params.client(), move |now| {
        let mut program = Program::require(now, &id)?;
        let Ok(UpgradeableLoaderState::ProgramData { slot, .. }) =
            bincode::deserialize(program.data.data())
        else {
            return Err(ControlError::Invalid(format!("program {id} is closed")));
        };
        program.set_header(slot, authority);
        Ok(program.into_edit(now, id))
    })
}

/// Copies a program with its code to another address.
fn clone_program_account(api: &SolanaApi, params: Params<'_>) -> MethodResult {
    let (source, destination): (String, String) = params.parse(2)?;
    let source = parse_key::pubkey(&source)?;
    let destination = parse_key::pubkey(&destination)?;
    if source == destination {
        return Err(RpcError::invalid_params("source and destination are the same program"));
    }
    control_result::edit(api, params.client(), move |now| {
        let source = Program::require(now, &source)?;
        // Fails if the destination is an account of another kind.
        Program::find(now, &destination)?;
        let authority = source.authority();
        let mut copy = Program { data: source.data, ..Program::new(now, &destination) };
        copy.set_header(callable_deployment_slot(now), authority);
        Ok(copy.into_edit(now, destination))
    })
}
