//! What differs between two states of an account.
//!
//! Shape: the lamports; then, for each run of bytes of the data that differ, the number of equal bytes before it, its length
//! and its bytes. Runs with few equal bytes between them are one. Numbers are varints.
//! Bounds: a patch of more than half of the data is given up, and data of more than [`DATA_MAX`] bytes has none: a read copies
//! all of it, on a thread that others wait for.
//! Invariant: exact. Accounts that differ in more than lamports and bytes of the data have no patch.

use ledger::{put_varint, take_varint};
use solana_account::{AccountSharedData, ReadableAccount, WritableAccount};

/// Equal bytes that begin a new run: the numbers of a run take two to four bytes.
const EQUAL_MIN: usize = 4;
/// Bytes that are compared at once.
const BLOCK: usize = 64;
/// Twice the SlotHistory sysvar, which every bank writes. Its copy takes some 10 us.
const DATA_MAX: usize = 256 << 10;

/// Appends the patch that turns `base` into `account`. Returns false if there is none.
pub(crate) fn patch(
    account: &AccountSharedData,
    base: &AccountSharedData,
    patch: &mut Vec<u8>,
) -> bool {
    let data = account.data();
    let before = base.data();
    let is_alike = data.len() <= DATA_MAX
        && data.len() == before.len()
        && account.owner() == base.owner()
        && account.executable() == base.executable()
        && account.rent_epoch() == base.rent_epoch();
    if !is_alike {
        return false;
    }
    put_varint(patch, account.lamports());
    let bytes_max = patch.len() + data.len() / 2;
    let mut at = 0;
    while let Some(start) = first_difference(data, before, at) {
        let end = run_end(data, before, start);
        put_varint(patch, (start - at) as u64);
        put_varint(patch, (end - start) as u64);
        patch.extend_from_slice(&data[start..end]);
        if patch.len() > bytes_max {
            return false;
        }
        at = end;
    }
    true
}

/// The account that a patch makes of `base`. `None` if the patch has another base.
pub(crate) fn apply_patch(base: &AccountSharedData, patch: &[u8]) -> Option<AccountSharedData> {
    let mut rest = patch;
    let lamports = take_varint(&mut rest)?;
    let mut account = base.clone();
    account.set_lamports(lamports);
    if rest.is_empty() {
        return Some(account);
    }
    let data = account.data_as_mut_slice();
    let mut at = 0_usize;
    while !rest.is_empty() {
        let start = at.checked_add(usize::try_from(take_varint(&mut rest)?).ok()?)?;
        let len = usize::try_from(take_varint(&mut rest)?).ok()?;
        let (run, left) = rest.split_at_checked(len)?;
        at = start.checked_add(len)?;
        data.get_mut(start..at)?.copy_from_slice(run);
        rest = left;
    }
    Some(account)
}

/// The lamports after a patch.
pub(crate) fn lamports(mut patch: &[u8]) -> Option<u64> {
    take_varint(&mut patch)
}

/// The first byte from `at` on that differs.
fn first_difference(data: &[u8], before: &[u8], at: usize) -> Option<usize> {
    let blocks = data[at..].chunks(BLOCK).zip(before[at..].chunks(BLOCK));
    let (number, (now, then)) = blocks.enumerate().find(|(_, (now, then))| now != then)?;
    let within = now.iter().zip(then).position(|(now, then)| now != then)?;
    Some(at + number * BLOCK + within)
}

/// The end of the run that begins at `start`: [`EQUAL_MIN`] bytes after it are equal, or there are no more.
fn run_end(data: &[u8], before: &[u8], start: usize) -> usize {
    let data = &data[start..];
    let before = &before[start..];
    let mut len = 1;
    for (at, (now, then)) in data.iter().zip(before).enumerate() {
        if now != then {
            len = at + 1;
        } else if at + 1 - len >= EQUAL_MIN {
            break;
        }
    }
    start + len
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use solana_account::Account as Plain;
    use solana_pubkey::Pubkey;

    use super::*;

    fn account(lamports: u64, data: Vec<u8>) -> AccountSharedData {
        let owner = Pubkey::new_from_array([3; 32]);
        AccountSharedData::from(Plain { lamports, data, owner, ..Plain::default() })
    }

    fn patch_of(account: &AccountSharedData, base: &AccountSharedData) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        patch(account, base, &mut bytes).then_some(bytes)
    }

    #[test]
    fn a_patch_makes_the_same_account_again() {
        let mut rng = Rng::with_seed(14);
        let mut patches = 0;
        for _ in 0..5_000 {
            let len = [0, 1, 63, 64, 65, 200, 4_000][rng.usize(..7)];
            let before = account(rng.u64(..9), (0..len).map(|_| rng.u8(..)).collect());
            let mut after = before.clone();
            after.set_lamports(rng.u64(..));
            for _ in 0..rng.usize(..6) {
                let data = after.data_as_mut_slice();
                let start = rng.usize(..=data.len());
                let end = (start + rng.usize(..12)).min(data.len());
                data[start..end].iter_mut().for_each(|byte| *byte = rng.u8(..));
            }
            let Some(bytes) = patch_of(&after, &before) else {
                assert!(len < 400, "a few changes of {len} bytes have no patch");
                continue;
            };
            patches += 1;
            assert_eq!(apply_patch(&before, &bytes).as_ref(), Some(&after));
            assert_eq!(lamports(&bytes), Some(after.lamports()));
            assert!(bytes.len() <= 10 + len / 2 + 4 + 12, "{} of {len}", bytes.len());
        }
        assert!(patches > 4_000, "{patches}");
    }

    #[test]
    fn equal_bytes_between_changes_are_not_repeated() {
        let before = account(1, vec![0; 4_000]);
        let mut after = account(2, vec![0; 4_000]);
        for at in [0, 3, 1_000, 3_999] {
            after.data_as_mut_slice()[at] = 9;
        }
        let bytes = patch_of(&after, &before).expect("few bytes differ");
        assert!(bytes.len() < 20, "{}", bytes.len());
        assert_eq!(apply_patch(&before, &bytes), Some(after));
    }

    #[test]
    fn accounts_that_differ_otherwise_have_no_patch() {
        let base = account(1, vec![7; 100]);
        let large = account(1, vec![7; DATA_MAX + 1]);
        assert_eq!(patch_of(&large, &large), None);
        let mut others = vec![account(1, vec![7; 101]), account(1, vec![8; 100])];
        let changes: [fn(&mut AccountSharedData); 3] = [
            |account| account.set_owner(Pubkey::new_from_array([4; 32])),
            |account| account.set_executable(true),
            |account| account.set_rent_epoch(5),
        ];
        others.extend(changes.map(|change| {
            let mut other = base.clone();
            change(&mut other);
            other
        }));
        for other in &others {
            assert_eq!(patch_of(other, &base), None);
        }
        assert_eq!(patch_of(&base, &base).map(|bytes| bytes.len()), Some(1));
    }

    #[test]
    fn damaged_patches_are_none() {
        let base = account(1, vec![7; 100]);
        let damaged: [&[u8]; 5] =
            [&[], &[1, 200], &[1, 99, 2, 5, 5], &[1, 0, 9, 1], &[1, 255, 255, 255, 255, 255]];
        for bytes in damaged {
            assert_eq!(apply_patch(&base, bytes), None, "{bytes:?}");
        }
    }
}
