//! Statistics of a snapshot.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use solana_account::{AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;

/// Totals of a program's accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramHoldings {
    /// Number of accounts that it owns.
    pub accounts: u64,
    /// Bytes of their data.
    pub data_bytes: u64,
    /// Lamports in them.
    pub lamports: u64,
}

/// A large account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LargestAccount {
    /// Bytes of its data.
    pub data_bytes: usize,
    /// Address of the account.
    pub address: Pubkey,
    /// The program that owns it.
    pub owner: Pubkey,
}

/// A snapshot in numbers.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Bytes of all accounts' data.
    pub data_bytes: u64,
    /// Programs, those with the most data first.
    pub programs: Vec<(Pubkey, ProgramHoldings)>,
    /// The accounts with the most data, the largest first.
    pub largest: Vec<LargestAccount>,
}

impl Summary {
    /// Counts all accounts of a snapshot and retains the `largest_max` largest. Memory: one entry a
    /// program.
    pub fn from_accounts<A: Borrow<AccountSharedData>>(
        accounts: impl IntoIterator<Item = (Pubkey, A)>,
        largest_max: usize,
    ) -> Self {
        let mut programs: HashMap<Pubkey, ProgramHoldings> = HashMap::new();
        let mut largest = BinaryHeap::new();
        for (address, account) in accounts {
            let account = account.borrow();
            let owner = *account.owner();
            let data_bytes = account.data().len();
            let holdings = programs.entry(owner).or_default();
            holdings.accounts += 1;
            holdings.data_bytes += data_bytes as u64;
            // Does not overflow: all lamports together are the capitalization, a u64.
            holdings.lamports += account.lamports();
            largest.push(Reverse(LargestAccount { data_bytes, address, owner }));
            if largest.len() > largest_max {
                largest.pop();
            }
        }
        let data_bytes = programs.values().map(|holdings| holdings.data_bytes).sum();
        let mut programs: Vec<_> = programs.into_iter().collect();
        programs.sort_unstable_by_key(|(program, holdings)| {
            (Reverse(holdings.data_bytes), Reverse(holdings.accounts), *program)
        });
        let largest = largest.into_sorted_vec().into_iter().map(|Reverse(account)| account);
        Self { data_bytes, programs, largest: largest.collect() }
    }
}
