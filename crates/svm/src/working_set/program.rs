//! A compiled program of a working set, one that has to be compiled, and the sum of all.
//!
//! Not here: loading and compiling (`loading`), eviction by priority (`eviction`).

use std::sync::Arc;

use solana::Account;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;
use solana_sdk_ids::native_loader;

/// Uses of a program that count for its priority. A larger value lets a program that was popular once stay longer.
const USES_MAX: u64 = 64;

/// A program, and the accounts from which it was compiled.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) account: Arc<Account>,
    /// The account with its code, if that is separate.
    pub(super) data: Option<Arc<Account>>,
    /// Whether it may be called, which is not the case in its deployment slot.
    pub(super) is_visible: bool,
    /// The uses since it was loaded, at most [`USES_MAX`].
    pub(super) uses: u64,
    /// The program with the lowest priority is evicted first.
    pub(super) priority: u64,
}

impl Program {
    pub(super) fn elf_bytes(&self) -> usize {
        self.data.as_ref().unwrap_or(&self.account).0.data().len()
    }

    pub(super) fn note_use(&mut self, evicted_priority: u64) {
        self.uses = USES_MAX.min(self.uses + 1);
        self.priority = evicted_priority + self.uses;
    }
}

/// A program that has to be compiled before it is called.
pub(super) struct UncompiledProgram {
    pub(super) key: Pubkey,
    pub(super) account: Arc<Account>,
    pub(super) code_bytes: usize,
}

/// The compiled programs of a working set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeUsage {
    /// Programs in the VM.
    pub programs: usize,
    /// Bytes of their code before it was compiled.
    pub bytes: usize,
    /// Bytes of code that was compiled since the start.
    pub compiled_bytes: u64,
}

/// Returns whether the VM compiles the account. Builtin programs are code of the VM itself.
pub(super) fn is_program(account: &AccountSharedData) -> bool {
    account.executable() && account.owner() != &native_loader::ID && account.lamports() > 0
}
