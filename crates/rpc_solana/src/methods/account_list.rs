//! Lists of accounts: found, sorted and written step by step.
//!
//! A list in pubkey order is scanned first. For each account found, sixteen bytes stay in memory: the first twelve of
//! its pubkey, and its id. The whole pubkeys of accounts that share the first bytes are read from the view. Then the
//! accounts are read again from the same view and written.
//! An unsorted list is written as it is found.
//! Bounds: at most [`SORTED_MAX`] accounts are sorted at once (16 MiB). For a longer list, the pubkeys are split
//! into ranges, and the list is scanned once per range. One account is encoded at a time, a long one in chunks.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io::Write;
use std::sync::Arc;

use chain_solana::View;
use cpu_pool::TimeSlice;
use jsonrpc::error::RpcError;
use jsonrpc::{
    ListTemplate, MethodOutput, MethodResult, OutputBody, StreamState, StreamedResult, not_json,
    write_json,
};
use ledger::{Address, AddressId, KeyKind};
use response_cache::{RESULT_CHUNK_BYTES, ResultContext};
use serde::Serialize;
use solana::{Account, AccountEncoder, Encoding, MintInfo};
use solana_account_decoder_client_types::UiAccountEncoding;
use solana_pubkey::Pubkey;
use solana_rpc_client_types::response::RpcKeyedAccount;

use super::accounts_reader;

/// Maximum number of accounts that are sorted at once.
const SORTED_MAX: usize = 1 << 20;

/// Accounts per sorted run: few enough to be sorted in a fraction of a time slice.
const RUN_LEN: usize = 2_048;

/// Accounts scanned between two checks of the clock.
const VISITS: usize = 128;

/// Accounts read together, so that their memory latencies overlap.
const READ_AT_ONCE: usize = 64;

/// Accounts written between two checks of the clock, if they are small.
const WRITES: usize = 16;

/// Bytes of an account's data that count as one more account: 64 KiB are written between two checks.
const WRITE_BYTES: usize = 4 * 1024;

/// Maximum number of mints that a list caches: 320 KiB.
const MINTS_MAX: usize = 4_096;

/// Whether an account belongs to the list.
pub(super) type AccountFilter = Box<dyn Fn(&Account) -> bool + Send>;

/// The selection of accounts for a list.
pub(super) struct ListQuery {
    /// The keys that each account must have, all of them.
    pub(super) keys: Vec<(KeyKind, Address)>,
    /// The filter that each account must also pass, if the keys alone are not enough.
    pub(super) filter: Option<AccountFilter>,
    pub(super) sorted: bool,
}

/// The format of the accounts in a list.
#[derive(Clone, Copy)]
pub(super) struct ListFormat {
    pub(super) encoding: Encoding,
    /// If true, `jsonParsed` omits the token accounts that cannot be parsed, as Agave does.
    pub(super) is_token_list: bool,
}

/// Streams the list of the accounts that match `query`, in its context if it has one.
pub(super) fn stream_matching(
    context: Option<ResultContext>,
    view: &View,
    query: ListQuery,
    format: ListFormat,
) -> MethodResult {
    let source = if query.sorted || may_be_too_long(format.encoding) {
        let candidates = view.records_by_keys_len(&query.keys);
        AccountSource::Sorted(ExternalSort::new(candidates.div_ceil(SORTED_MAX).max(1)))
    } else {
        AccountSource::Unsorted(VecDeque::new())
    };
    let scan = ScanState { query, next: Some(AddressId(0)) };
    let template = ListTemplate::at_last_list(&[(); 0])?;
    let stream = AccountListStream::new(view, source, Some(scan), format, template);
    Ok(MethodOutput::streamed(context, stream))
}

/// Streams the value `empty`, with `accounts` in its list.
pub(super) fn stream_listed(
    view: &View,
    accounts: Vec<(Pubkey, Arc<Account>)>,
    format: ListFormat,
    empty: &impl Serialize,
) -> Result<OutputBody, RpcError> {
    for (_, account) in &accounts {
        accounts_reader::check_encoding(account, format.encoding)?;
    }
    let template = ListTemplate::at_last_list(empty)?;
    let source = AccountSource::Provided(accounts.into_iter());
    Ok(OutputBody::streamed(AccountListStream::new(view, source, None, format, template)))
}

/// Whether some accounts are too long for an encoding.
fn may_be_too_long(encoding: Encoding) -> bool {
    matches!(encoding.form, UiAccountEncoding::Binary | UiAccountEncoding::Base58)
}

struct AccountListStream {
    view: View,
    scan: Option<ScanState>,
    source: AccountSource,
    /// Accounts that were read ahead and are written next.
    read_ahead: VecDeque<(Pubkey, Arc<Account>)>,
    /// The long account that is being written, if any.
    long: Option<(AccountEncoder, Arc<Account>)>,
    format: ListFormat,
    template: ListTemplate,
    mints: HashMap<Pubkey, Option<MintInfo>>,
    has_started: bool,
    is_first: bool,
    records_visited: u64,
}

/// The source of the accounts to write.
enum AccountSource {
    Provided(std::vec::IntoIter<(Pubkey, Arc<Account>)>),
    Unsorted(VecDeque<AddressId>),
    Sorted(ExternalSort),
}

struct ScanState {
    query: ListQuery,
    next: Option<AddressId>,
}

/// The result of one attempt to get the next account.
enum NextAccount {
    Account(Pubkey, Arc<Account>),
    Pending,
    End,
}

impl AccountListStream {
    fn new(
        view: &View,
        source: AccountSource,
        scan: Option<ScanState>,
        format: ListFormat,
        template: ListTemplate,
    ) -> Self {
        Self {
            view: view.clone(),
            scan,
            source,
            read_ahead: VecDeque::new(),
            long: None,
            format,
            template,
            mints: HashMap::new(),
            has_started: false,
            is_first: true,
            records_visited: 0,
        }
    }

    fn next(&mut self) -> Result<NextAccount, RpcError> {
        if let Some((pubkey, account)) = self.read_ahead.pop_front() {
            return Ok(NextAccount::Account(pubkey, account));
        }
        let view = &self.view;
        let ids: Vec<AddressId> = match &mut self.source {
            AccountSource::Provided(accounts) => {
                self.records_visited += 1;
                return Ok(accounts
                    .next()
                    .map_or(NextAccount::End, |(key, it)| NextAccount::Account(key, it)));
            }
            AccountSource::Unsorted(ids) => ids.drain(..ids.len().min(READ_AT_ONCE)).collect(),
            AccountSource::Sorted(sort) => {
                let pop = || sort.pop(|id| view.address(id));
                std::iter::from_fn(pop).take(READ_AT_ONCE).collect()
            }
        };
        if ids.is_empty() {
            return match self.source {
                AccountSource::Sorted(_) => self.scan_and_sort(),
                _ => Ok(self.scan_more()),
            };
        }
        let found = view.records(ids.into_iter());
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

    /// Continues the scan of an unsorted list by one step.
    fn scan_more(&mut self) -> NextAccount {
        let (Some(scan), AccountSource::Unsorted(ids)) = (&mut self.scan, &mut self.source) else {
            return NextAccount::End;
        };
        let Some(first) = scan.next else { return NextAccount::End };
        let ListQuery { keys, filter, .. } = &scan.query;
        let visited = &mut self.records_visited;
        scan.next = self.view.scan(keys, first, VISITS, |id, account| {
            *visited += 1;
            if filter.as_ref().is_none_or(|filter| filter(&account())) {
                ids.push_back(id);
            }
        });
        NextAccount::Pending
    }

    /// Continues the scan of a sorted list by one step. After the scan the sorted accounts are written, then the
    /// next range is scanned.
    fn scan_and_sort(&mut self) -> Result<NextAccount, RpcError> {
        let (Some(scan), AccountSource::Sorted(sort)) = (&mut self.scan, &mut self.source) else {
            return Ok(NextAccount::End);
        };
        let Some(first) = scan.next else {
            let has_more = sort.next_pass();
            scan.next = has_more.then_some(AddressId(0));
            return Ok(if has_more { NextAccount::Pending } else { NextAccount::End });
        };
        let ListQuery { keys, filter, .. } = &scan.query;
        let view = &self.view;
        let encoding = self.format.encoding;
        // Only the first scan can fail on an account that is too long: nothing is written before it ends.
        let checks = sort.pass == 0 && may_be_too_long(encoding);
        let mut checked = Ok(());
        let visited = &mut self.records_visited;
        scan.next = view.scan(keys, first, VISITS, |id, account| {
            *visited += 1;
            if checked.is_err() {
                return;
            }
            if checks || filter.is_some() {
                let account = account();
                if filter.as_ref().is_some_and(|filter| !filter(&account)) {
                    return;
                }
                checked = accounts_reader::check_encoding(&account, encoding);
            }
            if let Some(address) = view.address(id) {
                sort.push(&address, id, |id| view.address(id));
            }
        });
        checked?;
        if scan.next.is_none() {
            sort.close(|id| view.address(id));
        }
        Ok(NextAccount::Pending)
    }

    fn write_account(
        &mut self,
        pubkey: &Pubkey,
        account: &Arc<Account>,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError> {
        let Self { view, format, mints, .. } = self;
        let mut mint_info = |mint: &Pubkey| {
            if mints.len() >= MINTS_MAX {
                mints.clear();
            }
            *mints.entry(*mint).or_insert_with(|| accounts_reader::mint_info(view, mint))
        };
        let only_parsed =
            format.is_token_list && format.encoding.form == UiAccountEncoding::JsonParsed;
        let parsed = if only_parsed {
            let Some(parsed) = solana::parsed_token(pubkey, &account.0, &mut mint_info) else {
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
        // Writing to a Vec cannot fail.
        let _ = write!(out, r#"{{"pubkey":"{pubkey}","account":"#);
        let written = format.encoding.start(out, pubkey, &account.0, &mut mint_info);
        match written.map_err(|err| not_json(&err))? {
            Some(encoder) => self.long = Some((encoder, Arc::clone(account))),
            None => out.push(b'}'),
        }
        Ok(())
    }

    /// Writes the next chunk of a long account.
    fn write_long(
        &mut self,
        mut encoder: AccountEncoder,
        account: Arc<Account>,
        out: &mut Vec<u8>,
    ) -> Result<(), RpcError> {
        if accounts_reader::write_next_chunk(&mut encoder, &account, out)? == StreamState::More {
            self.long = Some((encoder, account));
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
            if let Some((encoder, account)) = self.long.take() {
                self.write_long(encoder, account, out)?;
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
                    let bytes = self.format.encoding.encoded_len(&account.0);
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

/// Ids in pubkey order: sorted runs, which are merged while their entries are popped.
///
/// An entry is a word: the first 12 bytes of an address, then its id. Entries that share these bytes are in the order
/// of their whole addresses, for which the methods take a lookup.
struct ExternalSort {
    passes: usize,
    pass: usize,
    run: Vec<u128>,
    runs: Vec<Box<[u128]>>,
    /// The next entry of each run, except those in `ties`.
    heads: BinaryHeap<Reverse<(u128, RunCursor)>>,
    /// The next entry of each run that shares the lowest 12 bytes with another run.
    ties: BinaryHeap<Reverse<(Option<Address>, RunCursor)>>,
    /// Whether all entries of this pass are pushed.
    is_closed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RunCursor {
    run: usize,
    index: usize,
}

/// Returns the first 12 bytes of the address of an entry.
fn entry_prefix(word: u128) -> u128 {
    word >> 32
}

fn entry_id(word: u128) -> AddressId {
    AddressId(word as u32) // its low half
}

impl ExternalSort {
    fn new(passes: usize) -> Self {
        Self {
            passes,
            pass: 0,
            run: Vec::new(),
            runs: Vec::new(),
            heads: BinaryHeap::new(),
            ties: BinaryHeap::new(),
            is_closed: false,
        }
    }

    fn push(
        &mut self,
        address: &Address,
        id: AddressId,
        lookup_address: impl Fn(AddressId) -> Option<Address>,
    ) {
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
            self.end_run(lookup_address);
        }
    }

    fn end_run(&mut self, lookup_address: impl Fn(AddressId) -> Option<Address>) {
        self.run.sort_unstable();
        let shares_prefix = |one: &u128, other: &u128| entry_prefix(*one) == entry_prefix(*other);
        for equal in self.run.chunk_by_mut(shares_prefix).filter(|equal| equal.len() > 1) {
            equal.sort_by_cached_key(|word| lookup_address(entry_id(*word)));
        }
        let run: Box<[u128]> = std::mem::take(&mut self.run).into();
        if let Some(head) = run.first() {
            self.heads.push(Reverse((*head, RunCursor { run: self.runs.len(), index: 0 })));
            self.runs.push(run);
        }
    }

    /// Ends this pass: no more entries are pushed.
    fn close(&mut self, lookup_address: impl Fn(AddressId) -> Option<Address>) {
        self.end_run(lookup_address);
        self.is_closed = true;
    }

    fn pop(&mut self, lookup_address: impl Fn(AddressId) -> Option<Address>) -> Option<AddressId> {
        if !self.is_closed {
            return None;
        }
        if self.ties.is_empty() {
            let Reverse((word, cursor)) = self.heads.pop()?;
            let is_tied = self.peek_prefix() == Some(entry_prefix(word));
            if !is_tied {
                if let Some(next) = self.advance(cursor) {
                    self.heads.push(Reverse(next));
                }
                return Some(entry_id(word));
            }
            self.ties.push(Reverse((lookup_address(entry_id(word)), cursor)));
            while self.peek_prefix() == Some(entry_prefix(word))
                && let Some(Reverse((word, cursor))) = self.heads.pop()
            {
                self.ties.push(Reverse((lookup_address(entry_id(word)), cursor)));
            }
        }
        let Reverse((_, cursor)) = self.ties.pop()?;
        let word = self.runs[cursor.run][cursor.index];
        match self.advance(cursor) {
            Some((next, cursor)) if entry_prefix(next) == entry_prefix(word) => {
                self.ties.push(Reverse((lookup_address(entry_id(next)), cursor)));
            }
            Some(next) => self.heads.push(Reverse(next)),
            None => {}
        }
        Some(entry_id(word))
    }

    /// Returns the first 12 bytes of the lowest of `heads`.
    fn peek_prefix(&self) -> Option<u128> {
        self.heads.peek().map(|Reverse((word, _))| entry_prefix(*word))
    }

    /// Returns the entry after one in its run, with its position. A run is freed after its last entry.
    fn advance(&mut self, RunCursor { run, index }: RunCursor) -> Option<(u128, RunCursor)> {
        let next = self.runs[run].get(index + 1).copied();
        if next.is_none() {
            self.runs[run] = Box::default();
        }
        next.map(|word| (word, RunCursor { run, index: index + 1 }))
    }

    /// Starts the pass for the next range of addresses. Returns false if there is none.
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

    fn random_bytes() -> impl FnMut() -> u8 {
        let mut random = 1_u64;
        move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        }
    }

    /// Sorts addresses in several passes, and returns their indices in order.
    fn sort(addresses: &[[u8; 32]], passes: usize) -> Vec<usize> {
        let lookup = |id: AddressId| addresses.get(id.0 as usize).map(|it| Address::from(*it));
        let mut sort = ExternalSort::new(passes);
        let mut sorted = Vec::new();
        loop {
            for (at, address) in addresses.iter().enumerate() {
                sort.push(&Address::from(*address), AddressId(at as u32), lookup);
            }
            sort.close(lookup);
            sorted.extend(std::iter::from_fn(|| sort.pop(lookup)).map(|id| id.0 as usize));
            if !sort.next_pass() {
                return sorted;
            }
        }
    }

    fn assert_sorted(addresses: &[[u8; 32]]) {
        let mut expected: Vec<usize> = (0..addresses.len()).collect();
        expected.sort_by_key(|at| addresses[*at]);
        for passes in [1, 2, 7] {
            assert!(sort(addresses, passes) == expected, "{passes}");
        }
    }

    #[test]
    fn any_number_of_passes_sorts_addresses() {
        let mut byte = random_bytes();
        let addresses: Vec<[u8; 32]> =
            (0..10_000).map(|_| std::array::from_fn(|_| byte())).collect();
        assert_sorted(&addresses);
    }

    #[test]
    fn addresses_with_equal_prefixes_are_sorted_by_the_rest() {
        let with_end = |end: u8| {
            let mut bytes = [7; 32];
            bytes[31] = end;
            bytes
        };
        assert_sorted(&[with_end(2), with_end(1)]);
        // Three prefixes in several runs, and others between them.
        let mut byte = random_bytes();
        let address = |at: usize| {
            let mut bytes: [u8; 32] = std::array::from_fn(|_| byte());
            if !at.is_multiple_of(4) {
                bytes[..12].fill([0, 64, 65, 255][at % 4]);
            }
            bytes
        };
        let addresses: Vec<[u8; 32]> = (0..4 * RUN_LEN + 5).map(address).collect();
        assert_sorted(&addresses);
    }
}
