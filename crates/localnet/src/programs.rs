//! The programs of genesis: those of `solana-test-validator`, and those that the configuration adds.
//!
//! Shape: accounts only. The working set compiles a program when a transaction names it.
//! Bounds: none of its own. An added program is verified as at a call, which is less strict than a deployment: programs
//! that were deployed before a rule was made still run.
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
use svm::Vm;

use crate::config::{Config, GenesisLoader, GenesisProgram};
use crate::error::GenesisError;
use crate::features;

/// The authority of a program that cannot be upgraded: a key that cannot sign.
const NO_AUTHORITY: Pubkey = Pubkey::new_from_array([0; 32]);
/// A syscall that old programs may call. A program that calls it cannot be deployed.
const ALLOC_FREE: &[u8] = b"sol_alloc_free_";

/// Syscalls and rules under which programs are loaded.
type Environment = Arc<BuiltinProgram<InvokeContext<'static, 'static>>>;

/// Why a program of genesis does not work, or could not have been deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFault {
    /// The address of the program.
    pub program_id: Pubkey,
    /// The text of the VM's error.
    pub reason: String,
    /// Whether calls are executed: then only a deployment of the program would be refused.
    pub is_loadable: bool,
}

/// The accounts of the programs of `solana-test-validator` at genesis, byte for byte.
pub(crate) fn genesis_programs(rent: &Rent) -> Vec<(Pubkey, AccountSharedData)> {
    // No program of the release needs a feature.
    let mut accounts = solana_program_binaries::core_bpf_programs(rent, |_| true);
    accounts.extend(solana_program_binaries::spl_programs(rent));
    accounts
}

/// The accounts of a program that a configuration adds.
pub(crate) fn program_accounts(
    program: &GenesisProgram,
    rent: &Rent,
) -> [(Pubkey, AccountSharedData); 2] {
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

/// Refuses the first program of a configuration that no call could execute.
pub(crate) fn verify(svm: &LiteSVM, programs: &[GenesisProgram]) -> Result<(), GenesisError> {
    let executing = svm.accounts_db().environments.get_env_for_execution();
    programs.iter().try_for_each(|program| {
        load(program, executing)
            .map_err(|reason| GenesisError::Program { program_id: program.program_id, reason })
    })
}

/// Returns the faults of the programs of a configuration, for messages at the start.
pub fn program_faults(config: &Config) -> Vec<ProgramFault> {
    if config.programs.is_empty() {
        return Vec::new();
    }
    let vm = Vm::new(features::choose_features(&config.features));
    let executing = vm.svm().accounts_db().environments.get_env_for_execution();
    let deploying = deployment_environment(executing).map(Arc::new);
    let fault = |program: &GenesisProgram| {
        let executed = load(program, executing);
        let is_loadable = executed.is_ok();
        let deployed = || match &deploying {
            Ok(deploying) => load(program, deploying),
            Err(err) => Err(err.to_string()),
        };
        let reason = executed.and_then(|()| deployed()).err()?;
        Some(ProgramFault { program_id: program.program_id, reason, is_loadable })
    };
    config.programs.iter().filter_map(fault).collect()
}

/// Loads and verifies a program in an environment. The error is the reason why it cannot be executed there: it is not
/// an ELF file, its version of the instruction set is not one of the environment's, or its code is invalid.
fn load(program: &GenesisProgram, environment: &Environment) -> Result<(), String> {
    let executable = Executable::load(&program.elf, Arc::clone(environment));
    let executable = executable.map_err(|err| err.to_string())?;
    executable.verify::<RequisiteVerifier>().map_err(|err| err.to_string())
}

/// The environment of a deployment: the syscalls of the execution environment, and no broken ELF files.
fn deployment_environment(
    executing: &Environment,
) -> Result<BuiltinProgram<InvokeContext<'static, 'static>>, ElfError> {
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
