//! The limits of airdrops: lamports of one, and lamports for one receiver in a slice of time.
//!
//! A receiver is the account that gets the lamports, or the client that requests them. A slice starts with its first
//! airdrop, and all receivers are forgotten at its end, as in Agave's faucet.
//! Bounds: [`RECEIVERS_MAX`] in a slice.
//! Differs from Agave: a refused airdrop does not count.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use chain_solana::AirdropError;
use core::net::IpAddr;
use foldhash::quality::RandomState;
use solana_pubkey::Pubkey;

/// Receivers of one slice of time.
const RECEIVERS_MAX: usize = 100_000;
/// Seconds of a slice of time, as in Agave.
pub(crate) const TIME_SLICE_DEFAULT: Duration = Duration::from_secs(60);

/// The limits of airdrops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AirdropLimits {
    /// Lamports of one airdrop.
    pub per_request: Option<u64>,
    /// Lamports for one receiver in a slice of time.
    pub per_time: Option<u64>,
    /// The slice of time.
    pub time_slice: Duration,
}

impl Default for AirdropLimits {
    fn default() -> Self {
        Self { per_request: None, per_time: None, time_slice: TIME_SLICE_DEFAULT }
    }
}

/// Who gets or requests an airdrop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Receiver {
    Account(Pubkey),
    Client(IpAddr),
}

/// What receivers got in the current slice of time.
pub(crate) struct AirdropCounts {
    limits: AirdropLimits,
    started_at: Option<Instant>,
    lamports: HashMap<Receiver, u64, RandomState>,
}

impl AirdropCounts {
    pub(crate) fn new(limits: AirdropLimits) -> Self {
        Self { limits, started_at: None, lamports: HashMap::default() }
    }

    /// Counts an airdrop for all of these receivers, or refuses it.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        lamports: u64,
        receivers: &[Receiver],
    ) -> Result<(), AirdropError> {
        if let Some(limit) = self.limits.per_request.filter(|limit| lamports > *limit) {
            return Err(AirdropError::TooMuch { lamports, limit });
        }
        let Some(limit) = self.limits.per_time else { return Ok(()) };
        let is_over = |started: Instant| now.duration_since(started) >= self.limits.time_slice;
        if self.started_at.is_none_or(is_over) {
            self.started_at = Some(now);
            self.lamports = HashMap::default();
        }
        let seconds = self.limits.time_slice.as_secs();
        let of = |receiver| self.lamports.get(receiver).copied().unwrap_or(0);
        let most = receivers.iter().map(of).max().unwrap_or(0);
        if most.saturating_add(lamports) > limit {
            return Err(AirdropError::TooMuchInTime { lamports, received: most, limit, seconds });
        }
        let new = receivers.iter().filter(|receiver| !self.lamports.contains_key(*receiver));
        if self.lamports.len() + new.count() > RECEIVERS_MAX {
            return Err(AirdropError::TooManyReceivers { limit: RECEIVERS_MAX, seconds });
        }
        for receiver in receivers {
            *self.lamports.entry(*receiver).or_default() += lamports;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_receiver_gets_no_more_than_the_limit_in_a_slice_of_time() {
        let limits = AirdropLimits {
            per_request: Some(60),
            per_time: Some(100),
            ..AirdropLimits::default()
        };
        let mut counts = AirdropCounts::new(limits);
        let account = |number: u8| Receiver::Account(Pubkey::new_from_array([number; 32]));
        let client = Receiver::Client(Ipv4Addr::LOCALHOST.into());
        let start = crate::executor::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut take = |seconds, lamports, receivers: &[Receiver]| {
            counts.take(after(seconds), lamports, receivers)
        };
        assert_eq!(
            take(0, 61, &[account(1)]),
            Err(AirdropError::TooMuch { lamports: 61, limit: 60 })
        );
        assert_eq!(take(0, 60, &[account(1), client]), Ok(()));
        let refused = |lamports, received| {
            Err(AirdropError::TooMuchInTime { lamports, received, limit: 100, seconds: 60 })
        };
        assert_eq!(take(59, 41, &[account(1)]), refused(41, 60));
        // What was refused does not count, and the client counts for all of its accounts.
        assert_eq!(take(59, 30, &[account(2), client]), Ok(()));
        assert_eq!(take(59, 20, &[account(3), client]), refused(20, 90));
        assert_eq!(take(59, 20, &[account(3)]), Ok(()));
        assert_eq!(take(59, 40, &[account(1)]), Ok(()));
        assert_eq!(take(59, 1, &[account(1)]), refused(1, 100));
        // The next slice.
        assert_eq!(take(60, 60, &[account(1), client]), Ok(()));
    }

    #[test]
    fn the_receivers_of_a_slice_are_bounded() {
        let limits = AirdropLimits { per_time: Some(100), ..AirdropLimits::default() };
        let mut counts = AirdropCounts::new(limits);
        let now = crate::executor::now();
        let account = |number: usize| {
            let mut bytes = [1; 32];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            Receiver::Account(Pubkey::new_from_array(bytes))
        };
        for number in 0..RECEIVERS_MAX {
            assert_eq!(counts.take(now, 1, &[account(number)]), Ok(()));
        }
        let full = AirdropError::TooManyReceivers { limit: RECEIVERS_MAX, seconds: 60 };
        assert_eq!(counts.take(now, 1, &[account(RECEIVERS_MAX)]), Err(full));
        // Those that are known still get more.
        assert_eq!(counts.take(now, 1, &[account(5)]), Ok(()));
        let later = now + TIME_SLICE_DEFAULT;
        assert_eq!(counts.take(later, 1, &[account(RECEIVERS_MAX)]), Ok(()));
        // Without a limit for a time nothing is stored.
        let mut unlimited = AirdropCounts::new(AirdropLimits::default());
        assert_eq!(unlimited.take(now, u64::MAX, &[account(1)]), Ok(()));
        assert!(unlimited.lamports.is_empty());
    }
}
