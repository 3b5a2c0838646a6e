//! The share of a connection: the number of streams that it may have open at once if it needs them.
//!
//! Shape: identities with a weight share three quarters of all streams by weight; all others share
//! the rest equally. Without weighted identities the others share all streams. While the queue
//! fills up, a peer that has more waiting than its share gets a smaller share. So it slows
//! down before it is refused.
//! Not here: how many of them a connection needs (`stream_demand`). Its window is the smaller number.

use crate::config::Config;

/// Values on which a connection's share depends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PeerLoad {
    /// The weight of the connection's identity, if the weights file has it.
    pub(crate) weight: Option<u32>,
    /// Open connections of that identity.
    pub(crate) connections: usize,
    /// The sum of weights of all connected identities in the weights file.
    pub(crate) weights: u64,
    /// Open connections of identities that are not in it.
    pub(crate) unweighted_connections: usize,
}

/// Returns the number of streams that a connection may have open at once.
pub(crate) fn share(config: &Config, load: PeerLoad) -> u32 {
    let all = config.streams_max as u64;
    let weighted = if load.weights > 0 { all / 4 * 3 } else { 0 };
    let share = match load.weight {
        Some(weight) => {
            weighted * u64::from(weight) / load.weights.max(1) / load.connections.max(1) as u64
        }
        None => (all - weighted) / load.unweighted_connections.max(1) as u64,
    };
    let share = u32::try_from(share).unwrap_or(u32::MAX);
    share.clamp(config.window_min, config.window_max)
}

/// Returns the share while the queue is `pressure` full, from 0 to 1.
pub(crate) fn under_pressure(config: &Config, share: u32, pressure: f32, over_share: bool) -> u32 {
    if pressure < 0.5 || !over_share {
        return share;
    }
    // From the full share at half full down to the minimum at full.
    let left = ((1.0 - pressure) * 2.0).clamp(0.0, 1.0);
    ((share as f32 * left) as u32).max(config.window_min.min(share))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config { streams_max: 1_000, window_min: 4, window_max: 400, ..Config::default() }
    }

    #[test]
    fn unweighted_connections_share_all_while_no_identity_has_a_weight() {
        let unweighted = |count| {
            share(&config(), PeerLoad { unweighted_connections: count, ..PeerLoad::default() })
        };
        assert_eq!((unweighted(1), unweighted(10), unweighted(10_000)), (400, 100, 4));
    }

    #[test]
    fn weighted_identities_share_by_weight_and_the_others_the_remainder() {
        let load =
            PeerLoad { weight: None, connections: 0, weights: 10, unweighted_connections: 5 };
        assert_eq!(share(&config(), load), 50);
        let heavy = PeerLoad { weight: Some(4), connections: 1, ..load };
        let light = PeerLoad { weight: Some(1), connections: 1, ..load };
        assert_eq!((share(&config(), heavy), share(&config(), light)), (300, 75));
        assert_eq!(share(&config(), PeerLoad { connections: 3, ..heavy }), 100);
    }

    #[test]
    fn only_a_peer_over_its_share_gets_a_smaller_one() {
        let config = config();
        assert_eq!(under_pressure(&config, 400, 0.9, false), 400);
        assert_eq!(under_pressure(&config, 400, 0.4, true), 400);
        assert_eq!(under_pressure(&config, 400, 0.75, true), 200);
        assert_eq!(under_pressure(&config, 400, 1.0, true), 4);
    }
}
