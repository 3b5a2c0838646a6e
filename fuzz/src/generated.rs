//! Inputs made from the seeds of a target. A number always gives the same input, so that a failure can be repeated.
//!
//! Shape: a few mutations of one seed, as libFuzzer's: bits, bytes, parts of another seed, repeated and removed
//! stretches, and numbers at their limits.
//! Bounds: at most 64 KiB an input.
//! Not here: coverage. `cargo xtask fuzz` searches for inputs that reach new code.

use fastrand::Rng;

/// The longest input.
const BYTES_MAX: usize = 64 * 1024;

/// Texts at the limits of what a parser reads.
const TOKENS: &[&str] = &[
    "null",
    "true",
    "-1",
    "-0",
    "0.0",
    "1e308",
    "18446744073709551615",
    "18446744073709551616",
    "\"\"",
    "[]",
    "{}",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\u{0}",
    "\u{feff}",
    "\u{1f600}",
    " ",
    "\n",
];

/// Input `number` of those made from the seeds.
pub(crate) fn input(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(number);
    let mut bytes = rng.choice(seeds).cloned().unwrap_or_default();
    for _ in 0..rng.u32(1..=8) {
        mutate(&mut rng, &mut bytes, seeds);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    let stretch = stretch(rng, bytes.len());
    match rng.u32(0..8) {
        0 => {
            if let Some(byte) = rng.choice(bytes.iter_mut()) {
                *byte ^= 1 << rng.u32(0..8);
            }
        }
        1 => {
            let value = rng.u8(..);
            if let Some(byte) = rng.choice(bytes.iter_mut()) {
                *byte = value;
            }
        }
        2 => bytes.truncate(stretch.start),
        3 => drop(bytes.drain(stretch)),
        4 => {
            let repeated = bytes[stretch.clone()].repeat(rng.usize(1..=16));
            bytes.splice(stretch, repeated.into_iter().take(BYTES_MAX));
        }
        5 => {
            let other = rng.choice(seeds).map_or(&[][..], Vec::as_slice);
            let part = self::stretch(rng, other.len());
            bytes.splice(stretch, other[part].iter().copied());
        }
        6 => bytes.reverse(),
        _ => {
            let token = rng.choice(TOKENS).unwrap_or(&"");
            bytes.splice(stretch.start..stretch.start, token.bytes());
        }
    }
}

/// A part of `length` bytes.
fn stretch(rng: &mut Rng, length: usize) -> std::ops::Range<usize> {
    let start = rng.usize(0..=length);
    start..rng.usize(start..=length.min(start + 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_gives_the_same_input_again_and_numbers_differ() {
        let seeds = [b"{\"id\":1}".to_vec(), b"[]".to_vec()];
        assert_eq!(input(&seeds, 7), input(&seeds, 7));
        let distinct: std::collections::HashSet<_> = (0..100).map(|n| input(&seeds, n)).collect();
        assert!(distinct.len() > 50, "only {} of 100 differ", distinct.len());
    }
}
