//! States, their reasons, and the counters of faults.

use ::metrics::{Collector, Exposition};
use replicated_log::LogError;

use super::*;

fn status() -> ReplicaStatus {
    ReplicaStatus::new(ReadyLimits { lag_max_slots: 8, resume_slots_min: 0 })
}

#[test]
fn a_replica_is_ready_near_the_end_of_the_log_and_behind_when_it_falls_back() {
    let status = status();
    assert_eq!(status.state(), ReplicaState::Loading);
    status.restart_window(100);
    status.cluster.processed.store(100, Ordering::Relaxed);
    status.set_following();
    // Four messages a block, 400 of them unread: 100 slots.
    for pending in (400..404).rev() {
        status.record_message(pending);
    }
    status.record_read_block(101);
    assert_eq!(status.lag_slots(), 101);
    assert_eq!(status.state(), ReplicaState::CatchingUp);
    status.cluster.processed.store(101, Ordering::Relaxed);
    status.record_message(0);
    assert_eq!(status.state(), ReplicaState::Ready);
    assert_eq!(status.not_ready_reason(), None);
    status.record_message(4_000);
    assert_eq!(status.state(), ReplicaState::Behind);
}

#[test]
fn a_fault_is_named_and_counted_until_the_log_is_followed_again() {
    let status = status();
    status.set_fault(&Fault::Truncated { wanted: 7, first: 100 });
    assert_eq!(status.state(), ReplicaState::Broken);
    assert_eq!(status.faults(FaultKind::Truncated), 1);
    let reason = status.not_ready_reason().expect("it is not ready");
    assert_eq!(reason, "broken: truncated");
    let last = status.last_fault().expect("a fault");
    assert!(last.contains("message 7 is needed"), "{last}");
    status.set_lacks_snapshot();
    let reason = status.not_ready_reason().expect("it is not ready");
    assert_eq!(reason, "broken: truncated; no snapshot to jump to");
    status.set_following();
    assert_ne!(status.state(), ReplicaState::Broken);
}

#[test]
fn the_reason_names_no_server_and_no_object() {
    let status = status();
    let secret = || LogError::with_reason("nats://10.0.0.7:4222", "read", "no response");
    for (fault, reason) in [
        (Fault::Unreachable(secret()), "unreachable"),
        (Fault::Damaged(secret()), "broken: damaged"),
    ] {
        status.set_fault(&fault);
        assert_eq!(status.not_ready_reason().as_deref(), Some(reason));
        assert!(status.last_fault().is_some_and(|text| text.contains("10.0.0.7")));
    }
    status.set_ended();
    assert_eq!(status.state(), ReplicaState::Broken);
    assert_eq!(status.not_ready_reason().as_deref(), Some("broken: a thread has ended"));
}

#[test]
fn each_kind_of_fault_has_a_counter() {
    let status = status();
    for (times, kind) in (1..).zip(FaultKind::ALL) {
        (0..times).for_each(|_| status.count_fault(kind));
    }
    let mut out = Exposition::default();
    status.write(&mut out);
    let text = out.into_string();
    for (times, kind) in (1..).zip(FaultKind::ALL) {
        assert_eq!(status.faults(kind), times);
        let name = kind.name();
        let line = match kind.is_loss() {
            true => format!("hydrant_log_losses_total{{loss=\"{name}\"}} {times}\n"),
            false => format!("hydrant_log_faults_total{{fault=\"{name}\"}} {times}\n"),
        };
        assert!(text.contains(&line), "{line}{text}");
    }
}

#[test]
fn a_short_window_is_not_ready() {
    let status = ReplicaStatus::new(ReadyLimits { lag_max_slots: 8, resume_slots_min: 50 });
    status.restart_window(100);
    status.cluster.processed.store(120, Ordering::Relaxed);
    status.set_following();
    status.record_message(0);
    let reason = status.not_ready_reason().expect("it is not ready");
    assert!(reason.contains("resume 20 slots"), "{reason}");
}
