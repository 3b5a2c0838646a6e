//! The precompiles: programs of the node itself that check signatures over bytes of the transaction.
//!
//! Shape: Agave's package of this name, for the runtime that LiteSVM brings: the root manifest replaces the original,
//! whose Secp256r1 needs OpenSSL. The runtime asks [`is_precompile`] for each instruction, and calls
//! [`Precompile::verify`] in place of a program: no compute units are consumed, nothing is logged, and the return data
//! stays. An instruction has the offsets of signature, key and message in itself or in other instructions of the
//! message. The checks, their order and the error codes are those of Agave.
//! Bounds: 255 signatures an instruction, 8 for secp256r1; a message is at most as long as a transaction.
//! Not here: the fee for the signatures (the VM counts them), the accounts of the precompiles (`svm`).

use ed25519_dalek::{Signature as EdSignature, VerifyingKey as EdKey};
use k256::ecdsa::{
    RecoveryId, Signature as SecpSignature, VerifyingKey as SecpKey, signature::hazmat,
};
use k256::elliptic_curve::PrimeField;
use k256::elliptic_curve::scalar::IsHigh;
use p256::ecdsa::{Signature as R1Signature, VerifyingKey as R1Key};
use sha3::{Digest, Keccak256};
use solana_precompile_error::PrecompileError;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{ed25519_program, secp256k1_program, secp256r1_program};

/// The addresses of all precompiles.
pub const IDS: [Pubkey; 3] = [ed25519_program::ID, secp256k1_program::ID, secp256r1_program::ID];

/// The precompiles in the order of [`IDS`].
static PRECOMPILES: [Precompile; 3] = [
    Precompile::new(ed25519_program::ID),
    Precompile::new(secp256k1_program::ID),
    Precompile::new(secp256r1_program::ID),
];

/// Index of the instruction with the offsets itself, where indices are two bytes.
const THIS_INSTRUCTION: u16 = u16::MAX;
const SIGNATURE_SIZE: usize = 64;
const ED25519_KEY_SIZE: usize = 32;
const ETH_ADDRESS_SIZE: usize = 20;
const SECP256R1_KEY_SIZE: usize = 33;
const SECP256R1_SIGNATURES_MAX: usize = 8;
/// The bits of a signature's last byte that are zero in every scalar below the group's order.
const ED25519_HIGH_BITS: u8 = 0b1110_0000;

/// A program of the node itself that checks signatures.
#[derive(Debug)]
pub struct Precompile {
    /// The address of the precompile.
    pub program_id: Pubkey,
    /// The feature that activates it. Always `None`: those that once did are active on every cluster.
    pub feature: Option<Pubkey>,
}

impl Precompile {
    const fn new(program_id: Pubkey) -> Self {
        Self { program_id, feature: None }
    }

    /// Checks one instruction. `datas` are the data of all instructions of the message. No check depends on a feature.
    pub fn verify<F>(
        &self,
        data: &[u8],
        datas: &[&[u8]],
        _features: &F,
    ) -> Result<(), PrecompileError> {
        verify(&self.program_id, data, datas)
    }
}

/// Returns whether an address is that of a precompile.
pub fn is_precompile<F: Fn(&Pubkey) -> bool>(program_id: &Pubkey, is_active: F) -> bool {
    get_precompile(program_id, is_active).is_some()
}

/// Returns the precompile of an address. `is_active` returns whether a feature is active.
pub fn get_precompile<F: Fn(&Pubkey) -> bool>(
    program_id: &Pubkey,
    is_active: F,
) -> Option<&'static Precompile> {
    let is_found = |precompile: &&Precompile| {
        precompile.program_id == *program_id && precompile.feature.is_none_or(|id| is_active(&id))
    };
    PRECOMPILES.iter().find(is_found)
}

/// Returns all precompiles.
pub fn get_precompiles() -> &'static [Precompile] {
    &PRECOMPILES
}

/// Checks one instruction of a precompile. `datas` are the data of all instructions of the message.
fn verify(id: &Pubkey, data: &[u8], datas: &[&[u8]]) -> Result<(), PrecompileError> {
    match *id {
        ed25519_program::ID => verify_ed25519(data, datas),
        secp256k1_program::ID => verify_secp256k1(data, datas),
        secp256r1_program::ID => verify_secp256r1(data, datas),
        _ => Ok(()),
    }
}

/// Source: the Ed25519 program. Layout: count, padding, then offsets of each signature.
fn verify_ed25519(data: &[u8], datas: &[&[u8]]) -> Result<(), PrecompileError> {
    let (&[count, _], entries) =
        data.split_first_chunk().ok_or(PrecompileError::InvalidInstructionDataSize)?;
    if count == 0 && !entries.is_empty() {
        return Err(PrecompileError::InvalidInstructionDataSize);
    }
    for offsets in parse_offsets16(usize::from(count), entries)? {
        let signature = offsets.signature(data, datas)?;
        let signature = EdSignature::from_slice(signature)
            .ok()
            .filter(|signature| signature.s_bytes()[31] & ED25519_HIGH_BITS == 0)
            .ok_or(PrecompileError::InvalidSignature)?;
        let key = offsets.key(data, datas, ED25519_KEY_SIZE)?;
        let key = EdKey::try_from(key).map_err(|_| PrecompileError::InvalidPublicKey)?;
        let message = offsets.message(data, datas)?;
        key.verify_strict(message, &signature).map_err(|_| PrecompileError::InvalidSignature)?;
    }
    Ok(())
}

/// Source: the Secp256r1 program, SIMD-0075. Layout: as Ed25519's. A signature has the lower of its two possible `s`;
/// a key is compressed.
fn verify_secp256r1(data: &[u8], datas: &[&[u8]]) -> Result<(), PrecompileError> {
    let (&[count, _], entries) =
        data.split_first_chunk().ok_or(PrecompileError::InvalidInstructionDataSize)?;
    let count = usize::from(count);
    if count == 0 || count > SECP256R1_SIGNATURES_MAX {
        return Err(PrecompileError::InvalidInstructionDataSize);
    }
    for offsets in parse_offsets16(count, entries)? {
        let signature = offsets.signature(data, datas)?;
        let key = offsets.key(data, datas, SECP256R1_KEY_SIZE)?;
        let message = offsets.message(data, datas)?;
        let signature = R1Signature::from_slice(signature)
            .ok()
            .filter(|signature| !bool::from(signature.s().is_high()))
            .ok_or(PrecompileError::InvalidSignature)?;
        // The decoder accepts a third kind of this length, which OpenSSL does not.
        let key = matches!(key[0], 2 | 3)
            .then(|| R1Key::from_sec1_bytes(key).ok())
            .flatten()
            .ok_or(PrecompileError::InvalidPublicKey)?;
        let hash = solana_sha256_hasher::hash(message);
        hazmat::PrehashVerifier::verify_prehash(&key, hash.as_ref(), &signature)
            .map_err(|_| PrecompileError::InvalidSignature)?;
    }
    Ok(())
}

/// Source: the Secp256k1 program. Layout: count, then offsets of each signature. The recovery id follows the signature.
/// The Ethereum address identifies the key that it must recover.
fn verify_secp256k1(data: &[u8], datas: &[&[u8]]) -> Result<(), PrecompileError> {
    let (&count, entries) =
        data.split_first().ok_or(PrecompileError::InvalidInstructionDataSize)?;
    if count == 0 && !entries.is_empty() {
        return Err(PrecompileError::InvalidInstructionDataSize);
    }
    for entry in read_entries(usize::from(count), entries)? {
        let offsets = Offsets8::parse(entry);
        let (signature, recovery_id) = offsets.signature(datas)?;
        // A half that is not below the order is refused now, a half of zero only after everything is read.
        if !signature.chunks_exact(SIGNATURE_SIZE / 2).all(is_secp256k1_scalar) {
            return Err(PrecompileError::InvalidSignature);
        }
        let recovery_id =
            RecoveryId::from_byte(recovery_id).ok_or(PrecompileError::InvalidRecoveryId)?;
        let address = offsets.address.bytes(datas, ETH_ADDRESS_SIZE)?;
        let message = offsets.message.bytes(datas, offsets.message_size)?;
        let key = SecpSignature::from_slice(signature)
            .and_then(|signature| {
                SecpKey::recover_from_prehash(
                    Keccak256::digest(message).as_ref(),
                    &signature,
                    recovery_id,
                )
            })
            .map_err(|_| PrecompileError::InvalidSignature)?;
        if eth_address(&key) != address {
            return Err(PrecompileError::InvalidSignature);
        }
    }
    Ok(())
}

fn is_secp256k1_scalar(half: &[u8]) -> bool {
    let half = <[u8; SIGNATURE_SIZE / 2]>::try_from(half).unwrap_or([u8::MAX; _]);
    k256::Scalar::from_repr(half.into()).is_some().into()
}

/// The last bytes of the hash of a key's two coordinates.
fn eth_address(key: &SecpKey) -> [u8; ETH_ADDRESS_SIZE] {
    let point = key.to_sec1_point(false);
    let hash: [u8; 32] = Keccak256::digest(&point.as_bytes()[1..]).into();
    let mut address = [0; ETH_ADDRESS_SIZE];
    address.copy_from_slice(&hash[32 - ETH_ADDRESS_SIZE..]);
    address
}

/// The offsets of `count` signatures, each `SIZE` bytes. Bytes after them are ignored.
fn read_entries<const SIZE: usize>(
    count: usize,
    entries: &[u8],
) -> Result<&[[u8; SIZE]], PrecompileError> {
    let (entries, _) = entries.as_chunks();
    entries.get(..count).ok_or(PrecompileError::InvalidInstructionDataSize)
}

/// Offsets in the form of the Ed25519 and Secp256r1 programs: all little-endian u16.
struct Offsets16 {
    signature: DataRef16,
    key: DataRef16,
    message: DataRef16,
    message_size: usize,
}

/// An offset in the data of an instruction.
struct DataRef16 {
    start: u16,
    instruction: u16,
}

const OFFSETS16_SIZE: usize = 14;

fn parse_offsets16(
    count: usize,
    entries: &[u8],
) -> Result<impl Iterator<Item = Offsets16>, PrecompileError> {
    let entries: &[[u8; OFFSETS16_SIZE]] = read_entries(count, entries)?;
    Ok(entries.iter().map(|entry| {
        let field = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        Offsets16 {
            signature: DataRef16 { start: field(0), instruction: field(2) },
            key: DataRef16 { start: field(4), instruction: field(6) },
            message: DataRef16 { start: field(8), instruction: field(12) },
            message_size: usize::from(field(10)),
        }
    }))
}

impl Offsets16 {
    fn signature<'a>(
        &self,
        own: &'a [u8],
        datas: &[&'a [u8]],
    ) -> Result<&'a [u8], PrecompileError> {
        self.signature.bytes(own, datas, SIGNATURE_SIZE)
    }

    fn key<'a>(
        &self,
        own: &'a [u8],
        datas: &[&'a [u8]],
        size: usize,
    ) -> Result<&'a [u8], PrecompileError> {
        self.key.bytes(own, datas, size)
    }

    fn message<'a>(&self, own: &'a [u8], datas: &[&'a [u8]]) -> Result<&'a [u8], PrecompileError> {
        self.message.bytes(own, datas, self.message_size)
    }
}

impl DataRef16 {
    fn bytes<'a>(
        &self,
        own: &'a [u8],
        datas: &[&'a [u8]],
        size: usize,
    ) -> Result<&'a [u8], PrecompileError> {
        let data = match self.instruction {
            THIS_INSTRUCTION => Some(own),
            index => datas.get(usize::from(index)).copied(),
        };
        let start = usize::from(self.start);
        data.and_then(|data| data.get(start..start + size))
            .ok_or(PrecompileError::InvalidDataOffsets)
    }
}

/// Offsets in the form of the Secp256k1 program: instruction indices are one byte, and none means "this one".
struct Offsets8 {
    signature: DataRef8,
    address: DataRef8,
    message: DataRef8,
    message_size: usize,
}

/// An offset in the data of an instruction.
struct DataRef8 {
    start: u16,
    instruction: u8,
}

const OFFSETS8_SIZE: usize = 11;

impl Offsets8 {
    fn parse(entry: &[u8; OFFSETS8_SIZE]) -> Self {
        let field = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
        Self {
            signature: DataRef8 { start: field(0), instruction: entry[2] },
            address: DataRef8 { start: field(3), instruction: entry[5] },
            message: DataRef8 { start: field(6), instruction: entry[10] },
            message_size: usize::from(field(8)),
        }
    }

    /// The signature and its recovery id. The errors differ from those of key and message.
    fn signature<'a>(&self, datas: &[&'a [u8]]) -> Result<(&'a [u8], u8), PrecompileError> {
        let data = datas
            .get(usize::from(self.signature.instruction))
            .ok_or(PrecompileError::InvalidInstructionDataSize)?;
        let start = usize::from(self.signature.start);
        let (recovery_id, signature) = data
            .get(start..=start + SIGNATURE_SIZE)
            .and_then(<[u8]>::split_last)
            .ok_or(PrecompileError::InvalidSignature)?;
        Ok((signature, *recovery_id))
    }
}

impl DataRef8 {
    fn bytes<'a>(&self, datas: &[&'a [u8]], size: usize) -> Result<&'a [u8], PrecompileError> {
        let data =
            datas.get(usize::from(self.instruction)).ok_or(PrecompileError::InvalidDataOffsets)?;
        let start = usize::from(self.start);
        data.get(start..start + size).ok_or(PrecompileError::InvalidSignature)
    }
}

#[cfg(test)]
mod tests {
    use k256::ecdsa::SigningKey as SecpSigner;
    use p256::ecdsa::SigningKey as R1Signer;
    use solana_keypair::Keypair;
    use solana_signer::Signer;

    use super::*;

    const MESSAGE: &[u8] = b"what was signed";

    fn le(fields: &[u16]) -> Vec<u8> {
        fields.iter().flat_map(|field| field.to_le_bytes()).collect()
    }

    /// One signature whose parts follow its offsets, all in the instruction `instruction`.
    fn data_with_offsets16(instruction: u16, signature: &[u8], key: &[u8]) -> Vec<u8> {
        let key_at = 16 + signature.len() as u16;
        let message_at = key_at + key.len() as u16;
        let size = MESSAGE.len() as u16;
        let offsets = le(&[16, instruction, key_at, instruction, message_at, size, instruction]);
        [&[1, 0][..], &offsets, signature, key, MESSAGE].concat()
    }

    fn ed25519(instruction: u16) -> Vec<u8> {
        let signer = Keypair::new_from_array([3; 32]);
        data_with_offsets16(
            instruction,
            signer.sign_message(MESSAGE).as_ref(),
            signer.pubkey().as_ref(),
        )
    }

    fn secp256r1(instruction: u16) -> Vec<u8> {
        let (signature, key) = secp256r1_signed();
        data_with_offsets16(instruction, &signature.to_bytes(), &key)
    }

    fn secp256r1_signed() -> (R1Signature, Vec<u8>) {
        let signer = R1Signer::from_slice(&[3; 32]).expect("a scalar");
        let hash = solana_sha256_hasher::hash(MESSAGE);
        let signature: R1Signature =
            hazmat::PrehashSigner::sign_prehash(&signer, hash.as_ref()).expect("a signature");
        let key = signer.verifying_key().to_sec1_point(true).as_bytes().to_vec();
        (signature.normalize_s(), key)
    }

    /// One signature with its recovery id and address, all in the instruction `instruction`.
    fn data_with_offsets8(
        instruction: u8,
        signature: &[u8],
        recovery_id: u8,
        address: &[u8],
    ) -> Vec<u8> {
        let size = MESSAGE.len() as u8;
        let offsets = [12, 0, instruction, 77, 0, instruction, 97, 0, size, 0, instruction];
        [&[1][..], &offsets, signature, &[recovery_id], address, MESSAGE].concat()
    }

    fn secp256k1_signed() -> (SecpSignature, u8, [u8; 20]) {
        let signer = SecpSigner::from_slice(&[3; 32]).expect("a scalar");
        let hash: [u8; 32] = Keccak256::digest(MESSAGE).into();
        let (signature, recovery_id) = signer.sign_prehash_recoverable(&hash);
        (signature, recovery_id.to_byte(), eth_address(signer.verifying_key()))
    }

    fn secp256k1(instruction: u8) -> Vec<u8> {
        let (signature, recovery_id, address) = secp256k1_signed();
        data_with_offsets8(instruction, &signature.to_bytes(), recovery_id, &address)
    }

    #[track_caller]
    fn check(id: Pubkey, data: &[u8], expected: Result<(), PrecompileError>) {
        assert_eq!(verify(&id, data, &[data]), expected);
    }

    /// `data` with one byte replaced.
    fn with(data: &[u8], at: usize, byte: u8) -> Vec<u8> {
        let mut data = data.to_vec();
        assert_ne!(data[at], byte, "the byte is that already");
        data[at] = byte;
        data
    }

    fn flip_byte(data: &[u8], at: usize) -> Vec<u8> {
        with(data, at, data[at] ^ 1)
    }

    #[test]
    fn ed25519_checks_in_agaves_order() {
        use PrecompileError::*;
        let id = ed25519_program::ID;
        let good = ed25519(THIS_INSTRUCTION);
        check(id, &good, Ok(()));
        check(id, &ed25519(0), Ok(()));
        // The second byte is padding.
        check(id, &with(&good, 1, 9), Ok(()));
        for index in [16, 79, 112, good.len() - 1] {
            let result = verify(&id, &flip_byte(&good, index), &[]);
            assert!(result.is_err(), "byte {index} is not checked");
        }
        check(id, &flip_byte(&good, good.len() - 1), Err(InvalidSignature));
        // The top bits of a signature are checked before the key.
        let no_point = [2; 32];
        check(
            id,
            &data_with_offsets16(THIS_INSTRUCTION, &[0x10; 64], &no_point),
            Err(InvalidPublicKey),
        );
        check(
            id,
            &data_with_offsets16(THIS_INSTRUCTION, &[0xff; 64], &no_point),
            Err(InvalidSignature),
        );
        // A key of small order signs anything, and strictly nothing.
        let mut identity = [0; 32];
        identity[0] = 1;
        let signature = [identity, [0; 32]].concat();
        check(
            id,
            &data_with_offsets16(THIS_INSTRUCTION, &signature, &identity),
            Err(InvalidSignature),
        );
    }

    #[test]
    fn ed25519_offsets_stay_within_their_instruction() {
        use PrecompileError::*;
        let id = ed25519_program::ID;
        let good = ed25519(THIS_INSTRUCTION);
        for (at, byte) in [(3, 1), (7, 1), (11, 1), (10, 200), (12, 16), (4, 1), (8, 1), (14, 1)] {
            check(id, &with(&good, at, byte), Err(InvalidDataOffsets));
        }
        check(id, &[], Err(InvalidInstructionDataSize));
        check(id, &[0], Err(InvalidInstructionDataSize));
        check(id, &[0, 0], Ok(()));
        check(id, &[0, 0, 0], Err(InvalidInstructionDataSize));
        check(id, &good[..15], Err(InvalidInstructionDataSize));
        check(id, &[255; 100], Err(InvalidInstructionDataSize));
    }

    #[test]
    fn secp256r1_checks_in_agaves_order() {
        use PrecompileError::*;
        let id = secp256r1_program::ID;
        let good = secp256r1(THIS_INSTRUCTION);
        check(id, &good, Ok(()));
        check(id, &secp256r1(0), Ok(()));
        check(id, &flip_byte(&good, good.len() - 1), Err(InvalidSignature));
        check(id, &flip_byte(&good, 20), Err(InvalidSignature));
        // The other of the two signatures that ECDSA accepts.
        let (signature, key) = secp256r1_signed();
        let high = R1Signature::from_scalars(signature.r(), -signature.s()).expect("a signature");
        check(
            id,
            &data_with_offsets16(THIS_INSTRUCTION, &high.to_bytes(), &key),
            Err(InvalidSignature),
        );
        check(id, &data_with_offsets16(THIS_INSTRUCTION, &[0; 64], &key), Err(InvalidSignature));
        check(
            id,
            &data_with_offsets16(THIS_INSTRUCTION, &[0xff; 64], &[9; 33]),
            Err(InvalidSignature),
        );
        // The kinds of keys that OpenSSL knows.
        for kind in [0, 4, 5, 6] {
            check(id, &with(&good, 80, kind), Err(InvalidPublicKey));
        }
        // The other key with the same x.
        check(id, &flip_byte(&good, 80), Err(InvalidSignature));
    }

    #[test]
    fn secp256r1_offsets_stay_within_their_instruction() {
        use PrecompileError::*;
        let id = secp256r1_program::ID;
        let good = secp256r1(THIS_INSTRUCTION);
        for (at, byte) in [(3, 1), (7, 1), (11, 1), (10, 200), (12, 16), (4, 1), (8, 1), (14, 1)] {
            check(id, &with(&good, at, byte), Err(InvalidDataOffsets));
        }
        for empty in [&[][..], &[0], &[0, 0], &[0, 0, 0], &good[..15]] {
            check(id, empty, Err(InvalidInstructionDataSize));
        }
        let entry = &good[2..16];
        let counted = |count: u8| [&[count, 0][..], &entry.repeat(usize::from(count))].concat();
        // Too many signatures are refused for their number, not for their offsets.
        check(id, &counted(9), Err(InvalidInstructionDataSize));
        assert_ne!(verify(&id, &counted(8), &[]), Err(InvalidInstructionDataSize));
    }

    #[test]
    fn secp256k1_checks_in_agaves_order() {
        use PrecompileError::*;
        let id = secp256k1_program::ID;
        let good = secp256k1(0);
        check(id, &good, Ok(()));
        check(id, &flip_byte(&good, good.len() - 1), Err(InvalidSignature));
        check(id, &flip_byte(&good, 20), Err(InvalidSignature));
        check(id, &flip_byte(&good, 77), Err(InvalidSignature));
        check(id, &with(&good, 76, 4), Err(InvalidRecoveryId));
        // Both signatures that ECDSA accepts recover the key.
        let (signature, recovery_id, address) = secp256k1_signed();
        let high = SecpSignature::from_scalars(signature.r(), -signature.s()).expect("a signature");
        check(id, &data_with_offsets8(0, &high.to_bytes(), recovery_id ^ 1, &address), Ok(()));
        check(
            id,
            &data_with_offsets8(0, &high.to_bytes(), recovery_id, &address),
            Err(InvalidSignature),
        );
        // Over the order before the recovery id, zero after it.
        check(id, &data_with_offsets8(0, &[0xff; 64], 4, &address), Err(InvalidSignature));
        check(id, &data_with_offsets8(0, &[0; 64], 4, &address), Err(InvalidRecoveryId));
        check(id, &data_with_offsets8(0, &[0; 64], 0, &address), Err(InvalidSignature));
    }

    #[test]
    fn secp256k1_offsets_stay_within_their_instruction() {
        use PrecompileError::*;
        let id = secp256k1_program::ID;
        let good = secp256k1(0);
        check(id, &with(&good, 3, 1), Err(InvalidInstructionDataSize));
        check(id, &with(&good, 6, 1), Err(InvalidDataOffsets));
        check(id, &with(&good, 11, 1), Err(InvalidDataOffsets));
        for at in [2, 5, 8, 10] {
            check(id, &with(&good, at, 1), Err(InvalidSignature));
        }
        check(id, &[], Err(InvalidInstructionDataSize));
        check(id, &[0], Ok(()));
        check(id, &[0, 0], Err(InvalidInstructionDataSize));
        check(id, &good[..11], Err(InvalidInstructionDataSize));
        // A signature whose recovery id would be past the end.
        check(id, &good[..76], Err(InvalidSignature));
        // There is no "own instruction" here.
        check(id, &with(&good, 3, 255), Err(InvalidInstructionDataSize));
    }

    #[test]
    fn signatures_may_lie_in_another_instruction() {
        let cases = [(ed25519_program::ID, ed25519(1)), (secp256r1_program::ID, secp256r1(1))];
        for (id, data) in cases {
            assert_eq!(verify(&id, &data[..16], &[&[], &data]), Ok(()));
            let outside = verify(&id, &data[..16], &[&data]);
            assert_eq!(outside, Err(PrecompileError::InvalidDataOffsets));
        }
        let data = secp256k1(1);
        assert_eq!(verify(&secp256k1_program::ID, &data[..12], &[&[], &data]), Ok(()));
    }
}
