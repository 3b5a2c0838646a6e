//! Records that are packed without their own address: each way of reading supplies it.

use std::sync::Arc;

use ledger::{Address, AddressId, BlockId, Key, KeyKind, Record};

use crate::{BlockError, Snapshot, State, Version, VisibleVersion};

type TestResult = Result<(), BlockError>;

const ROOT: BlockId = block(10, 0);
/// Some are in one leaf, others in leaves and pages of their own.
const IDS: [AddressId; 6] =
    [AddressId(0), AddressId(1), AddressId(62), AddressId(63), AddressId(64), AddressId(70_001)];
/// The key of the records that have one.
const KEY: Key = Key { kind: KeyKind(3), id: AddressId(9) };

/// A record at its address, which is also its rank. One of four does not pack, and odd values have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    address: Address,
    value: u8,
}

impl Record for Placed {
    fn keys(&self, key: &mut dyn FnMut(KeyKind, Address)) {
        if self.has_key() {
            key(KEY.kind, address(KEY.id));
        }
    }

    fn pack(&self, packed: &mut Vec<u8>) -> bool {
        packed.push(self.value);
        !self.value.is_multiple_of(4)
    }

    fn unpack(
        keys: &[(KeyKind, Address)],
        packed: &[u8],
        own_address: &dyn Fn() -> Address,
    ) -> Option<Self> {
        let [value] = packed else { return None };
        let record = Self { address: own_address(), value: *value };
        (keys.len() == usize::from(record.has_key())).then_some(record)
    }

    fn global_rank(&self) -> Option<u64> {
        let id = self.address.as_bytes().first_chunk()?;
        Some(u32::from_le_bytes(*id).into())
    }
}

impl Placed {
    fn has_key(&self) -> bool {
        !self.value.is_multiple_of(2)
    }
}

const fn block(slot: u64, version: u64) -> BlockId {
    BlockId { slot, version }
}

fn address(id: AddressId) -> Address {
    Address::try_from(&id.0.to_le_bytes()[..]).expect("four bytes are an address")
}

/// Returns a record for each of [`IDS`], with the values from `first` on.
fn versions(first: u8) -> Vec<(AddressId, Version<Placed>)> {
    let version = |(id, value): (AddressId, u8)| {
        let record = Placed { address: address(id), value };
        let keys: &[Key] = if record.has_key() { &[KEY] } else { &[] };
        (id, Version { record: Some(Arc::new(record)), keys: keys.into() })
    };
    IDS.into_iter().zip(first..).map(version).collect()
}

/// Adds a complete block that writes [`versions`].
fn add(state: &mut State<Placed, ()>, block: BlockId, parent: BlockId, first: u8) -> TestResult {
    state.open(block, parent, Arc::new(()))?;
    state.write(block, versions(first), &mut Vec::new())?;
    state.complete(block)
}

/// Reads a version in every way, and checks that it has its own address. Returns its value.
fn check_version(version: &VisibleVersion<'_, Placed>, id: AddressId) -> u8 {
    let record = version.record(address);
    assert_eq!(record.address, address(id));
    assert_eq!(version.to_stored(address).record(), record);
    assert_eq!(version.rank(None, address), Some(id.0.into()));
    record.value
}

/// Checks that all reads of a block see [`versions`].
fn check_snapshot(snapshot: &Snapshot<Placed, ()>, first: u8) {
    let expected: Vec<(AddressId, u8)> = IDS.into_iter().zip(first..).collect();
    let listed = snapshot.versions().map(|(id, version)| (id, check_version(&version, id)));
    assert_eq!(listed.collect::<Vec<_>>(), expected);
    let mut batch = Vec::new();
    snapshot.find_versions(&IDS, &mut batch);
    assert_eq!(batch.len(), IDS.len());
    for ((id, value), found) in expected.into_iter().zip(batch) {
        let alone = snapshot.version(id);
        let value_in = |version: &VisibleVersion<'_, Placed>| check_version(version, id);
        assert_eq!(alone.as_ref().map(value_in), Some(value), "{id:?}");
        assert_eq!(found.as_ref().map(value_in), Some(value), "{id:?} in a batch");
    }
}

#[test]
fn every_read_sees_the_own_address_of_a_packed_record() -> TestResult {
    let mut state = State::new(ROOT, Arc::new(()));
    state.write(ROOT, versions(1), &mut Vec::new())?;
    state.complete(ROOT)?;
    check_snapshot(&state.snapshot(ROOT)?, 1);

    let [left, right, above] = [block(11, 1), block(11, 2), block(12, 3)];
    add(&mut state, left, ROOT, 101)?;
    add(&mut state, right, ROOT, 150)?;
    add(&mut state, above, left, 201)?;
    let before = [(ROOT, 1), (left, 101), (right, 150), (above, 201)];
    let mut snapshots = Vec::new();
    for (block, first) in before {
        snapshots.push((state.snapshot(block)?, first));
    }
    for (number, id) in (0_u8..).zip(IDS) {
        let values = state.find_versions(id).map(|version| check_version(&version, id));
        let mut values: Vec<u8> = values.collect();
        values.sort_unstable();
        assert_eq!(values, before.map(|(_, first)| first + number), "{id:?}");
    }

    // The removed versions are those of the fork on the right, and those of the root, most of which are packed.
    let mut removed = Vec::new();
    state.finalize(left, &mut removed)?;
    assert_eq!(removed.len(), 2 * IDS.len());
    for removed in &removed {
        let version = removed.version().expect("it is not a removal");
        let value = check_version(&version, removed.id);
        assert!((1..7).contains(&value) || (150..156).contains(&value), "{value}");
    }
    check_snapshot(&state.snapshot(left)?, 101);
    check_snapshot(&state.snapshot(above)?, 201);
    // Repacking a leaf moves the records that it does not change.
    let last = block(13, 4);
    state.open(last, above, Arc::new(()))?;
    let removal = Version { record: None, keys: Arc::default() };
    state.write(last, vec![(IDS[1], removal)], &mut Vec::new())?;
    state.complete(last)?;
    state.finalize(last, &mut Vec::new())?;
    let rooted = state.snapshot(last)?;
    let left_over = rooted.versions().map(|(id, version)| (id, check_version(&version, id)));
    let expected = IDS.into_iter().zip(201_u8..).filter(|(id, _)| *id != IDS[1]);
    assert_eq!(left_over.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    for (snapshot, first) in &snapshots {
        check_snapshot(snapshot, *first);
    }
    Ok(())
}
