//! The messages of a source about a chain: in a random order that a source may use, duplicated, delayed, cut and
//! resumed.

use fastrand::Rng;
use feed::{BlockMeta, SlotStatus, SourceId, Update, UpdateKind};
use ledger::Slot;

use crate::chain::{Chain, End, TrueBank};

pub(crate) type TestUpdate = Update<u64, u64, ()>;

/// A message, without its source.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) slot: Slot,
    pub(crate) bank_id: Option<u64>,
    pub(crate) kind: UpdateKind<u64, u64, ()>,
}

impl Message {
    pub(crate) fn update(&self, source: SourceId) -> TestUpdate {
        let Self { slot, bank_id, kind } = self.clone();
        Update { source, slot, bank_id, bytes: 100, kind }
    }

    pub(crate) fn is_created(&self) -> bool {
        matches!(self.kind, UpdateKind::Status(SlotStatus::CreatedBank))
    }
}

/// Properties of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Whether it names its banks; then a bank is created after its first writes (4.3), else before them (4.2).
    pub(crate) has_ids: bool,
    /// Its first write version, and its first bank id.
    pub(crate) first_version: u64,
}

/// Messages with those that must come before each.
struct Order {
    messages: Vec<(Message, Vec<usize>)>,
}

impl Order {
    fn add(&mut self, message: Message, after: &[usize]) -> usize {
        self.messages.push((message, after.to_vec()));
        self.messages.len() - 1
    }

    /// A random order. Of the messages that may come next it takes one of the first few.
    fn shuffle(mut self, rng: &mut Rng) -> Vec<Message> {
        let mut sent = vec![false; self.messages.len()];
        let mut order = Vec::new();
        let window = rng.usize(1..40);
        while order.len() < self.messages.len() {
            let may = |at: &usize| !sent[*at] && self.messages[*at].1.iter().all(|it| sent[*it]);
            let ready: Vec<usize> = (0..sent.len()).filter(may).take(window).collect();
            let at = ready[rng.usize(..ready.len())];
            sent[at] = true;
            order.push(at);
        }
        let message = |at: usize| {
            let kind = UpdateKind::Status(SlotStatus::Processed);
            std::mem::replace(&mut self.messages[at].0, Message { slot: 0, bank_id: None, kind })
        };
        order.into_iter().map(message).collect()
    }
}

/// All messages of a chain in a random order that is allowed.
pub(crate) fn messages(chain: &Chain, manner: Manner, rng: &mut Rng) -> Vec<Message> {
    let mut order = Order { messages: Vec::new() };
    // Of each bank: what its children come after, and what comes before Finalized.
    let mut frozen: Vec<(Slot, usize)> = Vec::new();
    let mut processed: Vec<(Slot, usize)> = Vec::new();
    let mut last_of_slot: Vec<(Slot, Vec<usize>)> = Vec::new();
    for (number, bank) in chain.banks.iter().enumerate() {
        let first = order.messages.len();
        let before: Vec<usize> = {
            let parent = frozen.iter().filter(|(slot, _)| *slot == bank.parent_slot);
            let replaced = last_of_slot.iter().filter(|(slot, _)| *slot == bank.slot);
            let replaced = replaced.flat_map(|(_, all)| all.clone());
            parent.map(|(_, at)| *at).chain(replaced).collect()
        };
        let bank_id = manner.has_ids.then_some(manner.first_version + number as u64 + 1);
        add_bank(&mut order, bank, bank_id, manner, number as u64, &before);
        let added = first..order.messages.len();
        for at in added.clone() {
            match &order.messages[at].0.kind {
                UpdateKind::BlockMeta(_) => frozen.push((bank.slot, at)),
                UpdateKind::Status(SlotStatus::Processed) => processed.push((bank.slot, at)),
                _ => {}
            }
        }
        last_of_slot.push((bank.slot, added.collect()));
    }
    let mut before: Option<usize> = None;
    let mut confirmed = Vec::new();
    for slot in &chain.confirmed {
        let meta = frozen.iter().rfind(|(it, _)| it == slot).expect("confirmed banks are frozen").1;
        let after: Vec<usize> = before.into_iter().chain([meta]).collect();
        let at = order.add(status(chain, manner, *slot, SlotStatus::Confirmed), &after);
        before = Some(at);
        confirmed.push((*slot, at));
    }
    let mut before: Option<usize> = None;
    for (slot, confirmed) in &confirmed[..chain.finalized] {
        let processed = processed.iter().rfind(|(it, _)| it == slot).expect("it is frozen").1;
        let after: Vec<usize> = before.into_iter().chain([*confirmed, processed]).collect();
        before = Some(order.add(status(chain, manner, *slot, SlotStatus::Finalized), &after));
    }
    order.shuffle(rng)
}

fn status(chain: &Chain, manner: Manner, slot: Slot, status: SlotStatus) -> Message {
    let number = chain.banks.iter().rposition(|bank| bank.slot == slot && bank.is_canonical);
    let number = number.expect("a canonical bank") as u64;
    let bank_id = manner.has_ids.then_some(manner.first_version + number + 1);
    Message { slot, bank_id, kind: UpdateKind::Status(status) }
}

fn add_bank(
    order: &mut Order,
    bank: &TrueBank,
    bank_id: Option<u64>,
    manner: Manner,
    number: u64,
    before: &[usize],
) {
    let slot = bank.slot;
    let message = |kind| Message { slot, bank_id, kind };
    let created = message(UpdateKind::Status(SlotStatus::CreatedBank));
    let first = (!manner.has_ids).then(|| order.add(created.clone(), before));
    let after = first.map_or_else(|| before.to_vec(), |first| vec![first]);
    let mut version = manner.first_version + number * 1_000;
    let mut accounts: Vec<usize> = Vec::new();
    let mut transactions: Vec<usize> = Vec::new();
    for (index, writes) in bank.writes.iter().enumerate() {
        let mut own = Vec::new();
        for (pubkey, account) in writes {
            version += 1;
            let earlier = accounts.iter().copied().filter(|at| {
                matches!(&order.messages[*at].0.kind,
                    UpdateKind::Account { pubkey: it, .. } if it == pubkey)
            });
            let after: Vec<usize> = after.iter().copied().chain(earlier).collect();
            let pubkey = *pubkey;
            let account = *account;
            let kind = UpdateKind::Account { pubkey, write_version: version, account };
            let at = order.add(message(kind), &after);
            accounts.push(at);
            own.push(at);
        }
        if (index as u64) < bank.transactions() {
            let transaction = transaction(bank, index as u64);
            let kind = UpdateKind::Transaction { index: index as u64, transaction };
            own.extend(&after);
            transactions.push(order.add(message(kind), &own));
        }
    }
    if manner.has_ids {
        accounts.push(order.add(created, &accounts[..1]));
    }
    if bank.is_frozen() {
        let meta = BlockMeta {
            parent_slot: bank.parent_slot,
            parent_blockhash: bank.parent_hash,
            blockhash: bank.hash,
            executed_transaction_count: bank.transactions(),
            entries_count: 0,
            meta: (),
        };
        order.add(message(UpdateKind::BlockMeta(meta)), &accounts);
        let all: Vec<usize> = transactions.iter().chain(&accounts).copied().collect();
        order.add(message(UpdateKind::Status(SlotStatus::Processed)), &all);
    } else {
        // An end in the middle: some of the content was never sent.
        let all: Vec<usize> = accounts.iter().chain(&transactions).copied().collect();
        let lost = all.last().copied().filter(|_| number.is_multiple_of(2));
        if let Some(lost) = lost.filter(|lost| *lost + 1 == order.messages.len())
            && !order.messages[lost].0.is_created()
        {
            order.messages.pop();
        }
        if bank.end == End::Dead {
            let all: Vec<usize> = all.into_iter().filter(|at| *at < order.messages.len()).collect();
            let error = "a broken rule".to_owned();
            order.add(message(UpdateKind::Status(SlotStatus::Dead { error })), &all);
        }
    }
}

/// The number of a transaction.
pub(crate) fn transaction(bank: &TrueBank, index: u64) -> u64 {
    u64::from_le_bytes(bank.hash.to_bytes()[..8].try_into().expect("8 bytes")) * 100 + index
}

/// Repeats some messages a few positions later.
pub(crate) fn repeat_some(messages: Vec<Message>, chain: &Chain, rng: &mut Rng) -> Vec<Message> {
    let mut out = messages.clone();
    for message in &messages {
        // Without bank ids, a second "created" is a replay, and content of a replay_messages slot has no owner.
        let banks = chain.banks.iter().filter(|bank| bank.slot == message.slot).count();
        let is_plain = message.bank_id.is_some() || (banks == 1 && !message.is_created());
        if is_plain && rng.u8(0..6) == 0 {
            let at = rng.usize(..=out.len());
            let first = out.iter().position(|other| is_same(other, message)).unwrap_or(0);
            out.insert(at.max(first + 1).min(out.len()), message.clone());
        }
    }
    out
}

fn is_same(left: &Message, right: &Message) -> bool {
    format!("{left:?}") == format!("{right:?}")
}

/// Returns the first messages of a new session: all earlier ones above the root, for some seeds with only the last
/// write of each account.
pub(crate) fn replay_messages(sent: &[Message], from_slot: Slot, rng: &mut Rng) -> Vec<Message> {
    let newest = |at: usize, message: &Message| {
        let UpdateKind::Account { pubkey, .. } = &message.kind else { return true };
        !sent[at + 1..].iter().any(|other| {
            (other.slot, other.bank_id) == (message.slot, message.bank_id)
                && matches!(&other.kind, UpdateKind::Account { pubkey: it, .. } if it == pubkey)
        })
    };
    let only_newest = rng.bool() && sent.iter().all(|message| message.bank_id.is_some());
    let all = sent.iter().enumerate().filter(|(_, message)| message.slot >= from_slot);
    let all = all.filter(|(at, message)| !only_newest || newest(*at, message));
    all.map(|(_, message)| message.clone()).collect()
}
