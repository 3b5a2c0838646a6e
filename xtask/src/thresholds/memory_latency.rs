//! The time of a random read from memory, for the machine's line of a result.
//!
//! The benchmarks of large ledgers wait for memory most of their time, and virtual machines of one size differ by a
//! factor of ten in it: the same binary took 0.6 of a core in one of them, and 0.2 in another.
//! Bounds: 512 MiB, and about a second.

use std::time::{Duration, Instant};

/// Much more than the caches of a processor have.
const BYTES: usize = 512 << 20;
const READS: u32 = 200_000;

/// Returns the mean time of a read whose address depends on the read before it.
pub(super) fn memory_latency() -> Duration {
    // Not zeros: the kernel gives all pages without a write the same page of zeros.
    let words = vec![1_u64; BYTES / size_of::<u64>()];
    measure(&words)
}

#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn measure(words: &[u64]) -> Duration {
    let started = Instant::now();
    let mut state = 1;
    for _ in 0..READS {
        let word = words[position(state, words.len())];
        state = next_state(state, word);
    }
    std::hint::black_box(state);
    started.elapsed() / READS
}

/// Reduces a state to a position by its high bits, which are the random ones.
fn position(state: u64, len: usize) -> usize {
    ((u128::from(state) * len as u128) >> 64) as usize
}

/// A step of a linear congruential generator with Knuth's constants. The word that was read is 1.
fn next_state(state: u64, word: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_406 + word)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn reads_go_to_different_cache_lines() {
        let mut state = 1;
        let lines: HashSet<usize> = (0..READS)
            .map(|_| {
                state = next_state(state, 1);
                position(state, BYTES / 8) / 8
            })
            .collect();
        assert!(lines.len() > 190_000, "{}", lines.len());
    }
}
