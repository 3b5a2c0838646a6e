//! Tests of scattered postings: against a map, with skewed ids, at the largest number of shards, and their memory.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

const SEED: u32 = 0x1234_5678;

fn word(number: u32) -> PostingRef {
    PostingRef::from_bits(number + 1)
}

/// The ids of a test: far apart, and distinct.
fn scattered_id(number: u32) -> u32 {
    number.wrapping_mul(1_789)
}

fn holds_exactly(postings: &ScatteredPostings, numbers: u32) -> bool {
    postings.len() == numbers as usize
        && (0..numbers).all(|number| postings.get(scattered_id(number)) == word(number))
        && postings.get(scattered_id(numbers)) == PostingRef::EMPTY
}

#[test]
fn it_equals_a_map_while_it_grows_and_shrinks() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let mut postings = ScatteredPostings::with_seed(SEED);
    let mut model = BTreeMap::new();
    // Enough for every number of shards between two powers of two, and back.
    for (inserted, removed) in [(300, 200), (60_000, 20_000), (250_000, 290_000), (500, 0)] {
        for number in 0..inserted {
            let id = rng.random_range(0..1 << 31);
            postings.set(id, word(number));
            model.insert(id, word(number));
        }
        let some: Vec<u32> = model.keys().copied().collect();
        for at in 0..removed.min(some.len()) {
            // Every third or so at first, the last ones in order.
            let id = some[(at * 3 + at / (some.len() / 3 + 1)) % some.len()];
            assert_eq!(postings.get(id), model.remove(&id).unwrap_or(PostingRef::EMPTY));
            postings.set(id, PostingRef::EMPTY);
            postings.set(id, PostingRef::EMPTY);
        }
        assert_eq!(postings.len(), model.len());
        assert!(model.iter().all(|(id, word)| postings.get(*id) == *word));
        let is_absent = |id: u32| postings.get(id) == PostingRef::EMPTY;
        assert!((0..100_000).all(|id| model.contains_key(&id) || is_absent(id)));
    }
    model.keys().for_each(|id| postings.set(*id, PostingRef::EMPTY));
    postings.set(7, PostingRef::EMPTY);
    assert_eq!((postings.len(), postings.bytes()), (0, 0), "nothing is allocated");
}

#[test]
fn a_shard_may_have_more_ids_than_a_bucket_has_keys() {
    let mut postings = ScatteredPostings::with_seed(SEED);
    let hash = |id: u32| mix_bits(id ^ SEED);
    let last_shard = SHARDS_MIN as u32 - 1;
    let mut ids: Vec<u32> =
        (0..).filter(|id| hash(*id) & last_shard == last_shard).take(70_000).collect();
    // In the order of the buckets and keys, so that little of the shard moves.
    ids.sort_unstable_by_key(|id| hash(*id).rotate_left(BUCKET_BITS));
    ids.iter().for_each(|id| postings.set(*id, word(*id)));
    assert_eq!(postings.shards[SHARDS_MIN - 1].keys.len(), ids.len(), "all are in one shard");
    assert!(ids.iter().all(|id| postings.get(*id) == word(*id)));
    for id in ids.iter().rev() {
        assert_eq!(postings.change(*id, |_| PostingRef::EMPTY), word(*id));
    }
    assert_eq!((postings.len(), postings.bytes()), (0, 0), "nothing is allocated");
}

#[test]
fn the_hash_has_another_key_in_each_table() {
    let seeds: Vec<u32> = (0..8).map(|_| ScatteredPostings::default().seed).collect();
    assert!(seeds.iter().any(|seed| *seed != seeds[0]), "{seeds:?}");
}

#[test]
fn every_bucket_may_be_a_shard() {
    let mut postings = ScatteredPostings::with_seed(SEED);
    (0..1_000).for_each(|number| postings.set(scattered_id(number), word(number)));
    while postings.shards.len() < SHARDS_MAX {
        postings.split_next();
    }
    assert!(holds_exactly(&postings, 1_000));
    (1_000..1_200).for_each(|number| postings.set(scattered_id(number), word(number)));
    assert!(holds_exactly(&postings, 1_200));
    assert_eq!(postings.shards.len(), SHARDS_MAX);
    // Each removal merges two shards, as there are few ids.
    (1_100..1_200).for_each(|number| postings.set(scattered_id(number), PostingRef::EMPTY));
    assert!(holds_exactly(&postings, 1_100));
    assert_eq!(postings.shards.len(), SHARDS_MAX - 100);
    while postings.shards.len() > SHARDS_MIN {
        postings.merge_last();
    }
    assert!(holds_exactly(&postings, 1_100));
}

#[test]
fn a_few_ids_come_and_go_without_shards() {
    let mut postings = ScatteredPostings::with_seed(SEED);
    let few = FEW_IDS_MAX as u32;
    (0..few).for_each(|number| postings.set(scattered_id(number), word(number)));
    assert!(holds_exactly(&postings, few) && postings.shards.is_empty());
    assert!(postings.bytes() <= 4_096, "{} bytes", postings.bytes());
    postings.set(scattered_id(few), word(few));
    assert!(holds_exactly(&postings, few + 1) && postings.few.capacity() == 0);
    assert_eq!(postings.shards.len(), SHARDS_MIN);
    (1..=few).for_each(|number| postings.set(scattered_id(number), PostingRef::EMPTY));
    assert!(holds_exactly(&postings, 1));
    assert_eq!(postings.shards.len(), SHARDS_MIN, "they stay while there is an id");
    postings.set(scattered_id(0), PostingRef::EMPTY);
    assert_eq!((postings.len(), postings.bytes()), (0, 0), "nothing is allocated");
}

#[test]
fn an_id_takes_less_than_seven_bytes() {
    let mut postings = ScatteredPostings::with_seed(SEED);
    let mut most = 0.0_f64;
    for number in 0..1_200_000_u32 {
        postings.set(scattered_id(number), word(number));
        if number == 1_000 {
            assert!(postings.bytes() < 300_000, "{} bytes", postings.bytes());
        }
        if number > 600_000 && number.is_multiple_of(10_000) {
            most = most.max(postings.bytes() as f64 / postings.len() as f64);
        }
    }
    assert!(most < 7.0, "{most}");
    assert!(postings.shards.len() > 3_000, "{} shards", postings.shards.len());
}

#[test]
fn a_random_key_fills_the_shards_evenly() {
    let mut postings = ScatteredPostings::with_seed(SEED);
    for number in 0..300_000 {
        postings.set(scattered_id(number), word(number));
        if number.is_multiple_of(10_000) && !postings.shards.is_empty() {
            let longest = postings.shards.iter().map(|shard| shard.keys.len()).max();
            // Twice the average before a split, and six standard deviations.
            let most = 2 * SHARD_IDS_MAX + 6 * (2 * SHARD_IDS_MAX).isqrt();
            assert!(longest.is_some_and(|longest| longest <= most), "{longest:?} of {number}");
        }
    }
}

#[test]
fn reserved_memory_stays_when_the_table_outgrows_it() {
    let mut postings = ScatteredPostings::with_seed(SEED);
    (0..100).for_each(|number| postings.set(scattered_id(number), word(number)));
    postings.reserve(100_000);
    assert!(holds_exactly(&postings, 100));
    let reserved = postings.bytes();
    let ids_per_shard = postings.reserved.ids_per_shard;
    let shards = postings.shards.len();
    for number in 0..400_000 {
        postings.set(scattered_id(number), word(number));
        assert!(!number.is_multiple_of(5_000) || postings.bytes() >= reserved, "at {number}");
    }
    assert!(postings.shards.len() > 2 * shards, "it was outgrown");
    for number in (0..400_000).rev() {
        postings.set(scattered_id(number), PostingRef::EMPTY);
        assert!(!number.is_multiple_of(5_000) || postings.bytes() >= reserved, "at {number}");
    }
    assert_eq!((postings.len(), postings.shards.len()), (0, shards));
    let is_reserved = |shard: &Shard| {
        shard.keys.capacity() >= ids_per_shard && shard.words.capacity() >= ids_per_shard
    };
    assert!(postings.shards.iter().all(is_reserved));
    let bytes = postings.bytes();
    assert!(bytes < reserved + reserved / 2, "{bytes} after {reserved}: the rest was freed");
}

#[test]
fn a_reserved_id_takes_at_most_ten_bytes() {
    for ids in [1_000, 10_000, 98_305, 196_609, 250_000, 393_217, 1_000_000] {
        let mut postings = ScatteredPostings::with_seed(SEED);
        postings.reserve(ids);
        let bytes = postings.bytes();
        assert!(bytes <= 10 * ids + 320_000, "{bytes} of {ids}");
        assert!(ids < 250_000 || bytes <= 10 * ids, "{bytes} of {ids}");
    }
}
