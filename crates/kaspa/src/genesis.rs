//! The first blocks of the networks, from which a chain is followed if no snapshot of it exists.

use crate::hash::Hash;
use crate::header::{BlueWork, Header, Parents};
use crate::network::Network;

/// The fields of a first block that differ between networks.
struct Genesis {
    hash_merkle_root: [u8; 32],
    utxo_commitment: [u8; 32],
    timestamp_ms: u64,
    bits: u32,
    nonce: u64,
    daa_score: u64,
}

impl Network {
    /// Returns the header of the network's first block. Only mainnet's has UTXOs below it: it continues an older chain.
    ///
    /// A kaspad that was built with `devnet-prealloc` may have another one on simnet and devnet.
    pub fn genesis(self) -> Header {
        let Genesis { hash_merkle_root, utxo_commitment, timestamp_ms, bits, nonce, daa_score } =
            match self {
                Self::Mainnet => MAINNET,
                Self::Testnet(_) => TESTNET,
                Self::Devnet => DEVNET,
                Self::Simnet => SIMNET,
            };
        Header {
            version: 0,
            parents: Parents::default(),
            hash_merkle_root: Hash(hash_merkle_root),
            accepted_id_merkle_root: Hash::default(),
            utxo_commitment: Hash(utxo_commitment),
            timestamp_ms,
            bits,
            nonce,
            daa_score,
            blue_work: BlueWork::default(),
            blue_score: 0,
            pruning_point: Hash::default(),
        }
    }
}

const MAINNET: Genesis = Genesis {
    hash_merkle_root: [
        0x8e, 0xc8, 0x98, 0x56, 0x8c, 0x68, 0x01, 0xd1, 0x3d, 0xf4, 0xee, 0x6e, 0x2a, 0x1b, 0x54,
        0xb7, 0xe6, 0x23, 0x6f, 0x67, 0x1f, 0x20, 0x95, 0x4f, 0x05, 0x30, 0x64, 0x10, 0x51, 0x8e,
        0xeb, 0x32,
    ],
    utxo_commitment: [
        0x71, 0x0f, 0x27, 0xdf, 0x42, 0x3e, 0x63, 0xaa, 0x6c, 0xdb, 0x72, 0xb8, 0x9e, 0xa5, 0xa0,
        0x6c, 0xff, 0xa3, 0x99, 0xd6, 0x6f, 0x16, 0x77, 0x04, 0x45, 0x5b, 0x5a, 0xf5, 0x9d, 0xef,
        0x8e, 0x20,
    ],
    timestamp_ms: 1_637_609_671_037,
    bits: 0x1d02ca33,
    nonce: 0x3392c,
    daa_score: 1_312_860,
};

const TESTNET: Genesis = Genesis {
    hash_merkle_root: [
        0x17, 0x34, 0x14, 0x08, 0xa5, 0x72, 0x45, 0x56, 0x50, 0x4d, 0xf4, 0xd6, 0xcf, 0x51, 0x5c,
        0xbf, 0xbb, 0x22, 0x04, 0x30, 0xdc, 0x45, 0x1c, 0x74, 0x3c, 0x22, 0xd5, 0xe9, 0x11, 0x72,
        0x0c, 0x2a,
    ],
    utxo_commitment: muhash::EMPTY_HASH,
    timestamp_ms: 1_633_687_894_966,
    bits: 0x1e7fffff,
    nonce: 0x14582,
    daa_score: 0,
};

const DEVNET: Genesis = Genesis {
    hash_merkle_root: [
        0x58, 0xab, 0xf2, 0x03, 0x21, 0xd7, 0x07, 0x16, 0x16, 0x2b, 0x6b, 0xf8, 0xd9, 0xf5, 0x89,
        0xca, 0x33, 0xae, 0x6e, 0x32, 0xb3, 0xb1, 0x9a, 0xbb, 0x7f, 0xa6, 0x5d, 0x11, 0x41, 0xa3,
        0xf9, 0x4d,
    ],
    utxo_commitment: muhash::EMPTY_HASH,
    timestamp_ms: 1_231_006_505_000,
    bits: 0x1e21bc1c,
    nonce: 0x48e5e,
    daa_score: 0,
};

const SIMNET: Genesis = Genesis {
    hash_merkle_root: [
        0x19, 0x46, 0xd6, 0x29, 0xf7, 0xe9, 0x22, 0xa7, 0xbc, 0xed, 0x59, 0x19, 0x05, 0x21, 0xc3,
        0x77, 0x1f, 0x73, 0xd3, 0x52, 0xdd, 0xbb, 0xb6, 0x86, 0x56, 0x4a, 0xd7, 0xfd, 0x56, 0x85,
        0x7c, 0x1b,
    ],
    utxo_commitment: muhash::EMPTY_HASH,
    timestamp_ms: 1_633_687_894_966,
    bits: 0x207fffff,
    nonce: 0x2,
    daa_score: 0,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_blocks_have_their_known_hashes() {
        let hashes = [
            (Network::Mainnet, "58c2d4199e21f910d1571d114969cecef48f09f934d42ccb6a281a15868f2999"),
            (
                Network::Testnet(10),
                "f896a3034873be1739fc4359236899fd3d65d2bc94f9780df0d0da3eb1cc4370",
            ),
            (Network::Devnet, "4cb48d0b2073b802360145a15ad1abdc01d89b5c2fe4722630ab9b5fe9dfc4f2"),
            (Network::Simnet, "411f8cd26f3d41aea39e78573927da24d23995705b579f30959b9127e96b79e3"),
        ];
        for (network, hash) in hashes {
            assert_eq!(network.genesis().hash().to_string(), hash, "{network}");
        }
    }
}
