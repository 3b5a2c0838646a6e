//! A compact encoding of an account without the addresses in its index keys.
//!
//! Shape: a byte of flags; lamports unless they are the rent-exempt minimum; the rent epoch unless
//! it is the last; then the data. Of a token account only those fields are stored that its mint,
//! owner, program and delegate keys do not have: a common token account takes its flags and its
//! amount, 2 to 9 bytes.
//! Invariant: exact. Unusual bytes of a token account (an unknown tag or state, bytes in unused
//! fields) are stored unchanged, or all of its data is stored.
//! Bounds: data of at most [`DATA_MAX`] bytes; larger accounts are not packed.

use ledger::{Address, KeyKind, put_varint, take_varint};
use solana_account::{Account as Plain, AccountSharedData, ReadableAccount};
use solana_pubkey::Pubkey;

use crate::key_kind;
use crate::token::token_data;

/// More than a stake account or a mint with a few extensions needs.
const DATA_MAX: usize = 450;

/// Flags of every account, in its first byte.
mod flag {
    /// The rest is a token account; else it is the data.
    pub(super) const TOKEN: u8 = 1;
    pub(super) const RENT_EXEMPT: u8 = 1 << 1;
    pub(super) const LAST_RENT_EPOCH: u8 = 1 << 2;
    pub(super) const EXECUTABLE: u8 = 1 << 3;
    /// A token account's state is 2; else it is 1.
    pub(super) const FROZEN: u8 = 1 << 4;
    /// After its 165 bytes a token account has only [`super::IMMUTABLE_OWNER`].
    pub(super) const IMMUTABLE_OWNER: u8 = 1 << 5;
    /// A second byte, of [`super::extra`], follows.
    pub(super) const EXTRAS: u8 = 1 << 6;
}

/// Flags of a token account that has more than an amount.
mod extra {
    /// It has a delegate, which is an index key.
    pub(super) const DELEGATE: u8 = 1;
    /// It has no delegate, but bytes are left in the field. The other `_LEFT` flags mean the same.
    pub(super) const DELEGATE_LEFT: u8 = 1 << 1;
    pub(super) const NATIVE: u8 = 1 << 2;
    pub(super) const NATIVE_LEFT: u8 = 1 << 3;
    pub(super) const DELEGATED: u8 = 1 << 4;
    pub(super) const CLOSE: u8 = 1 << 5;
    pub(super) const CLOSE_LEFT: u8 = 1 << 6;
    /// The remaining bytes are the data after the first 165.
    pub(super) const TAIL: u8 = 1 << 7;
}

/// The account type, and the only extension of an associated token account of Token-2022: type 7,
/// no bytes.
const IMMUTABLE_OWNER: [u8; 5] = [2, 7, 0, 0, 0];

/// A token account without extensions.
const TOKEN_BYTES: usize = 165;

const SOME: [u8; 4] = [1, 0, 0, 0];
const NONE: [u8; 4] = [0; 4];

/// Appends the packed account, without what its keys have. Returns false if its data is too large.
pub(crate) fn pack(account: &AccountSharedData, packed: &mut Vec<u8>) -> bool {
    let data = account.data();
    if data.len() > DATA_MAX {
        return false;
    }
    let start = packed.len();
    let mut flags = 0;
    packed.push(0);
    if account.executable() {
        flags |= flag::EXECUTABLE;
    }
    if account.lamports() == rent(data.len()) {
        flags |= flag::RENT_EXEMPT;
    } else {
        put_varint(packed, account.lamports());
    }
    if account.rent_epoch() == u64::MAX {
        flags |= flag::LAST_RENT_EPOCH;
    } else {
        put_varint(packed, account.rent_epoch());
    }
    match token_data(account).and_then(Token::read).and_then(|token| token.pack(packed)) {
        Some(token_flags) => flags |= token_flags,
        None => packed.extend_from_slice(data),
    }
    packed[start] = flags;
    true
}

/// Restores the account from its keys and the bytes of [`pack`].
pub(crate) fn unpack(keys: &[(KeyKind, Address)], packed: &[u8]) -> Option<AccountSharedData> {
    let key = |kind: KeyKind| -> Option<[u8; 32]> {
        keys.iter().find(|(other, _)| *other == kind)?.1.to_array()
    };
    let (flags, mut rest) = packed.split_first()?;
    let has = |flag: u8| flags & flag != 0;
    let explicit_lamports =
        if has(flag::RENT_EXEMPT) { None } else { Some(take_varint(&mut rest)?) };
    let rent_epoch = if has(flag::LAST_RENT_EPOCH) { u64::MAX } else { take_varint(&mut rest)? };
    let data = if has(flag::TOKEN) { unpack_token(*flags, key, rest)? } else { rest.to_vec() };
    Some(AccountSharedData::from(Plain {
        lamports: explicit_lamports.unwrap_or_else(|| rent(data.len())),
        data,
        owner: Pubkey::new_from_array(key(key_kind::PROGRAM)?),
        executable: has(flag::EXECUTABLE),
        rent_epoch,
    }))
}

/// The lamports of a packed account; `None` if they depend on an unusual length.
pub(crate) fn lamports(packed: &[u8]) -> Option<u64> {
    let (flags, mut rest) = packed.split_first()?;
    if flags & flag::RENT_EXEMPT == 0 {
        return take_varint(&mut rest);
    }
    skip_rent_epoch(*flags, &mut rest)?;
    if flags & flag::TOKEN == 0 {
        return Some(rent(rest.len()));
    }
    let extras = if flags & flag::EXTRAS == 0 { 0 } else { take_array::<1>(&mut rest)?[0] };
    let tail = if flags & flag::IMMUTABLE_OWNER == 0 { 0 } else { IMMUTABLE_OWNER.len() };
    (extras & extra::TAIL == 0).then(|| rent(TOKEN_BYTES + tail))
}

/// The amount of a packed token account; `None` if it has unusual extensions.
pub(crate) fn amount(packed: &[u8]) -> Option<u64> {
    let (flags, mut rest) = packed.split_first()?;
    if flags & flag::TOKEN == 0 {
        return None;
    }
    if flags & flag::RENT_EXEMPT == 0 {
        take_varint(&mut rest)?;
    }
    skip_rent_epoch(*flags, &mut rest)?;
    let extras = if flags & flag::EXTRAS == 0 { 0 } else { take_array::<1>(&mut rest)?[0] };
    if extras & extra::TAIL != 0 {
        return None;
    }
    take_varint(&mut rest)
}

fn skip_rent_epoch(flags: u8, rest: &mut &[u8]) -> Option<()> {
    if flags & flag::LAST_RENT_EPOCH == 0 {
        take_varint(rest)?;
    }
    Some(())
}

/// An optional field of a token account.
struct OptionalField<'a, const N: usize> {
    is_some: bool,
    value: &'a [u8; N],
}

/// The fields of a token account that are not in its keys.
struct Token<'a> {
    amount: u64,
    delegate: OptionalField<'a, 32>,
    state: u8,
    native: OptionalField<'a, 8>,
    delegated: u64,
    close: OptionalField<'a, 32>,
    tail: &'a [u8],
}

impl<'a> Token<'a> {
    /// Reads the data of an account that has the keys of a token account. `None` if it has tags
    /// that no token program writes.
    fn read(data: &'a [u8]) -> Option<Self> {
        let (_mint_and_owner, mut rest) = data.split_at_checked(64)?;
        Some(Self {
            amount: u64::from_le_bytes(*take_array(&mut rest)?),
            delegate: OptionalField::read(&mut rest)?,
            state: take_array::<1>(&mut rest)?[0],
            native: OptionalField::read(&mut rest)?,
            delegated: u64::from_le_bytes(*take_array(&mut rest)?),
            close: OptionalField::read(&mut rest)?,
            tail: rest,
        })
    }

    /// Appends it and returns its flags; `None` if it has a state that no token program writes.
    fn pack(self, packed: &mut Vec<u8>) -> Option<u8> {
        let frozen = match self.state {
            1 => 0,
            2 => flag::FROZEN,
            _ => return None,
        };
        let (tail_flag, tail) = match self.tail {
            [] => (0, &[][..]),
            tail if tail == IMMUTABLE_OWNER => (flag::IMMUTABLE_OWNER, &[][..]),
            tail => (0, tail),
        };
        let extras = self.delegate.extra(extra::DELEGATE, extra::DELEGATE_LEFT)
            | self.native.extra(extra::NATIVE, extra::NATIVE_LEFT)
            | if self.delegated == 0 { 0 } else { extra::DELEGATED }
            | self.close.extra(extra::CLOSE, extra::CLOSE_LEFT)
            | if tail.is_empty() { 0 } else { extra::TAIL };
        let extras_flag = if extras == 0 { 0 } else { flag::EXTRAS };
        if extras != 0 {
            packed.push(extras);
        }
        put_varint(packed, self.amount);
        if extras & extra::DELEGATE_LEFT != 0 {
            packed.extend_from_slice(self.delegate.value);
        }
        if extras & extra::NATIVE != 0 {
            put_varint(packed, u64::from_le_bytes(*self.native.value));
        }
        if extras & extra::NATIVE_LEFT != 0 {
            packed.extend_from_slice(self.native.value);
        }
        if extras & extra::DELEGATED != 0 {
            put_varint(packed, self.delegated);
        }
        if extras & (extra::CLOSE | extra::CLOSE_LEFT) != 0 {
            packed.extend_from_slice(self.close.value);
        }
        packed.extend_from_slice(tail);
        Some(flag::TOKEN | frozen | tail_flag | extras_flag)
    }
}

impl<'a, const N: usize> OptionalField<'a, N> {
    fn read(rest: &mut &'a [u8]) -> Option<Self> {
        let tag = *take_array(rest)?;
        let value = take_array(rest)?;
        (tag == SOME || tag == NONE).then_some(Self { is_some: tag == SOME, value })
    }

    /// The flag of this field's content.
    fn extra(&self, there: u8, left: u8) -> u8 {
        match (self.is_some, *self.value == [0; N]) {
            (true, _) => there,
            (false, true) => 0,
            (false, false) => left,
        }
    }
}

fn unpack_token(
    flags: u8,
    key: impl Fn(KeyKind) -> Option<[u8; 32]>,
    mut rest: &[u8],
) -> Option<Vec<u8>> {
    let extras = if flags & flag::EXTRAS == 0 { 0 } else { take_array::<1>(&mut rest)?[0] };
    let has = |extra: u8| extras & extra != 0;
    let mut image = [0; TOKEN_BYTES];
    put(&mut image, 0, key(key_kind::MINT)?);
    put(&mut image, 32, key(key_kind::OWNER)?);
    put(&mut image, 64, take_varint(&mut rest)?.to_le_bytes());
    image[108] = if flags & flag::FROZEN == 0 { 1 } else { 2 };
    if extras != 0 {
        if has(extra::DELEGATE) {
            put(&mut image, 72, SOME);
            put(&mut image, 76, key(key_kind::DELEGATE)?);
        }
        if has(extra::DELEGATE_LEFT) {
            put::<32>(&mut image, 76, *take_array(&mut rest)?);
        }
        if has(extra::NATIVE) {
            put(&mut image, 109, SOME);
            put(&mut image, 113, take_varint(&mut rest)?.to_le_bytes());
        }
        if has(extra::NATIVE_LEFT) {
            put::<8>(&mut image, 113, *take_array(&mut rest)?);
        }
        if has(extra::DELEGATED) {
            put(&mut image, 121, take_varint(&mut rest)?.to_le_bytes());
        }
        if has(extra::CLOSE) {
            put(&mut image, 129, SOME);
        }
        if has(extra::CLOSE | extra::CLOSE_LEFT) {
            put::<32>(&mut image, 133, *take_array(&mut rest)?);
        }
    }
    let tail = match flags & flag::IMMUTABLE_OWNER {
        0 => rest,
        _ => &IMMUTABLE_OWNER,
    };
    let mut data = Vec::with_capacity(TOKEN_BYTES + tail.len());
    data.extend_from_slice(&image);
    data.extend_from_slice(tail);
    Some(data)
}

fn put<const N: usize>(image: &mut [u8; TOKEN_BYTES], at: usize, value: [u8; N]) {
    image[at..at + N].copy_from_slice(&value);
}

/// The rent-exempt minimum of an account with this much data, which most accounts have: rent of two
/// years.
fn rent(data_len: usize) -> u64 {
    (128 + data_len as u64) * 6_960
}

fn take_array<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use ledger::Record;
    use proptest::prelude::*;
    use solana_account::WritableAccount;
    use spl_generic_token::{token, token_2022};

    use super::*;
    use crate::Account;

    /// Packs an account and checks that it unpacks to the same. Returns the packed length, or
    /// `None` if it is not packed.
    fn round(account: AccountSharedData) -> Option<usize> {
        let account = Account(account);
        let mut keys = Vec::new();
        account.keys(&mut |kind, address| keys.push((kind, address)));
        assert!(keys.is_sorted_by(|left, right| left.0 < right.0), "the order of the keys");
        let mut packed = vec![9; 3];
        let is_packed = account.pack(&mut packed);
        assert_eq!(is_packed, account.0.data().len() <= DATA_MAX);
        if is_packed {
            assert_eq!(packed[..3], [9; 3]);
            for kind in keys.iter().map(|(kind, _)| *kind) {
                let rank = Account::packed_rank(&packed[3..], Some(kind));
                assert!(rank.is_none_or(|rank| rank == account.rank_in(kind)));
            }
            let rank = Account::packed_rank(&packed[3..], None);
            assert!(rank.is_none_or(|rank| rank == account.global_rank()));
            let own_address = || -> Address { unreachable!("an account does not contain it") };
            assert_eq!(Account::unpack(&keys, &packed[3..], &own_address), Some(account));
        }
        is_packed.then_some(packed.len() - 3)
    }

    fn account(program: Pubkey, lamports: u64, data: &[u8]) -> AccountSharedData {
        let mut account = AccountSharedData::new(lamports, 0, &program);
        account.set_data_from_slice(data);
        account.set_rent_epoch(u64::MAX);
        account
    }

    fn token(amount: u64) -> Vec<u8> {
        let mut data = [[1; 32], [2; 32]].concat();
        data.extend_from_slice(&amount.to_le_bytes());
        data.resize(165, 0);
        data[108] = 1;
        data
    }

    #[test]
    fn a_common_token_account_takes_its_flags_and_its_amount() {
        assert_eq!(round(account(token::id(), rent(165), &token(5))), Some(2));
        assert_eq!(round(account(token::id(), rent(165), &token(1_000_000_000))), Some(6));
        let with_owner = [token(5), IMMUTABLE_OWNER.to_vec()].concat();
        assert_eq!(round(account(token_2022::id(), rent(170), &with_owner)), Some(2));
    }

    #[test]
    fn unusual_accounts_are_restored() {
        let program = token::id();
        for at in 64..165 {
            for value in [1, 2, 3, 255] {
                let mut data = token(5);
                data[at] = value;
                round(account(program, 7, &data));
                data[72] = 1;
                round(account(program, rent(165), &data));
                data.extend_from_slice(&IMMUTABLE_OWNER);
                data[165 + at % 5] ^= value & 1;
                round(account(token_2022::id(), rent(165), &data));
                round(account(program, rent(170), &data));
            }
        }
        round(account(program, 0, &[]));
        round(account(program, u64::MAX, &[0; 165]));
        let mut odd = account(program, 3, &token(u64::MAX));
        odd.set_executable(true);
        odd.set_rent_epoch(17);
        round(odd);
        assert_eq!(round(account(program, 3, &[1; DATA_MAX + 1])), None);
        assert_eq!(round(account(program, 3, &[1; 355])), Some(1 + 1 + 355), "a multisig");
    }

    #[test]
    fn invalid_bytes_are_refused() {
        let whole = account(token::id(), 7, &token(500));
        let keys = [key_kind::PROGRAM, key_kind::MINT, key_kind::OWNER];
        let keys = keys.map(|kind| (kind, Address::from([1; 32])));
        let mut packed = Vec::new();
        pack(&whole, &mut packed);
        assert!(unpack(&keys, &packed).is_some());
        assert_eq!(unpack(&keys[..2], &packed), None);
        for len in 0..packed.len() {
            assert_eq!(unpack(&keys, &packed[..len]), None);
        }
    }

    /// Zeros, one byte, or any bytes.
    fn bytes<const N: usize>() -> impl Strategy<Value = [u8; N]> {
        let small = any::<u8>().prop_map(|n| std::array::from_fn(|at| if at == 0 { n } else { 0 }));
        prop_oneof![3 => Just([0; N]), 1 => small, 1 => proptest::array::uniform(any::<u8>())]
    }

    fn tag() -> impl Strategy<Value = [u8; 4]> {
        prop_oneof![4 => Just(NONE), 4 => Just(SOME), 1 => bytes::<4>()]
    }

    /// A token account, nearly one, or other data.
    fn near_token() -> impl Strategy<Value = Vec<u8>> {
        let keys = (bytes::<32>(), bytes::<32>(), bytes::<8>());
        let delegate = (tag(), bytes::<32>(), 0..4_u8);
        let rest = (tag(), bytes::<8>(), bytes::<8>(), tag(), bytes::<32>());
        let tail = prop_oneof![
            4 => Just(Vec::new()),
            2 => Just(IMMUTABLE_OWNER.to_vec()),
            1 => proptest::collection::vec(0..3_u8, 0..300),
            1 => proptest::collection::vec(any::<u8>(), 0..20),
        ];
        let parts = (keys, delegate, rest, tail, 0..10_usize);
        parts.prop_map(|(keys, delegate, rest, tail, cut)| {
            let mut data = Vec::new();
            data.extend_from_slice(&keys.0);
            data.extend_from_slice(&keys.1);
            data.extend_from_slice(&keys.2);
            data.extend_from_slice(&delegate.0);
            data.extend_from_slice(&delegate.1);
            data.push(delegate.2);
            data.extend_from_slice(&rest.0);
            data.extend_from_slice(&rest.1);
            data.extend_from_slice(&rest.2);
            data.extend_from_slice(&rest.3);
            data.extend_from_slice(&rest.4);
            assert_eq!(data.len(), 165);
            data.extend_from_slice(&tail);
            data.truncate(data.len().saturating_sub(cut.saturating_sub(7)));
            data
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn every_account_is_restored_exactly(
            data in prop_oneof![
                4 => near_token(),
                1 => proptest::collection::vec(any::<u8>(), 0..500),
            ],
            program in prop_oneof![
                3 => Just(token::id()),
                3 => Just(token_2022::id()),
                1 => Just(solana_sdk_ids::stake::id()),
                1 => any::<[u8; 32]>().prop_map(Pubkey::new_from_array),
            ],
            lamports in prop_oneof![Just(None), any::<u64>().prop_map(Some), (0..9_u64).prop_map(Some)],
            rent_epoch in prop_oneof![3 => Just(u64::MAX), 1 => Just(0), 1 => any::<u64>()],
            executable in any::<bool>(),
        ) {
            let lamports = lamports.unwrap_or_else(|| rent(data.len()));
            let mut account = account(program, lamports, &data);
            account.set_rent_epoch(rent_epoch);
            account.set_executable(executable);
            round(account);
        }
    }
}
