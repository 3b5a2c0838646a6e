//! Evicts accounts and programs past the bounds of a working set.
//!
//! Bounds: programs [`PROGRAMS_MAX`], or [`ELF_BYTES_MAX`] of code, which compiles to about six times as much.
//! Past the bound of programs the least used ones are evicted: each has a priority, the number of its recent uses
//! (at most `USES_MAX`) plus the priority of the last evicted program at its last use. So a program that is used often
//! outlives many that are called once, and one that is not used any longer is evicted in the end.
//! Not here: the uses of a program (`program`).

use solana_pubkey::Pubkey;

use super::WorkingSet;
use crate::vm::Vm;

/// Cached programs. The VM copies their list for each transaction: 256 take about 3 us.
const PROGRAMS_MAX: usize = 256;
/// Bytes of the cached programs' code before it is compiled.
pub(super) const ELF_BYTES_MAX: usize = 64 << 20;
/// Cached programs, and addresses of programs that were evicted or are not deployed. The VM has an entry for each, which
/// only a new VM drops: past this bound all programs are evicted.
pub(super) const ENTRIES_MAX: usize = 4 * PROGRAMS_MAX;

impl WorkingSet {
    pub(super) fn forget_program(&mut self, key: &Pubkey) -> bool {
        let Some(known) = self.programs.remove(key) else { return false };
        self.elf_bytes -= known.elf_bytes();
        true
    }

    pub(super) fn evict_excess(&mut self) {
        if self.is_outdated || self.programs.len() + self.closed.len() > ENTRIES_MAX {
            self.rebuild();
        }
        while (self.programs.len() > PROGRAMS_MAX || self.elf_bytes > ELF_BYTES_MAX)
            && self.evict_program()
        {}
        while let Some(key) = self.plain.evict_one() {
            // It may have become a program meanwhile.
            if !self.programs.contains_key(&key) {
                self.vm.remove(key);
            }
        }
    }

    /// Evicts the least used program. Returns `false` if there is none. Cost: one step for each program.
    fn evict_program(&mut self) -> bool {
        let least = self.programs.iter().min_by_key(|(key, program)| (program.priority, **key));
        let Some((key, priority)) = least.map(|(key, program)| (*key, program.priority)) else {
            return false;
        };
        self.evicted_priority = priority;
        self.forget_program(&key);
        self.vm.remove_program(key);
        self.closed.insert(key);
        true
    }

    /// Starts a new VM with the pinned accounts only.
    pub(super) fn rebuild(&mut self) {
        tracing::debug!(programs = self.programs.len(), self.elf_bytes, "programs are evicted");
        let vm = Vm::without_programs(self.vm.features().clone()).with_limits(self.vm.limits());
        let empty = Self::empty(vm);
        let old = std::mem::replace(self, empty);
        self.pinned = old.pinned;
        self.write_through = old.write_through;
        self.compiled_bytes = old.compiled_bytes;
        for key in &self.pinned {
            match old.vm.account(key) {
                Some(account) => self.vm.put(*key, account),
                None => self.vm.remove(*key),
            }
        }
    }
}
