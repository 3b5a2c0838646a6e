//! Transactions, their ids and their hashes.
//!
//! An id covers the effects of a transaction, a hash its signatures, too. Both depend on the version: an id of
//! version 0 is one BLAKE2b hash, and of version 1 a BLAKE3 hash over two others, so that the payload can be left out of a
//! proof.

use crate::hash::{Blake2b, Blake3, FieldHasher, Hash};
use crate::script::ScriptPublicKey;
use crate::utxo::{Outpoint, UtxoEntry};

/// Names the rules of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SubnetworkId(pub [u8; 20]);

/// A transaction of Kaspa, with its signatures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The version of the rules of the transaction.
    pub version: u16,
    /// The outputs that it spends. A coinbase has none.
    pub inputs: Vec<TransactionInput>,
    /// The outputs that it makes.
    pub outputs: Vec<TransactionOutput>,
    /// The DAA score or the time from which it is valid.
    pub lock_time: u64,
    /// The rules that it follows.
    pub subnetwork_id: SubnetworkId,
    /// The gas that these rules may use.
    pub gas: u64,
    /// Data that the subnetwork defines.
    pub payload: Vec<u8>,
    /// The storage mass that it commits to.
    pub storage_mass: u64,
}

/// One input of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionInput {
    /// The output that it spends.
    pub previous_outpoint: Outpoint,
    /// The script that unlocks the output.
    pub signature_script: Vec<u8>,
    /// The sequence number.
    pub sequence: u64,
    /// The number of signature operations. In version 0 only.
    pub sig_op_count: u8,
    /// The budget of the script's computation. From version 1 on.
    pub compute_budget: u16,
}

/// One output of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionOutput {
    /// The amount in sompi.
    pub amount: u64,
    /// The script that spends it.
    pub script_public_key: ScriptPublicKey,
    /// The covenant that it belongs to. From version 1 on.
    pub covenant: Option<CovenantBinding>,
}

/// An output's covenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CovenantBinding {
    /// The index of the input that allows the output to belong to it.
    pub authorizing_input: u16,
    /// The id of the covenant.
    pub covenant_id: Hash,
}

/// The parts of a transaction that an id leaves out.
#[derive(Clone, Copy)]
struct Coverage {
    has_signatures: bool,
    has_mass: bool,
    has_payload: bool,
}

impl Coverage {
    /// The parts of the hash over the whole transaction.
    const HASH: Self = Self { has_signatures: true, has_mass: true, has_payload: true };
    /// The parts of the id of a transaction of version 0.
    const ID: Self = Self { has_signatures: false, has_mass: false, has_payload: true };
    /// One of the two parts of an id of version 1.
    const ID_WITHOUT_PAYLOAD: Self = Self { has_payload: false, ..Self::ID };
}

impl SubnetworkId {
    /// Transactions that users make.
    pub const NATIVE: Self = Self([0; 20]);
    /// The reward of a block.
    pub const COINBASE: Self = Self::from_byte(1);

    /// Returns the id that has this first byte, and zeros after it.
    const fn from_byte(byte: u8) -> Self {
        let mut bytes = [0; 20];
        bytes[0] = byte;
        Self(bytes)
    }
}

impl Transaction {
    /// Returns whether it is the reward of a block.
    pub fn is_coinbase(&self) -> bool {
        self.subnetwork_id == SubnetworkId::COINBASE
    }

    /// Returns the id, by which outputs are named.
    pub fn id(&self) -> Hash {
        if self.version == 0 {
            let mut hasher = Blake2b::with_key(b"TransactionID");
            self.write(&mut hasher, Coverage::ID);
            return hasher.finish();
        }
        let mut payload = Blake3::with_key(b"PayloadDigest");
        payload.write(&self.payload);
        let mut rest = Blake3::with_key(b"TransactionRest");
        self.write(&mut rest, Coverage::ID_WITHOUT_PAYLOAD);
        let mut id = Blake3::with_key(b"TransactionV1Id");
        id.write_hash(&payload.finish());
        id.write_hash(&rest.finish());
        id.finish()
    }

    /// Returns the hash over everything.
    pub fn hash(&self) -> Hash {
        let mut hasher = Blake2b::with_key(b"TransactionHash");
        self.write(&mut hasher, Coverage::HASH);
        hasher.finish()
    }

    fn write(&self, hasher: &mut impl FieldHasher, coverage: Coverage) {
        hasher.write_u16(self.version);
        hasher.write_len(self.inputs.len());
        self.inputs.iter().for_each(|input| input.write(hasher, self.version, coverage));
        hasher.write_len(self.outputs.len());
        self.outputs.iter().for_each(|output| output.write(hasher, self.version));
        hasher.write_u64(self.lock_time);
        hasher.write(&self.subnetwork_id.0);
        hasher.write_u64(self.gas);
        hasher.write_bytes(if coverage.has_payload { &self.payload } else { &[] });
        // Version 0 leaves out a mass of zero, so that older hashes stay as they were.
        if coverage.has_mass && (self.version > 0 || self.storage_mass > 0) {
            hasher.write_u64(self.storage_mass);
        }
    }
}

impl TransactionInput {
    fn write(&self, hasher: &mut impl FieldHasher, version: u16, coverage: Coverage) {
        hasher.write_hash(&self.previous_outpoint.transaction_id);
        hasher.write_u32(self.previous_outpoint.index);
        if coverage.has_signatures {
            hasher.write_bytes(&self.signature_script);
            if version == 0 {
                hasher.write(&[self.sig_op_count]);
            }
        } else {
            hasher.write_bytes(&[]);
        }
        hasher.write_u64(self.sequence);
        if coverage.has_mass && version > 0 {
            hasher.write_u16(self.compute_budget);
        }
    }
}

impl TransactionOutput {
    fn write(&self, hasher: &mut impl FieldHasher, version: u16) {
        hasher.write_u64(self.amount);
        hasher.write_u16(self.script_public_key.version);
        hasher.write_bytes(&self.script_public_key.script);
        if version > 0 {
            hasher.write(&[u8::from(self.covenant.is_some())]);
            if let Some(covenant) = &self.covenant {
                hasher.write_u16(covenant.authorizing_input);
                hasher.write_hash(&covenant.covenant_id);
            }
        }
    }

    /// Returns the unspent output that a block makes of it when it accepts the transaction.
    pub fn to_utxo(&self, block_daa_score: u64, is_coinbase: bool) -> UtxoEntry {
        UtxoEntry {
            amount: self.amount,
            script_public_key: self.script_public_key.clone(),
            block_daa_score,
            is_coinbase,
            covenant_id: self.covenant.map(|covenant| covenant.covenant_id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTRY: SubnetworkId = SubnetworkId::from_byte(2);
    const SOME_TRANSACTION: &str =
        "59b3d6dc6cdc660c389c3fdb5704c48c598d279cdf1bab54182db586a4c95dd5";

    fn input(transaction_id: Hash, index: u32) -> TransactionInput {
        TransactionInput {
            previous_outpoint: Outpoint { transaction_id, index },
            signature_script: vec![1, 2],
            sequence: 7,
            sig_op_count: 5,
            compute_budget: 0,
        }
    }

    fn check(transaction: &Transaction, id: &str, hash: &str) {
        assert_eq!(transaction.id().to_string(), id, "{transaction:?}");
        assert_eq!(transaction.hash().to_string(), hash, "{transaction:?}");
    }

    #[test]
    fn official_vectors_of_version_0_are_matched() {
        let mut tx = Transaction::default();
        check(
            &tx,
            "2c18d5e59ca8fc4c23d9560da3bf738a8f40935c11c162017fbf2c907b7e665c",
            "c9e29784564c269ce2faaffd3487cb4684383018ace11133de082dce4bb88b0b",
        );
        tx.inputs = vec![input(Hash::default(), 2)];
        check(
            &tx,
            "b2d65ae36e123eb73f253176d7234a57656b84d0d60b9fc746ab0d0f085c9cc7",
            "7d9f7cfdd77f236a41895ac5cdda2fa42f7122964ba995fdfacebce54efad7e8",
        );
        let script_public_key = ScriptPublicKey { version: 7, script: [1, 2, 3, 4, 5].into() };
        tx.outputs = vec![TransactionOutput { amount: 1_564, script_public_key, covenant: None }];
        check(
            &tx,
            "67289b12146d1b5ef384332137399791a5cfe89506ff31688b0d95ae821d0a0c",
            "492279c0ed5018aa00b0b2d42c1c42350285f2e689236a81829edaf818e30fdb",
        );
        tx.lock_time = 54;
        tx.gas = 3;
        check(
            &tx,
            "7cd34b788d7d230970d4bfd955c34c5abc49e3bcdd5adb03a77bb71d05554401",
            "de319664ee9f4197e89be0d0e08b2b6cac110efc2cf107de1fbc6bd2ce29d545",
        );
        tx.inputs = vec![input(Hash::from_hex(SOME_TRANSACTION).expect("a hash"), 2)];
        check(
            &tx,
            "c9dd78e818445f617a28348d6db752142e2fab440effa58140ad2773e638b628",
            "1be9978bcab9424f15adac6fca0a64c3f56344a7cd0ec92a225496e19a0d122c",
        );
        let coinbase =
            Transaction { inputs: Vec::new(), subnetwork_id: SubnetworkId::COINBASE, ..tx.clone() };
        assert!(coinbase.is_coinbase());
        check(
            &coinbase,
            "2578783ec93c3a02414a228e10b1b5af298623254775f972f97df08d4ec28c8f",
            "dffa96c75ef9d17520991fc6d88813531e230488e75b65f65ce958f2d54d2451",
        );
        tx.subnetwork_id = REGISTRY;
        tx.payload = vec![1, 2, 3];
        check(
            &tx,
            "4acda997dfb31c6518224c9ac00d0777fc7cbecdab461be3c0816b1cba19a056",
            "f0bb137ed71a91445ddf9224c76f755153a296eeb4fdc29b8393ddd81bf34ce6",
        );
        tx.storage_mass = 5;
        check(
            &tx,
            "4acda997dfb31c6518224c9ac00d0777fc7cbecdab461be3c0816b1cba19a056",
            "ced89bbf642cda42d29d9518d16e35cbbf85d10e1ab106b7dc2e0a821308ac91",
        );
    }

    #[test]
    fn official_vectors_of_version_1_are_matched() {
        let script_public_key = ScriptPublicKey { version: 7, script: [1, 2, 3, 4, 5].into() };
        let tx = Transaction {
            version: 1,
            inputs: vec![input(Hash::from_hex(SOME_TRANSACTION).expect("a hash"), 2)],
            outputs: vec![TransactionOutput { amount: 1_564, script_public_key, covenant: None }],
            lock_time: 54,
            subnetwork_id: REGISTRY,
            gas: 3,
            payload: vec![1, 2, 3],
            storage_mass: 0,
        };
        check(
            &tx,
            "a08a500b21be3e692c080b14e399fcfa2cfa01b25c08f2f8e7414d1c116e8d18",
            "773f5582d847a1c48947eb4e6e6ac569f90f0f9d979b4c939b72ef008f025e02",
        );
        let budgets = [
            (111, "c41c18964aab2abe309a79de3dcf0353eee216e29ab83448cbec0c4c5792056c"),
            (222, "415dfbc5b38e5805e20831d43a49bc770f4f591b00964ac922d108f6a224c590"),
            (0, "55724643b090b9a1c1b9b93b03ffac9cb1bd913a1cf0605a36509322af825864"),
        ];
        for (compute_budget, hash) in budgets {
            let input = TransactionInput {
                previous_outpoint: Outpoint { transaction_id: Hash::default(), index: 0 },
                signature_script: Vec::new(),
                sequence: 0,
                sig_op_count: 111,
                compute_budget,
            };
            let tx = Transaction { version: 1, inputs: vec![input], ..Transaction::default() };
            check(&tx, "5978e7aa1a9ba8fdf12dae6aa39aa198a91985e91192b291e207d4d6246349e6", hash);
        }
    }
}
