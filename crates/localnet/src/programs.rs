//! The programs of genesis: those of `solana-test-validator`, and those that the configuration adds.
//!
//! Shape: accounts only. The working set compiles a program when a transaction names it.
//! Bounds: none of its own. An added program is verified as at a deployment. One that fails is refused here.
//! Not here: builtin programs and precompiles, which are code of the node (`vm`, `precompiles`).

use std::sync::Arc;

use litesvm::LiteSVM;
use solana_account::{Account, AccountSharedData};
use solana_loader_v3_interface::get_program_data_address;
use solana_loader_v3_interface::state::UpgradeableLoaderState;
use solana_program_runtime::invoke_context::InvokeContext;
use solana_program_runtime::solana_sbpf::elf::{ElfError, Executable};
use solana_program_runtime::solana_sbpf::program::BuiltinProgram;
use solana_program_runtime::solana_sbpf::verifier::RequisiteVerifier;
use solana_pubkey::Pubkey;
use solana_rent::Rent;
use solana_sdk_ids::bpf_loader_upgradeable;

use crate::config::{GenesisLoader, GenesisProgram};
use crate::error::GenesisError;

/// The authority of a program that cannot be upgraded: a key that cannot sign.
const NO_AUTHORITY: Pubkey = Pubkey::new_from_array([0; 32]);
/// A syscall that old programs may call. A program that calls it cannot be deployed.
const ALLOC_FREE: &[u8] = b"sol_alloc_free_";

/// The accounts of the programs of `solana-test-validator` at genesis, byte for byte.
pub(crate) fn genesis_programs(rent: &Rent) -> Vec<(Pubkey, AccountSharedData)> {
    // No program of the release needs a feature.
    let mut accounts = solana_program_binaries::core_bpf_programs(rent, |_| true);
    accounts.extend(solana_program_binaries::spl_programs(rent));
    accounts
}

/// The accounts of a program that a configuration adds.
pub(crate) fn added(program: &GenesisProgram, rent: &Rent) -> [(Pubkey, AccountSharedData); 2] {
    let data_key = get_program_data_address(&program.program_id);
    let authority = match program.loader {
        GenesisLoader::Final => NO_AUTHORITY,
        GenesisLoader::Upgradeable(authority) => authority,
    };
    let state = |state: &UpgradeableLoaderState| bincode::serialize(state).unwrap_or_default();
    let mut data = state(&UpgradeableLoaderState::ProgramData {
        slot: 0,
        upgrade_authority_address: Some(authority),
    });
    data.extend_from_slice(&program.elf);
    let program_state = state(&UpgradeableLoaderState::Program { programdata_address: data_key });
    let owned = |data: Vec<u8>, executable| {
        AccountSharedData::from(Account {
            lamports: rent.minimum_balance(data.len()).max(1),
            data,
            owner: bpf_loader_upgradeable::ID,
            executable,
            rent_epoch: 0,
        })
    };
    [(data_key, owned(data, false)), (program.program_id, owned(program_state, true))]
}

/// Verifies programs that a configuration adds, as a deployment does: every symbol that a program calls is known, and
/// its version of the instruction set is one that `svm` executes.
pub(crate) fn verify(svm: &LiteSVM, programs: &[GenesisProgram]) -> Result<(), GenesisError> {
    if programs.is_empty() {
        return Ok(());
    }
    let environment = deployment_environment(svm).map(Arc::new);
    for program in programs {
        let program_error = |err: &dyn std::error::Error| GenesisError::Program {
            program_id: program.program_id,
            reason: err.to_string(),
        };
        let environment = environment.as_ref().map_err(|err| program_error(err))?;
        let executable = Executable::<InvokeContext<'static, 'static>>::load(
            &program.elf,
            Arc::clone(environment),
        )
        .map_err(|err| program_error(&err))?;
        executable.verify::<RequisiteVerifier>().map_err(|err| program_error(&err))?;
    }
    Ok(())
}

/// The environment of a deployment: the syscalls of the execution environment, and no broken ELF files.
fn deployment_environment(
    svm: &LiteSVM,
) -> Result<BuiltinProgram<InvokeContext<'static, 'static>>, ElfError> {
    let executing = svm.accounts_db().environments.get_env_for_execution();
    let mut config = executing.get_config().clone();
    config.reject_broken_elfs = true;
    let mut environment = BuiltinProgram::new_loader(config);
    for (_, (name, syscall)) in executing.get_function_registry().iter() {
        // Every name is one that Agave registers as text.
        if name != ALLOC_FREE
            && let Ok(name) = std::str::from_utf8(name)
        {
            environment.register_function(name, syscall)?;
        }
    }
    Ok(environment)
}
