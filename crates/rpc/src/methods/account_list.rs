//! Lists of accounts as they are found and written, step by step.
//!
//! A list in the order of pubkeys is searched first: of each account found sixteen bytes are kept, the
//! beginning of its pubkey and its id. Then the accounts are read again, from the same view, and written.
//! A list in no order is written as it is found.
//! Bounds: [`SORTED_MAX`] accounts are sorted at once, 16 MiB; of a longer list, pubkeys are cut into as
//! many ranges as it takes, and it is searched once for each. One account is encoded at a time, a long one
//! in pieces.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io::Write;
use std::sync::Arc;

use chain_solana::View;
use ledger::{Address, AddressId, KeyKind};
use pool::TimeSlice;
use serde::Serialize;
use solana::{Account, AccountEncoder, Encoding, MintInfo};
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::response::RpcKeyedAccount;

use super::output::{ListTemplate, not_json, write_json};
use super::{
    MethodOutput, MethodResult, RESULT_CHUNK_BYTES, StreamState, StreamedResult, accounts_reader,
};
use crate::error::RpcError;

/// Accounts sorted at once.
const SORTED_MAX: usize = 1 << 20;

/// Accounts of a sorted run: as many as are sorted in a fraction of a slice.
const RUN_LEN: usize = 2_048;

/// Accounts looked at between two looks at the clock.
const VISITS: usize = 128;

/// Accounts read together, so that they are waited for together.
const READ_AT_ONCE: usize = 64;

/// Accounts written between two looks at the clock, if they are small.
const WRITES: usize = 16;

/// So many bytes of an account's data count as one more account: 64 KiB are written between two looks.
const WRITE_BYTES: usize = 4 * 1024;

/// Mints that a list remembers: 320 KiB.
const MINTS_MAX: usize = 4_096;

/// Whether an account is wanted.
pub(super) type AccountFilter = Box<dyn Fn(&Account) -> bool + Send>;

/// What is looked for.
pub(super) struct ListQuery {
    /// Found by each of these.
    pub(super) keys: Vec<(KeyKind, Address)>,
    /// And passing this, if the keys do not say it all.
    pub(super) filter: Option<AccountFilter>,
    /// In the order of pubkeys.
    pub(super) sorted: bool,
}

/// How accounts are written.
#[derive(Clone, Copy)]
pub(super) struct ListFormat {
    /// In what form each account comes.
    pub(super) encoding: Encoding,
    /// Of token accounts, `jsonParsed` leaves out what cannot be parsed, as Agave does.
    pub(super) is_token_list: bool,
}

/// The answer that has the accounts wanted in the place of the list of `empty`.
pub(super) fn stream_matching(
    view: &View,
    wanted: ListQuery,
    form: ListFormat,
    empty: &impl Serialize,
) -> MethodResult {
    let source = if wanted.sorted || may_be_too_long(form.encoding) {
        let candidates = view.records_by_keys_len(&wanted.keys);
        AccountSource::Sorted(ExternalSort::new(candidates.div_ceil(SORTED_MAX).max(1)))
    } else {
        AccountSource::Unsorted(VecDeque::new())
    };
    let search = ScanState { query: wanted, next: Some(AddressId(0)) };
    AccountListStream::start(view, source, Some(search), form, empty)
}

/// The answer that has these accounts in the place of the list of `empty`.
pub(super) fn stream_given(
    view: &View,
    accounts: Vec<(Pubkey, Arc<Account>)>,
    form: ListFormat,
    empty: &impl Serialize,
) -> MethodResult {
    for (_, account) in &accounts {
        accounts_reader::check_encoding(account, form.encoding)?;
    }
    AccountListStream::start(view, AccountSource::Provided(accounts.into_iter()), None, form, empty)
}

/// Whether there are accounts that cannot be had in an encoding.
fn may_be_too_long(encoding: Encoding) -> bool {
    matches!(encoding.form, UiAccountEncoding::Binary | UiAccountEncoding::Base58)
}

struct AccountListStream {
    view: View,
    scan: Option<ScanState>,
    source: AccountSource,
    /// Accounts that were read ahead, to be written next.
    read_ahead: VecDeque<(Pubkey, Arc<Account>)>,
    /// The account that is being written, if it is long.
    long: Option<(AccountEncoder, Arc<Account>)>,
    form: ListFormat,
    template: ListTemplate,
    mints: HashMap<Pubkey, Option<MintInfo>>,
    has_started: bool,
    is_first: bool,
    /// Records that were looked at.
    records_visited: u64,
}

/// Where the accounts to write come from.
enum AccountSource {
    Provided(std::vec::IntoIter<(Pubkey, Arc<Account>)>),
    Unsorted(VecDeque<AddressId>),
    Sorted(ExternalSort),
}

/// How far the search is.
struct ScanState {
    query: ListQuery,
    next: Option<AddressId>,
}

/// What one look for more came to.
enum NextAccount {
    Account(Pubkey, Arc<Account>),
    Pending,
    End,
}

impl AccountListStream {
    fn start(
        view: &View,
        source: AccountSource,
        search: Option<ScanState>,
        form: ListFormat,
        empty: &impl Serialize,
    ) -> MethodResult {
        let frame = ListTemplate::at_last_list(empty)?;
        let (view, mints) = (view.clone(), HashMap::new());
        let (has_begun, is_first) = (false, true);
        Ok(MethodOutput::streamed(Self {
            view,
            scan: search,
            source,
            read_ahead: VecDeque::new(),
            long: None,
            form,
            template: frame,
            mints,
            has_started: has_begun,
            is_first,
            records_visited: 0,
        }))
    }

    fn next(&mut self) -> Result<NextAccount, RpcError> {
        if let Some((pubkey, account)) = self.read_ahead.pop_front() {
            return Ok(NextAccount::Account(pubkey, account));
        }
        let ids: Vec<AddressId> = match &mut self.source {
            AccountSource::Provided(accounts) => {
                self.records_visited += 1;
                return Ok(accounts
                    .next()
                    .map_or(NextAccount::End, |(key, it)| NextAccount::Account(key, it)));
            }
            AccountSource::Unsorted(ids) => ids.drain(..ids.len().min(READ_AT_ONCE)).collect(),
            AccountSource::Sorted(sorting) => {
                std::iter::from_fn(|| sorting.pop()).take(READ_AT_ONCE).collect()
            }
        };
        if ids.is_empty() {
            return match self.source {
                AccountSource::Sorted(_) => self.scan_and_sort(),
                _ => Ok(self.scan_more()),
            };
        }
        let found = self.view.records(ids.into_iter());
        self.read_ahead.extend(
            found.filter_map(|(address, account)| {
                Some((accounts_reader::pubkey(&address)?, account))
            }),
        );
        Ok(self
            .read_ahead
            .pop_front()
            .map_or(NextAccount::Pending, |(key, it)| NextAccount::Account(key, it)))
    }

    /// Searches a little on, for a list that is written as it is found.
    fn scan_more(&mut self) -> NextAccount {
        let (Some(search), AccountSource::Unsorted(ids)) = (&mut self.scan, &mut self.source)
        else {
            return NextAccount::End;
        };
        let Some(first) = search.next else { return NextAccount::End };
        let ListQuery { keys, filter: keep, .. } = &search.query;
        let touched = &mut self.records_visited;
        search.next = self.view.scan(keys, first, VISITS, |id, account| {
            *touched += 1;
            if keep.as_ref().is_none_or(|keep| keep(&account())) {
                ids.push_back(id);
            }
        });
        NextAccount::Pending
    }

    /// Searches a little on, for a list that is sorted; at the end of the search, the sorted ones follow,
    /// and then the search for the next range.
    fn scan_and_sort(&mut self) -> Result<NextAccount, RpcError> {
        let (Some(search), AccountSource::Sorted(sorting)) = (&mut self.scan, &mut self.source)
        else {
            return Ok(NextAccount::End);
        };
        let Some(first) = search.next else {
            let goes_on = sorting.next_pass();
            search.next = goes_on.then_some(AddressId(0));
            return Ok(if goes_on { NextAccount::Pending } else { NextAccount::End });
        };
        let ListQuery { keys, filter: keep, .. } = &search.query;
        let (view, encoding) = (&self.view, self.form.encoding);
        // Only the first search can find what cannot be answered: nothing is written before.
        let checks = sorting.pass == 0 && may_be_too_long(encoding);
        let mut checked = Ok(());
        let touched = &mut self.records_visited;
        search.next = view.scan(keys, first, VISITS, |id, account| {
            *touched += 1;
            if checked.is_err() {
                return;
            }
            if checks || keep.is_some() {
                let account = account();
                if keep.as_ref().is_some_and(|keep| !keep(&account)) {
                    return;
                }
                checked = accounts_reader::check_encoding(&account, encoding);
            }
            if let Some(address) = view.address(id) {
                sorting.push(&address, id);
            }
        });
        checked?;
        if search.next.is_none() {
            sorting.close();
        }
        Ok(NextAccount::Pending)
    }

    fn write_account(
        &mut self,
        pubkey: &Pubkey,
        account: &Arc<Account>,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError> {
        let Self { view, form, mints, .. } = self;
        let mut facts = |mint: &Pubkey| {
            if mints.len() >= MINTS_MAX {
                mints.clear();
            }
            *mints.entry(*mint).or_insert_with(|| accounts_reader::mint_info(view, mint))
        };
        let only_parsed = form.is_token_list && form.encoding.form == UiAccountEncoding::JsonParsed;
        let parsed = if only_parsed {
            let Some(parsed) = solana::parsed_token(pubkey, &account.0, &mut facts) else {
                return Ok(());
            };
            Some(parsed)
        } else {
            None
        };
        if !std::mem::take(&mut self.is_first) {
            out.push(b',');
        }
        if let Some(account) = parsed {
            return write_json(out, &RpcKeyedAccount { pubkey: pubkey.to_string(), account });
        }
        // A Vec always takes it.
        let _ = write!(out, r#"{{"pubkey":"{pubkey}","account":"#);
        let written = form.encoding.start(out, pubkey, &account.0, &mut facts);
        match written.map_err(|err| not_json(&err))? {
            Some(rest) => self.long = Some((rest, Arc::clone(account))),
            None => out.push(b'}'),
        }
        Ok(())
    }

    /// Writes a piece of a long account.
    fn write_long(
        &mut self,
        (mut rest, account): (AccountEncoder, Arc<Account>),
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError> {
        if accounts_reader::write_next_chunk(&mut rest, &account, out)? == StreamState::More {
            self.long = Some((rest, account));
        } else {
            out.push(b'}');
        }
        Ok(())
    }
}

impl StreamedResult for AccountListStream {
    fn write(&mut self, slice: &TimeSlice<'_>, out: &mut Vec<u8>) -> Result<StreamState, RpcError> {
        let mut written = 0;
        loop {
            if let Some(long) = self.long.take() {
                self.write_long(long, out)?;
                if out.len() >= RESULT_CHUNK_BYTES || slice.is_over() {
                    return Ok(StreamState::More);
                }
                continue;
            }
            match self.next()? {
                NextAccount::Pending => written = WRITES,
                NextAccount::Account(pubkey, account) => {
                    self.write_head(out);
                    self.write_account(&pubkey, &account, out)?;
                    let bytes = self.form.encoding.encoded_len(&account.0);
                    written += 1 + bytes / WRITE_BYTES;
                }
                NextAccount::End => {
                    self.write_head(out);
                    out.append(&mut self.template.tail);
                    return Ok(StreamState::Done);
                }
            }
            if out.len() >= RESULT_CHUNK_BYTES {
                return Ok(StreamState::More);
            }
            if written >= WRITES {
                written = 0;
                if slice.is_over() {
                    return Ok(StreamState::More);
                }
            }
        }
    }

    fn records_visited(&self) -> u64 {
        self.records_visited
    }
}

impl AccountListStream {
    fn write_head(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_started, true) {
            out.append(&mut self.template.head);
        }
    }
}

/// Ids in the order of their pubkeys: sorted runs, merged as they are taken.
struct ExternalSort {
    passes: usize,
    pass: usize,
    run: Vec<u128>,
    runs: Vec<Box<[u128]>>,
    /// The next of each run: its word, its run, its place there.
    heads: BinaryHeap<Reverse<(u128, usize, usize)>>,
    /// All of this pass are here.
    is_closed: bool,
}

impl ExternalSort {
    fn new(passes: usize) -> Self {
        let (run, runs) = (Vec::new(), Vec::new());
        Self { passes, pass: 0, run, runs, heads: BinaryHeap::new(), is_closed: false }
    }

    /// The first 12 bytes of the address, then the id: who makes two addresses that share as many has
    /// them in either order.
    fn push(&mut self, address: &Address, id: AddressId) {
        let mut word = [0; 16];
        for (to, from) in word[..12].iter_mut().zip(address.as_bytes()) {
            *to = *from;
        }
        word[12..].copy_from_slice(&id.0.to_be_bytes());
        let word = u128::from_be_bytes(word);
        let range = ((word >> 96) as u64 * self.passes as u64) >> 32;
        if range != self.pass as u64 {
            return;
        }
        self.run.push(word);
        if self.run.len() == RUN_LEN {
            self.end_run();
        }
    }

    fn end_run(&mut self) {
        self.run.sort_unstable();
        let run: Box<[u128]> = std::mem::take(&mut self.run).into();
        if let Some(head) = run.first() {
            self.heads.push(Reverse((*head, self.runs.len(), 0)));
            self.runs.push(run);
        }
    }

    /// There are no more in this pass.
    fn close(&mut self) {
        self.end_run();
        self.is_closed = true;
    }

    fn pop(&mut self) -> Option<AddressId> {
        if !self.is_closed {
            return None;
        }
        let Reverse((word, run, at)) = self.heads.pop()?;
        match self.runs[run].get(at + 1) {
            Some(next) => self.heads.push(Reverse((*next, run, at + 1))),
            None => self.runs[run] = Box::default(),
        }
        Some(AddressId(word as u32)) // its low half
    }

    /// On to the next range of addresses, if there is one.
    fn next_pass(&mut self) -> bool {
        self.pass += 1;
        self.is_closed = false;
        self.runs.clear();
        self.pass < self.passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_passes_gives_the_order_of_addresses() {
        let mut random = 1_u64;
        let mut byte = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        };
        let addresses: Vec<[u8; 32]> =
            (0..10_000).map(|_| std::array::from_fn(|_| byte())).collect();
        let mut wanted: Vec<usize> = (0..addresses.len()).collect();
        wanted.sort_by_key(|at| addresses[*at]);
        for passes in [1, 2, 7] {
            let mut sorting = ExternalSort::new(passes);
            let mut found = Vec::new();
            loop {
                for (at, address) in addresses.iter().enumerate() {
                    sorting.push(&Address::from(*address), AddressId(at as u32));
                }
                sorting.close();
                found.extend(std::iter::from_fn(|| sorting.pop()).map(|id| id.0 as usize));
                if !sorting.next_pass() {
                    break;
                }
            }
            assert_eq!(found, wanted, "{passes}");
        }
    }
}
