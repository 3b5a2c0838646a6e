//! The time that the publisher spends on each listener, and the client that a publisher that is behind closes.
//!
//! Shape: a listener has its own sum, which is void in a later period. A period begins when the publisher gets behind.
//! Not here: whether the publisher is behind (`publisher`).

use std::cell::Cell;
use std::time::Duration;

use clients::ClientId;
use foldhash::HashMap;

/// The part of a period that the publisher must have spent on listeners, and the part of one client, below which no
/// client is the cause: 1/2 and 1/10.
const ALL_PARTS: u32 = 2;
const CLIENT_PARTS: u32 = 10;

/// The time that was spent on a listener in a period.
#[derive(Default)]
pub(crate) struct PublishCost(Cell<(u64, Duration)>);

impl PublishCost {
    pub(crate) fn add(&self, period: u64, time: Duration) {
        self.0.set((period, self.spent(period) + time));
    }

    pub(crate) fn spent(&self, period: u64) -> Duration {
        let (of_period, spent) = self.0.get();
        if of_period == period { spent } else { Duration::ZERO }
    }
}

/// Returns the client on which the publisher spent most of a period, if it is the cause of a delay of others.
pub(crate) fn costliest_client(
    listeners: impl Iterator<Item = (ClientId, Duration)>,
    period: Duration,
) -> Option<(ClientId, Duration)> {
    let mut by_client: HashMap<ClientId, Duration> = HashMap::default();
    for (client, spent) in listeners {
        *by_client.entry(client).or_default() += spent;
    }
    let all: Duration = by_client.values().sum();
    if by_client.len() < 2 || all < period / ALL_PARTS {
        return None;
    }
    let costliest = by_client.into_iter().max_by_key(|(client, spent)| (*spent, *client));
    costliest.filter(|(_, spent)| *spent >= period / CLIENT_PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId(1);
    const B: ClientId = ClientId(2);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_sum_is_void_in_a_later_period() {
        let cost = PublishCost::default();
        cost.add(1, ms(2));
        cost.add(1, ms(3));
        assert_eq!((cost.spent(1), cost.spent(2)), (ms(5), ms(0)));
        cost.add(2, ms(1));
        assert_eq!(cost.spent(2), ms(1));
    }

    #[test]
    fn the_costliest_client_is_closed_if_listeners_are_the_cause() {
        let find = |listeners: &[(ClientId, Duration)]| {
            costliest_client(listeners.iter().copied(), ms(200)).map(|(client, _)| client)
        };
        assert_eq!(find(&[(A, ms(60)), (B, ms(70)), (A, ms(60))]), Some(A));
        assert_eq!(find(&[(A, ms(40)), (B, ms(40))]), None, "the machine is slow");
        assert_eq!(find(&[(A, ms(190)), (A, ms(10))]), None, "there is no other client");
        let many: Vec<_> = (0..20).map(|n| (ClientId(n), ms(10))).collect();
        assert_eq!(find(&many), None, "no client is the cause");
    }
}
