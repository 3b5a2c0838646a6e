//! Faults of a log in memory: each shows at its reader or writer as documented.

use bytes::Bytes;
use futures_util::FutureExt;

use super::*;
use crate::ReadError;

fn open_generation(space: &MemoryLogSpace) -> Arc<dyn Log> {
    assert!(space.create_generation(1).now_or_never().expect("no wait").expect("it is created"));
    space.open_generation(1).now_or_never().expect("no wait").expect("it opens")
}

fn append(log: &Arc<dyn Log>, after: u64, count: u8) -> Result<u64, AppendError> {
    let batch = (0..count).map(|index| LogMessage::head(Bytes::from(vec![after as u8, index])));
    log.append(after, batch.collect()).now_or_never().expect("an append does not wait")
}

fn open_reader(log: &Arc<dyn Log>, after: u64) -> Box<dyn LogReader> {
    log.read(after).now_or_never().expect("no wait").expect("it opens")
}

/// Reads until the reader waits or fails.
fn read_all(reader: &mut dyn LogReader) -> (Vec<StoredMessage>, Option<ReadError>) {
    let mut messages = Vec::new();
    loop {
        match reader.next().now_or_never() {
            None => return (messages, None),
            Some(Ok(message)) => messages.push(message),
            Some(Err(error)) => return (messages, Some(error)),
        }
    }
}

fn list_sequences(messages: &[StoredMessage]) -> Vec<u64> {
    messages.iter().map(|message| message.sequence).collect()
}

/// Reads three messages from a log with these faults of reading.
fn read_with(read: ReadFaults) -> (Vec<StoredMessage>, Option<ReadError>) {
    let space = MemoryLogSpace::with_faults(Faults { read, ..Faults::default() });
    let log = open_generation(&space);
    append(&log, 0, 3).expect("it is appended");
    let mut reader = open_reader(&log, 0);
    let result = read_all(&mut *reader);
    let stored: Vec<_> = space.stored_messages(1).iter().map(|it| it.payload.clone()).collect();
    assert_eq!(stored, [[0, 0], [0, 1], [0, 2]].map(|it| Bytes::from(it.to_vec())));
    result
}

#[test]
fn each_fault_of_reading_shows_as_documented() {
    let (messages, error) = read_with(ReadFaults { flipped_bit: 1_000, ..ReadFaults::default() });
    assert_eq!(list_sequences(&messages), [1, 2, 3]);
    assert!(messages.iter().all(|it| it.payload[..] != [0, it.sequence as u8 - 1]));
    assert!(error.is_none());

    let (messages, _) = read_with(ReadFaults { missing: 1_000, ..ReadFaults::default() });
    assert!(messages.is_empty());

    let (messages, _) = read_with(ReadFaults { doubled: 1_000, ..ReadFaults::default() });
    assert_eq!(list_sequences(&messages), [1, 1, 2, 2, 3, 3]);

    let (messages, _) = read_with(ReadFaults { swapped: 1_000, ..ReadFaults::default() });
    assert_eq!(list_sequences(&messages), [1, 2, 3]);
    let order: Vec<u8> = messages.iter().map(|it| it.payload[1]).collect();
    assert_eq!(order, [1, 0, 2]);

    let (messages, error) = read_with(ReadFaults { failed: 1_000, ..ReadFaults::default() });
    assert!(messages.is_empty());
    let error = error.expect("it fails").to_string();
    assert_eq!(error, "generation 1 of the log in memory: cannot read message 1: no response");
}

#[test]
fn a_late_append_lands_once_or_is_refused() {
    let append_faults = AppendFaults { late: 1_000, ..AppendFaults::default() };
    let space = MemoryLogSpace::with_faults(Faults { append: append_faults, ..Faults::default() });
    let log = open_generation(&space);
    assert!(matches!(append(&log, 0, 2), Err(AppendError::Unknown(_))));
    assert!(space.stored_messages(1).is_empty());
    space.land_late_appends();
    assert_eq!(list_sequences(&space.stored_messages(1)), [1, 2]);
    assert!(matches!(append(&log, 0, 1), Err(AppendError::Unknown(_))));
    space.land_late_appends();
    assert_eq!(list_sequences(&space.stored_messages(1)), [1, 2]);
}

#[test]
fn another_position_than_the_end_is_fenced() {
    let log = open_generation(&MemoryLogSpace::new());
    assert_eq!(append(&log, 0, 2).expect("it is appended"), 2);
    for after in [0, 1, 3] {
        assert!(matches!(append(&log, after, 1), Err(AppendError::Fenced { last: 2 })));
    }
}

#[test]
fn a_reader_of_a_replaced_log_fails() {
    type Replace = fn(&MemoryLogSpace);
    let replacements: [Replace; 3] = [
        |space| space.delete_generation(1),
        |space| space.recreate_generation(1),
        |space| space.restore_generation(1, 1),
    ];
    for replace in replacements {
        let space = MemoryLogSpace::new();
        let log = open_generation(&space);
        append(&log, 0, 2).expect("it is appended");
        let mut reader = open_reader(&log, 2);
        assert!(reader.next().now_or_never().is_none(), "it waits at the end");
        replace(&space);
        assert!(
            matches!(read_all(&mut *reader), (messages, Some(ReadError::Gone)) if messages.is_empty())
        );
    }
}

#[test]
fn the_generations_below_a_generation_are_removed() {
    let space = MemoryLogSpace::new();
    let log = open_generation(&space);
    append(&log, 0, 2).expect("it is appended");
    let mut reader = open_reader(&log, 0);
    for generation in [0, 2, 3] {
        assert!(
            space.create_generation(generation).now_or_never().expect("no wait").expect("created")
        );
    }
    let remove = |generation| {
        let removed = space.remove_generations_below(generation).now_or_never().expect("no wait");
        removed.expect("they are removed")
    };
    assert_eq!([remove(0), remove(2), remove(2)], [0, 2, 0]);
    assert!(matches!(read_all(&mut *reader), (_, Some(ReadError::Gone))));
    assert_eq!(
        space.newest_generation().now_or_never().expect("no wait").expect("listed"),
        Some(3)
    );
    space.open_generation(2).now_or_never().expect("no wait").map(drop).expect("it stays");
}

#[test]
fn a_position_beyond_the_end_is_of_another_log() {
    let log = open_generation(&MemoryLogSpace::new());
    append(&log, 0, 2).expect("it is appended");
    let (messages, error) = read_all(&mut *open_reader(&log, 3));
    assert!(messages.is_empty() && matches!(error, Some(ReadError::Gone)), "{error:?}");
}

#[test]
fn an_emptied_log_begins_after_its_end() {
    let space = MemoryLogSpace::new();
    let log = open_generation(&space);
    let tail = |log: &Arc<dyn Log>| {
        let tail = log.tail().now_or_never().expect("no wait").expect("it has a tail");
        [tail.first, tail.last]
    };
    assert_eq!(tail(&log), [0, 0]);
    append(&log, 0, 3).expect("it is appended");
    space.empty_generation(1);
    assert_eq!(tail(&log), [4, 3]);
    let (_, error) = read_all(&mut *open_reader(&log, 0));
    assert!(matches!(error, Some(ReadError::Truncated { wanted: 1, first: 4 })), "{error:?}");
    let mut reader = open_reader(&log, 3);
    assert!(reader.next().now_or_never().is_none(), "it waits at the end");
    assert_eq!(append(&log, 3, 1).expect("it is appended"), 4);
    assert_eq!(list_sequences(&read_all(&mut *reader).0), [4]);
    assert_eq!(tail(&log), [4, 4]);
}

#[test]
fn a_lost_message_is_missing_for_each_reader() {
    let space = MemoryLogSpace::new();
    let log = open_generation(&space);
    append(&log, 0, 6).expect("it is appended");
    space.lose_message(1, 3);
    space.lose_message(1, 4);
    for _ in 0..2 {
        let mut reader = open_reader(&log, 0);
        assert_eq!(list_sequences(&read_all(&mut *reader).0), [1, 2]);
        let (_, error) = read_all(&mut *reader);
        assert!(matches!(error, Some(ReadError::Missing { wanted: 3, found: 5 })), "{error:?}");
    }
    assert_eq!(list_sequences(&read_all(&mut *open_reader(&log, 4)).0), [5, 6]);
    // The tail counts a lost message, and the reader waits for it.
    space.lose_message(1, 6);
    let tail = log.tail().now_or_never().expect("no wait").expect("it has a tail");
    assert_eq!([tail.first, tail.last], [1, 6]);
    assert!(open_reader(&log, 5).next().now_or_never().is_none());
    // The oldest message is truncated instead, with the holes that follow it.
    space.truncate_generation(1, 3);
    let (_, error) = read_all(&mut *open_reader(&log, 1));
    assert!(matches!(error, Some(ReadError::Truncated { wanted: 2, first: 5 })), "{error:?}");
}

#[test]
fn holes_stay_and_follow_from_the_seed() {
    let run = || {
        let faults = Faults { seed: 3, holes: 100, ..Faults::default() };
        let space = MemoryLogSpace::with_faults(faults);
        let log = open_generation(&space);
        for after in 0..100 {
            append(&log, after, 1).expect("it is appended");
        }
        space.set_faults(Faults::default());
        list_sequences(&space.stored_messages(1))
    };
    let sequences = run();
    assert!((80..100).contains(&sequences.len()), "messages are lost: {sequences:?}");
    assert_eq!(sequences, run());
}

#[test]
fn a_full_log_keeps_the_newest_messages() {
    let space = MemoryLogSpace::with_faults(Faults { messages_max: 3, ..Faults::default() });
    let log = open_generation(&space);
    append(&log, 0, 2).expect("it is appended");
    append(&log, 2, 2).expect("it is appended");
    assert_eq!(list_sequences(&space.stored_messages(1)), [2, 3, 4]);
    let (_, error) = read_all(&mut *open_reader(&log, 0));
    assert!(matches!(error, Some(ReadError::Truncated { wanted: 1, first: 2 })), "{error:?}");
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let run = || {
        let append_faults = AppendFaults { lost: 300, unconfirmed: 300, ..AppendFaults::default() };
        let faults =
            Faults { seed: 7, append: append_faults, truncation: 100, ..Faults::default() };
        let space = MemoryLogSpace::with_faults(faults);
        let log = open_generation(&space);
        for _ in 0..100 {
            let last = space.stored_messages(1).last().map_or(0, |message| message.sequence);
            let _ = append(&log, last, 1);
        }
        list_sequences(&space.stored_messages(1))
    };
    let sequences = run();
    assert!(sequences.len() < 70, "faults happen: {sequences:?}");
    assert_eq!(sequences, run());
}
