//! Our lattice hash, compared with Agave's published one.

use lattice::LtHash;
use solana::lt_hash;
use solana_account::{AccountSharedData, WritableAccount};
use solana_lattice_hash::lt_hash::LtHash as AgaveLtHash;
use solana_pubkey::Pubkey;

/// The accounts of a test. Data is long enough for each of BLAKE3's implementations.
fn accounts(random: &mut fastrand::Rng) -> Vec<(Pubkey, AccountSharedData)> {
    let key = |random: &mut fastrand::Rng| Pubkey::new_from_array([random.u8(..); 32]);
    let lens = [0, 1, 82, 165, 1_024, 1_025, 20_488, 131_097];
    let account = |len: usize| {
        let mut account =
            AccountSharedData::new(1 + random.u64(..1 << 40), len, &key(&mut *random));
        random.fill(account.data_as_mut_slice());
        account.set_executable(random.bool());
        (key(&mut *random), account)
    };
    lens.map(account).into()
}

/// The hash of one account by Agave's crate. What it covers follows Agave's accounts database.
fn agaves(key: &Pubkey, account: &AccountSharedData) -> AgaveLtHash {
    use solana_account::ReadableAccount;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&account.lamports().to_le_bytes());
    hasher.update(account.data());
    hasher.update(&[u8::from(account.executable())]);
    hasher.update(account.owner().as_ref());
    hasher.update(key.as_ref());
    AgaveLtHash::with(&hasher)
}

#[test]
fn sums_and_checksums_equal_those_of_agaves_crate() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut ours = LtHash::EMPTY;
    let mut expected = AgaveLtHash::identity();
    let accounts = accounts(&mut random);
    for (key, account) in &accounts {
        ours.mix_in(&lt_hash(key, account));
        expected.mix_in(&agaves(key, account));
        assert_eq!(ours.checksum(), expected.checksum().0);
    }
    let (key, account) = &accounts[2];
    ours.mix_out(&lt_hash(key, account));
    expected.mix_out(&agaves(key, account));
    assert_eq!(ours.checksum(), expected.checksum().0);
}
