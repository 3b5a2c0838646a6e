//! A second reader, written to be obvious and nothing else: unpacks everything with `tar`, walks every
//! storage file from its first byte to its last, and adds everything up in plain maps.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use solana_hash::Hash;
use solana_pubkey::Pubkey;

/// An account and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NaiveAccount {
    pub(crate) slot: u64,
    pub(crate) offset: usize,
    pub(crate) lamports: u64,
    pub(crate) rent_epoch: u64,
    pub(crate) owner: [u8; 32],
    pub(crate) executable: bool,
    pub(crate) data: Vec<u8>,
}

/// Everything in an archive, by file name.
pub(crate) fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let archive = File::open(path).expect("the archive opens");
    let unpacked = zstd::stream::decode_all(archive).expect("the archive decompresses");
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(&unpacked[..]).entries().expect("a tar archive") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a name").display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("an entry's bytes");
        files.insert(name, bytes);
    }
    files
}

/// Adds the newest version of every account of `files` to `accounts`; closed ones stay.
pub(crate) fn walk(
    files: &BTreeMap<String, Vec<u8>>,
    accounts: &mut BTreeMap<Pubkey, NaiveAccount>,
) {
    for (name, bytes) in files {
        let Some((slot, _)) = name.strip_prefix("accounts/").and_then(|n| n.split_once('.')) else {
            continue;
        };
        let slot: u64 = slot.parse().expect("a slot");
        let mut at = 0;
        while at < bytes.len() {
            let number = |from: usize| {
                u64::from_le_bytes(bytes[at + from..at + from + 8].try_into().expect("8 bytes"))
            };
            let key = |from: usize| -> [u8; 32] {
                bytes[at + from..at + from + 32].try_into().expect("32 bytes")
            };
            let len = number(8) as usize;
            let account = NaiveAccount {
                slot,
                offset: at,
                lamports: number(48),
                rent_epoch: number(56),
                owner: key(64),
                executable: bytes[at + 96] == 1,
                data: bytes[at + 136..at + 136 + len].to_vec(),
            };
            let address = Pubkey::new_from_array(key(16));
            let is_newer = accounts
                .get(&address)
                .is_none_or(|kept| (kept.slot, kept.offset) < (account.slot, account.offset));
            if is_newer {
                accounts.insert(address, account);
            }
            at = (at + 136 + len).div_ceil(8) * 8;
        }
    }
}

/// The sums of the numbers of all accounts.
pub(crate) fn lattice(accounts: &BTreeMap<Pubkey, NaiveAccount>) -> Vec<u8> {
    let mut sums = vec![0_u16; 1_024];
    for (address, account) in accounts.iter().filter(|(_, account)| account.lamports > 0) {
        let mut text = account.lamports.to_le_bytes().to_vec();
        text.extend(&account.data);
        text.push(account.executable.into());
        text.extend(account.owner);
        text.extend(address.to_bytes());
        let mut number = vec![0; 2_048];
        blake3::Hasher::new().update(&text).finalize_xof().fill(&mut number);
        for (sum, pair) in sums.iter_mut().zip(number.chunks(2)) {
            *sum = sum.wrapping_add(u16::from_le_bytes([pair[0], pair[1]]));
        }
    }
    sums.into_iter().flat_map(u16::to_le_bytes).collect()
}

/// The checksum of [`lattice`]'s sums.
pub(crate) fn checksum(lattice: &[u8]) -> Hash {
    Hash::new_from_array(*blake3::hash(lattice).as_bytes())
}
