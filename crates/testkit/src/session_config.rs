//! The settings of WebSocket sessions in tests whose clients reach none of the limits.

use subscriptions::Limits;
use websocket::Config;

/// Returns settings with room for 100 clients and 20,000 addresses, and timeouts of a minute.
pub fn roomy_session_config() -> Config {
    Config {
        limits: Limits {
            listeners_max: 100,
            subscriptions_max: 1_000,
            subscriptions_per_listener_max: 100,
            addresses_max: 20_000,
            address_pairs_max: 20_000,
            addresses_per_owner_max: 20_000,
            addresses_per_listener_max: 20_000,
            retained_steps: 8,
            retained_bytes: 1 << 20,
            unrooted_max: 4_096,
            queue_messages_max: 10_000,
            queue_bytes_max: 4 << 20,
            queues_bytes_max: 64 << 20,
        },
        message_bytes_max: 4_096,
        addresses_message_bytes_max: 4 << 20,
        message_timeout_ms: 60_000,
        incoming_bytes_max: 64 << 20,
        set_tasks_max: 1,
        write_timeout_ms: 60_000,
        close_timeout_ms: 60_000,
        ping_ms: 60_000,
        hold_ms: 0,
    }
}
