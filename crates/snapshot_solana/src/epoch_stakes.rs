//! Reads the stakes of epochs from the fields of a bank.
//!
//! In: Agave's versioned epoch stakes. Out: the vote accounts with stake; delegations are skipped in the stream.
//! Bounds: [`EPOCHS_MAX`] epochs of [`VOTERS_MAX`] vote accounts, about 110 bytes each.
//! Trust: the bank hash does not cover them, as in a validator. Later epochs follow from accounts, which are covered.

use std::collections::HashMap;

use solana::{EpochStakes, EpochVoter};
use solana_pubkey::Pubkey;

use crate::bincode_reader::{BincodeReader, PUBKEY};
use crate::error::SnapshotError;

/// Maximum number of epochs. Agave 4.2 stores five (`MAX_LEADER_SCHEDULE_STAKES` in `solana-runtime`), and older releases
/// stored six.
const EPOCHS_MAX: usize = 64;
/// Maximum number of vote accounts with stake in an epoch. Mainnet has about 1,000.
const VOTERS_MAX: usize = 65_536;
/// The version of a vote account's data. The address of its node follows.
const VOTE_STATE_TAG: u64 = 4;
/// Address, stake, lamports, length of the data, owner, executable, rent epoch.
const VOTE_ACCOUNT: u64 = PUBKEY + 8 + 8 + 8 + PUBKEY + 1 + 8;
/// Voter, stake, activation and deactivation epoch, and eight unused bytes.
const DELEGATION: u64 = PUBKEY + 8 * 4;
/// An epoch and three amounts.
const STAKE_HISTORY_ENTRY: u64 = 8 * 4;

/// Reads the stakes of all epochs, in the order of epochs.
pub(crate) fn read_all(
    reader: &mut BincodeReader<'_, '_>,
) -> Result<Vec<EpochStakes>, SnapshotError> {
    let mut all = Vec::new();
    reader.each("epochs with stakes", 12, |reader| {
        reader.check_len(all.len(), EPOCHS_MAX, "epochs with stakes")?;
        all.push(read(reader)?);
        Ok(())
    })?;
    all.sort_unstable_by_key(|stakes| stakes.epoch);
    match all.windows(2).find(|pair| pair[0].epoch == pair[1].epoch) {
        None => Ok(all),
        Some(pair) => {
            let reason = format!("epoch {} has stakes twice", pair[0].epoch);
            Err(reader.archive().damaged(reason))
        }
    }
}

/// Skips the stakes of the bank itself.
pub(crate) fn skip_current(reader: &mut BincodeReader<'_, '_>) -> Result<(), SnapshotError> {
    reader.each("vote accounts", VOTE_ACCOUNT, |reader| {
        reader.skip(PUBKEY + 8 + 8)?; // address, stake, lamports
        reader.skip_list("bytes of a vote account", 1)?;
        reader.skip(PUBKEY + 1 + 8) // owner, executable, rent epoch
    })?;
    skip_delegations(reader, DELEGATION)
}

/// Skips delegations and the stake history.
fn skip_delegations(
    reader: &mut BincodeReader<'_, '_>,
    delegation_bytes: u64,
) -> Result<(), SnapshotError> {
    reader.skip_list("delegations", PUBKEY + delegation_bytes)?;
    reader.skip(16)?; // unused, epoch
    reader.skip_list("epochs of stake history", STAKE_HISTORY_ENTRY)
}

fn read(reader: &mut BincodeReader<'_, '_>) -> Result<EpochStakes, SnapshotError> {
    let epoch = reader.u64()?;
    if reader.u32()? != 0 {
        let reason = "epoch stakes of a kind that Agave 4.2 has not";
        return Err(reader.archive().unsupported(reason));
    }
    let mut voters = read_voters(reader)?;
    skip_delegations(reader, DELEGATION + 8)?; // with the credits of each
    let total = reader.u64()?;
    reader.each("nodes with votes", PUBKEY + 8 + 8, |reader| {
        reader.skip(PUBKEY)?;
        reader.skip_list("vote accounts of a node", PUBKEY)?;
        reader.skip(8)
    })?;
    reader.each("authorized voters", 2 * PUBKEY, |reader| {
        let vote_account = reader.pubkey()?;
        let authorized_voter = reader.pubkey()?;
        if let Some(voter) = voters.get_mut(&vote_account) {
            voter.authorized_voter = Some(authorized_voter);
        }
        Ok(())
    })?;
    let mut voters: Vec<EpochVoter> = voters.into_values().collect();
    voters.sort_unstable_by_key(|voter| voter.vote_account);
    let sum = voters.iter().map(|voter| u128::from(voter.stake)).sum::<u128>();
    if sum != u128::from(total) {
        let reason = format!("epoch {epoch} has {sum} lamports of stake, and says {total}");
        return Err(reader.archive().damaged(reason));
    }
    Ok(EpochStakes { epoch, voters })
}

/// Reads the vote accounts, and retains those with stake.
fn read_voters(
    reader: &mut BincodeReader<'_, '_>,
) -> Result<HashMap<Pubkey, EpochVoter>, SnapshotError> {
    let mut voters: HashMap<Pubkey, EpochVoter> = HashMap::new();
    reader.each("vote accounts", VOTE_ACCOUNT, |reader| {
        let vote_account = reader.pubkey()?;
        let stake = reader.u64()?;
        reader.skip(8)?; // lamports
        let data = reader.count("bytes of a vote account", 1)?;
        let head = if data < VOTE_STATE_TAG + PUBKEY { 0 } else { VOTE_STATE_TAG + PUBKEY };
        let node = if head > 0 {
            reader.skip(VOTE_STATE_TAG)?;
            reader.pubkey()?
        } else {
            Pubkey::default()
        };
        reader.skip(data - head)?;
        reader.skip(PUBKEY + 1 + 8)?; // owner, executable, rent epoch
        if stake == 0 {
            return Ok(());
        }
        if head == 0 {
            let reason = format!("vote account {vote_account} has stake and {data} bytes");
            return Err(reader.archive().damaged(reason));
        }
        reader.check_len(voters.len(), VOTERS_MAX, "vote accounts with stake")?;
        let voter = EpochVoter { vote_account, node, authorized_voter: None, stake };
        voters.insert(vote_account, voter);
        Ok(())
    })?;
    Ok(voters)
}
