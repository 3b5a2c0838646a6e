//! The same accounts in the structures that Agave has in memory: a map from pubkeys to accounts, and for each
//! of its three indices maps from keys to pubkeys and back.

use std::collections::{HashMap, HashSet};
use std::sync::RwLock;

use anyhow::{Context, Result};
use dashmap::DashMap;
use ledger::Record;
use process_usage::Process;
use solana::key_kind;
use solana_account::AccountSharedData;
use solana_pubkey::Pubkey;
use testkit::synthetic::Synthetic;

use crate::metric::print_metric;

/// `SecondaryIndex` of agave-accounts-db 4.2.
#[derive(Default)]
struct SecondaryIndex {
    index: DashMap<Pubkey, RwLock<HashSet<Pubkey>>>,
    reverse: DashMap<Pubkey, RwLock<Vec<Pubkey>>>,
}

impl SecondaryIndex {
    fn insert(&self, key: Pubkey, account: Pubkey) {
        let accounts = self.index.entry(key).or_default();
        let is_new = accounts.write().is_ok_and(|mut accounts| accounts.insert(account));
        // As in Agave: capacity for one, so that an account of one key costs no more.
        let one = || RwLock::new(Vec::with_capacity(1));
        if is_new && let Ok(mut keys) = self.reverse.entry(account).or_insert_with(one).write() {
            keys.push(key);
        }
    }
}

pub(crate) fn run(ledger: &Synthetic) -> Result<()> {
    let mut accounts: HashMap<Pubkey, AccountSharedData> = HashMap::new();
    let indices: [SecondaryIndex; 3] = Default::default();
    for change in ledger.changes() {
        let account = change.record.context("an account")?;
        let pubkey = Pubkey::new_from_array(change.address.to_array().context("a pubkey")?);
        account.keys(&mut |facet, key| {
            let indexed = [key_kind::PROGRAM, key_kind::MINT, key_kind::OWNER];
            let index = indexed.iter().position(|kind| *kind == facet);
            if let (Some(index), Some(key)) = (index, key.to_array()) {
                indices[index].insert(Pubkey::new_from_array(key), pubkey);
            }
        });
        accounts.insert(pubkey, account.0.clone());
    }
    print_metric("resident", Process::current().resident_bytes()? as f64);
    print_metric("token_accounts", ledger.counts().tokens as f64);
    std::hint::black_box((&accounts, &indices));
    Ok(())
}
