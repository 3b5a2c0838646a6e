//! A record for tests: a number, and any keys.

use std::sync::Arc;

use fastrand::Rng;
use ledger::{Address, Change, KeyKind, Record};

/// A record with its own address, so that a reader detects a mixed-up result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRecord {
    /// Address of the record.
    pub address: Address,
    /// A value that the test counts.
    pub value: u64,
    /// The keys that it is found by.
    pub keys: Vec<(KeyKind, Address)>,
}

impl Record for TestRecord {
    fn keys(&self, key: &mut dyn FnMut(KeyKind, Address)) {
        self.keys.iter().for_each(|(facet, address)| key(*facet, *address));
    }

    /// One of eleven does not pack, and one of thirteen is too long when packed. The lengths of the others differ. One
    /// of three packs without its address.
    fn pack(&self, packed: &mut Vec<u8>) -> bool {
        let address = self.packed_address();
        packed.push(address.len() as u8); // at most ADDRESS_BYTES_MAX
        packed.extend_from_slice(address);
        packed.extend_from_slice(&self.value.to_le_bytes());
        packed.resize(packed.len() + self.padding(), PADDING);
        !self.value.is_multiple_of(11)
    }

    fn unpack(
        keys: &[(KeyKind, Address)],
        packed: &[u8],
        own_address: &dyn Fn() -> Address,
    ) -> Option<Self> {
        let (len, rest) = packed.split_first()?;
        let (address, rest) = rest.split_at_checked(usize::from(*len))?;
        let (value, padding) = rest.split_first_chunk()?;
        let value = u64::from_le_bytes(*value);
        let note = Self { address: own_address(), value, keys: keys.to_vec() };
        let is_whole = padding.len() == note.padding() && padding.iter().all(|at| *at == PADDING);
        (is_whole && address == note.packed_address()).then_some(note)
    }

    /// For some, known without unpacking.
    fn packed_rank(packed: &[u8], facet: Option<KeyKind>) -> Option<Option<u64>> {
        let (len, rest) = packed.split_first()?;
        let (_, rest) = rest.split_at_checked(usize::from(*len))?;
        let value = u64::from_le_bytes(*rest.first_chunk()?);
        match facet {
            None if value.is_multiple_of(2) => Some(global_rank(value)),
            Some(KeyKind(1)) => Some(Some(value % 7)),
            _ => None,
        }
    }

    /// With many equal ones.
    fn global_rank(&self) -> Option<u64> {
        global_rank(self.value)
    }

    fn rank_in(&self, facet: KeyKind) -> Option<u64> {
        (facet != KeyKind(2)).then_some(self.value % 7)
    }
}

impl TestRecord {
    /// The bytes of the address in a packed record; none if the record needs the address at which it is stored.
    fn packed_address(&self) -> &[u8] {
        if self.value.is_multiple_of(3) { &[] } else { self.address.as_bytes() }
    }

    /// Number of padding bytes of a packed record.
    fn padding(&self) -> usize {
        if self.value.is_multiple_of(13) { 1_000 } else { (self.value % 50) as usize }
    }
}

fn global_rank(value: u64) -> Option<u64> {
    (!value.is_multiple_of(5)).then_some(value % 40)
}

/// The padding of packed records.
const PADDING: u8 = 0xa5;

/// Makes random changes in a small world with many collisions: the same addresses have records and are keys.
#[derive(Clone, Debug)]
pub struct TestRecordGenerator {
    /// Number of addresses.
    pub addresses: usize,
    /// Number of addresses that are keys.
    pub keys: usize,
    /// Maximum number of changes of a write.
    pub changes_max: usize,
    /// Of 100 changes, the number that remove the record.
    pub removals: usize,
}

impl TestRecordGenerator {
    /// The address of a number. Lengths differ: no layer below the dialects may depend on them.
    pub fn address(&self, n: usize) -> Address {
        let mut bytes = [n as u8; 36];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        Address::try_from(&bytes[..32 + n % 5]).expect("32 to 36 bytes are an address")
    }

    /// A key that some record may have.
    pub fn key(&self, rng: &mut Rng) -> (KeyKind, Address) {
        (KeyKind(rng.u8(..3)), self.address(rng.usize(..self.keys)))
    }

    /// The changes of one write. Some change an address twice, some records have a key twice.
    pub fn changes(&self, rng: &mut Rng) -> Vec<Change<TestRecord>> {
        let count = 1 + rng.usize(..self.changes_max);
        let change = |rng: &mut Rng| {
            let address = self.address(rng.usize(..self.addresses));
            let value = rng.u64(..);
            let keys = (0..rng.usize(..5)).map(|_| self.key(rng)).collect();
            let note = TestRecord { address, value, keys };
            Change { address, record: (rng.usize(..100) >= self.removals).then(|| Arc::new(note)) }
        };
        (0..count).map(|_| change(rng)).collect()
    }
}
