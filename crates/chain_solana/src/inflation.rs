//! Inflation: the lamports that are created in an epoch.
//!
//! The rate falls with time, and time is counted in slots. The number of slots in a year is fixed at genesis and
//! changed by the features that shorten slots. These take effect one epoch after their activation.

use ledger::Slot;
use solana_epoch_schedule::EpochSchedule;
use solana_feature_set::{FeatureSet, pico_inflation};
use solana_feature_set::{
    reduce_slot_time_to_200ms, reduce_slot_time_to_250ms, reduce_slot_time_to_300ms,
    reduce_slot_time_to_350ms,
};
use solana_inflation::Inflation;
use solana_pubkey::Pubkey;

/// Values that depend on the intended duration of slots: consensus constants of Agave.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SlotTime {
    /// `None` at genesis: the cluster's own.
    slot_ms: Option<u64>,
    slots_per_year: f64,
    stake_accounts_per_block: u64,
}

/// Values for slots of 400 ms.
const AT_GENESIS: SlotTime =
    SlotTime { slot_ms: None, slots_per_year: 78_892_314.984, stake_accounts_per_block: 4_096 };

/// The features that shorten slots, the shortest first.
const SHORTER: [(Pubkey, SlotTime); 4] = [
    (
        reduce_slot_time_to_200ms::ID,
        SlotTime {
            slot_ms: Some(200),
            slots_per_year: 157_784_629.968,
            stake_accounts_per_block: 2_048,
        },
    ),
    (
        reduce_slot_time_to_250ms::ID,
        SlotTime {
            slot_ms: Some(250),
            slots_per_year: 126_227_703.974,
            stake_accounts_per_block: 2_560,
        },
    ),
    (
        reduce_slot_time_to_300ms::ID,
        SlotTime {
            slot_ms: Some(300),
            slots_per_year: 105_189_753.312,
            stake_accounts_per_block: 3_072,
        },
    ),
    (
        reduce_slot_time_to_350ms::ID,
        SlotTime {
            slot_ms: Some(350),
            slots_per_year: 90_162_645.696,
            stake_accounts_per_block: 3_584,
        },
    ),
];

/// The rates of a ledger's inflation, by epoch.
#[derive(Clone, Debug)]
pub struct InflationSchedule {
    inflation: Inflation,
    epochs: EpochSchedule,
    /// The first slot of the epoch from which time is counted.
    start: Slot,
    /// The first slot of each slot time, in order. The first entry starts at slot 0.
    slot_times: Vec<(Slot, SlotTime)>,
}

impl InflationSchedule {
    /// Computes the rates of a ledger with these features.
    pub fn new(inflation: Inflation, epochs: &EpochSchedule, features: &FeatureSet) -> Self {
        let full = features.full_inflation_features_enabled();
        let full = full.iter().filter_map(|feature| features.activated_slot(feature)).min();
        let activated =
            full.or_else(|| features.activated_slot(&pico_inflation::ID)).unwrap_or_default();
        let start_epoch = epochs.get_epoch(activated).saturating_sub(1);
        Self {
            inflation,
            start: epochs.get_first_slot_in_epoch(start_epoch),
            slot_times: slot_times(epochs, features),
            epochs: epochs.clone(),
        }
    }

    /// Returns the parameters of all rates.
    pub fn inflation(&self) -> &Inflation {
        &self.inflation
    }

    /// Returns the years of inflation at the start of an epoch.
    pub fn year(&self, epoch: u64) -> f64 {
        let end = self.epochs.get_first_slot_in_epoch(epoch).max(self.start);
        let ends = self.slot_times[1..].iter().map(|(from, _)| *from).chain([Slot::MAX]);
        let spans = self.slot_times.iter().zip(ends);
        spans
            .map(|((from, time), until)| {
                let slots = until.min(end).saturating_sub((*from).max(self.start));
                slots as f64 / time.slots_per_year
            })
            .sum()
    }

    /// Returns the lamports that epoch `epoch` created for validators and stakes, from the `capitalization` at the
    /// start of epoch `next`.
    pub fn lamports(&self, next: u64, epoch: u64, capitalization: u64) -> u64 {
        let rate = self.inflation.validator(self.year(next));
        let slots = self.epochs.get_slots_in_epoch(epoch) as f64;
        let first_slot = self.epochs.get_first_slot_in_epoch(epoch);
        let years = slots / self.slot_time(first_slot).slots_per_year;
        (rate * capitalization as f64 * years) as u64
    }

    /// Returns the maximum number of stake accounts that a block pays.
    pub fn stake_accounts_per_block(&self, slot: Slot) -> u64 {
        self.slot_time(slot).stake_accounts_per_block
    }

    /// Returns the milliseconds of a slot, if a feature has changed them since genesis.
    pub fn shortened_slot_ms(&self, slot: Slot) -> Option<u64> {
        self.slot_time(slot).slot_ms
    }

    fn slot_time(&self, slot: Slot) -> SlotTime {
        let last = self.slot_times.iter().rev().find(|(from, _)| *from <= slot);
        last.map_or(AT_GENESIS, |(_, time)| *time)
    }
}

/// The rates of a cluster that starts without any feature.
impl Default for InflationSchedule {
    fn default() -> Self {
        let epochs = EpochSchedule::without_warmup();
        Self::new(Inflation::default(), &epochs, &FeatureSet::default())
    }
}

fn slot_times(epochs: &EpochSchedule, features: &FeatureSet) -> Vec<(Slot, SlotTime)> {
    let mut times = Vec::new();
    let mut earliest = Slot::MAX;
    // A longer slot time has no effect once a shorter one applies.
    for (feature, time) in SHORTER {
        let Some(activated) = features.activated_slot(&feature) else { continue };
        let effective = epochs.get_epoch(activated).saturating_add(1);
        let effective = epochs.get_first_slot_in_epoch(effective);
        if effective < earliest {
            times.push((effective, time));
            earliest = effective;
        }
    }
    times.push((0, AT_GENESIS));
    times.reverse();
    times
}

#[cfg(test)]
mod tests {
    use solana_feature_set::full_inflation::devnet_and_testnet;

    use super::*;

    const SCHEDULE: (u64, u64, bool) = (432_000, 432_000, false);

    fn schedule(features: &[(Pubkey, Slot)], inflation: Inflation) -> InflationSchedule {
        let mut set = FeatureSet::default();
        features.iter().for_each(|(feature, slot)| set.activate(feature, *slot));
        let epochs = EpochSchedule::custom(SCHEDULE.0, SCHEDULE.1, SCHEDULE.2);
        InflationSchedule::new(inflation, &epochs, &set)
    }

    #[test]
    fn an_epoch_creates_its_share_for_the_year() {
        let fixed = schedule(&[], Inflation::new_fixed(0.1));
        let lamports = 1_000_000_000_000_000;
        // A tenth, for 432,000 of 78,892,314.984 slots.
        let expected = (0.1 * lamports as f64 * (432_000.0 / 78_892_314.984)) as u64;
        assert_eq!(fixed.lamports(1, 0, lamports), expected);
        assert_eq!(fixed.lamports(8, 7, lamports), expected);
        assert_eq!(schedule(&[], Inflation::new_disabled()).lamports(1, 0, lamports), 0);
    }

    #[test]
    fn the_rate_falls_with_the_years() {
        let default = schedule(&[], Inflation::default());
        assert_eq!(default.year(0), 0.0);
        assert!((default.year(183) - 1.0).abs() < 0.01, "{}", default.year(183));
        assert!(default.lamports(184, 183, 1 << 50) < default.lamports(1, 0, 1 << 50));
    }

    #[test]
    fn time_counts_from_the_epoch_before_the_one_that_switched_inflation_on() {
        let late = schedule(&[(devnet_and_testnet::ID, 432_000 * 10 + 5)], Inflation::default());
        assert_eq!(late.year(9), 0.0);
        assert_eq!(late.year(11), 2.0 * 432_000.0 / 78_892_314.984);
    }

    #[test]
    fn shorter_slots_count_from_the_epoch_after_their_activation() {
        let all = [
            (reduce_slot_time_to_350ms::ID, 0),
            (reduce_slot_time_to_200ms::ID, 0),
            (reduce_slot_time_to_300ms::ID, 0),
        ];
        let all = schedule(&all, Inflation::default());
        assert_eq!(all.year(1), 432_000.0 / 78_892_314.984);
        assert_eq!(all.year(2), 432_000.0 / 78_892_314.984 + 432_000.0 / 157_784_629.968);
        assert_eq!(all.stake_accounts_per_block(431_999), 4_096);
        assert_eq!(all.stake_accounts_per_block(432_000), 2_048);
        // A longer slot time has an effect only before a shorter one.
        let steps = [(reduce_slot_time_to_350ms::ID, 5), (reduce_slot_time_to_200ms::ID, 432_000)];
        let steps = schedule(&steps, Inflation::default());
        let spans = [(0, 4_096, None), (432_000, 3_584, Some(350)), (864_000, 2_048, Some(200))];
        for (slot, accounts, slot_ms) in spans {
            assert_eq!(steps.stake_accounts_per_block(slot), accounts);
            assert_eq!(steps.shortened_slot_ms(slot), slot_ms);
        }
    }
}
