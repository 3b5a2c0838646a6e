//! The postings of 256 consecutive ids, compressed by a palette.
//!
//! Shape: addresses that were subscribed to together have consecutive ids and the same subscriptions. A page of them is
//! one posting, or a palette of up to 16 postings and one, two or four bits for each id. A page with more distinct
//! postings stores all of them uncompressed.
//! Memory: 4 to 256 bytes, or 1 KiB.

use crate::posting_lists::PostingRef;

pub(crate) const PAGE_IDS: usize = 256;
/// The most postings in a palette.
const PALETTE_MAX: usize = 16;
/// Changes of single postings after which an uncompressed page is tried to be compressed again.
const REPACK_INTERVAL: u8 = 32;

pub(crate) struct PostingPage {
    /// The palette, then the palette index of each id in `bits` bits; or all postings.
    words: Box<[u32]>,
    bits: u8,
    changes: u8,
    used: u16,
}

/// `bits` of an uncompressed page.
const UNCOMPRESSED: u8 = 32;

impl PostingPage {
    pub(crate) fn from_postings(words: &[PostingRef; PAGE_IDS]) -> Self {
        let used = words.iter().filter(|word| **word != PostingRef::EMPTY).count() as u16;
        let mut palette = [PostingRef::EMPTY; PALETTE_MAX];
        let mut codes = [0_u8; PAGE_IDS];
        let mut len = 0;
        let mut last = 0;
        for (word, code) in words.iter().zip(&mut codes) {
            if len == 0 || palette[last] != *word {
                last = palette[..len].iter().position(|known| known == word).unwrap_or(len);
                if last == PALETTE_MAX {
                    let words = words.iter().map(|word| word.to_bits()).collect();
                    return Self { words, bits: UNCOMPRESSED, changes: 0, used };
                }
                palette[last] = *word;
                len = len.max(last + 1);
            }
            *code = last as u8;
        }
        let bits = match len {
            ..=1 => 0,
            2 => 1,
            3..=4 => 2,
            _ => 4,
        };
        let mut packed = vec![0; (1 << bits) + PAGE_IDS * bits / 32].into_boxed_slice();
        // The unused end of the palette is never referred to.
        packed[..len].iter_mut().zip(palette).for_each(|(to, word)| *to = word.to_bits());
        let mut page = Self { words: packed, bits: bits as u8, changes: 0, used };
        if bits > 0 {
            codes.iter().enumerate().for_each(|(at, code)| page.put(at, *code as usize));
        }
        page
    }

    pub(crate) fn postings(&self) -> [PostingRef; PAGE_IDS] {
        std::array::from_fn(|at| self.get(at))
    }

    pub(crate) fn get(&self, at: usize) -> PostingRef {
        let word = match self.bits {
            0 => self.words[0],
            UNCOMPRESSED => self.words[at],
            bits => {
                let (word, shift) = self.code(at);
                self.words[(self.words[word] >> shift) as usize & ((1 << bits) - 1)]
            }
        };
        PostingRef::from_bits(word)
    }

    pub(crate) fn set(&mut self, at: usize, word: PostingRef) {
        let old = self.get(at);
        if old == word {
            return;
        }
        self.changes = self.changes.wrapping_add(1);
        if self.bits == UNCOMPRESSED && !self.changes.is_multiple_of(REPACK_INTERVAL) {
            self.words[at] = word.to_bits();
        } else if let Some(code) = self.palette().iter().position(|known| *known == word.to_bits())
            && (self.bits > 0 && self.bits != UNCOMPRESSED)
        {
            self.put(at, code);
        } else {
            let mut words = self.postings();
            words[at] = word;
            *self = Self::from_postings(&words);
            return;
        }
        self.used += u16::from(word != PostingRef::EMPTY);
        self.used -= u16::from(old != PostingRef::EMPTY);
    }

    /// Ids with a posting that is not empty.
    pub(crate) fn count_ids(&self) -> usize {
        self.used.into()
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    fn palette(&self) -> &[u32] {
        if self.bits == UNCOMPRESSED { &[] } else { &self.words[..1 << self.bits] }
    }

    /// The word and the shift of an id's bits.
    fn code(&self, at: usize) -> (usize, usize) {
        let bits = usize::from(self.bits);
        ((1 << bits) + at * bits / 32, at * bits % 32)
    }

    fn put(&mut self, at: usize, code: usize) {
        let (word, shift) = self.code(at);
        let others = self.words[word] & !(((1 << self.bits) - 1) << shift);
        self.words[word] = others | (code as u32) << shift;
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn every_form_returns_the_postings_that_were_set() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for different in [1, 2, 3, 4, 9, 16, 17, 200] {
            let mut words = [PostingRef::EMPTY; PAGE_IDS];
            let mut page = PostingPage::from_postings(&words);
            assert_eq!((page.count_ids(), page.bytes()), (0, 4));
            for round in 0..2_000 {
                let at = rng.random_range(0..PAGE_IDS);
                let word = rng.random_range(0..different);
                words[at] = PostingRef::from_bits(word);
                page.set(at, words[at]);
                assert_eq!(page.get(at), words[at]);
                if round % 50 == 0 {
                    assert_eq!(page.postings(), words);
                    let used = words.iter().filter(|word| **word != PostingRef::EMPTY).count();
                    assert_eq!(page.count_ids(), used);
                    assert_eq!(PostingPage::from_postings(&words).postings(), words);
                }
            }
            let bytes = PostingPage::from_postings(&words).bytes();
            let most = [(1, 4), (2, 40), (4, 80), (16, 192), (u32::MAX, 1_024)];
            let most = most.iter().find(|(up_to, _)| different <= *up_to).map(|(_, bytes)| *bytes);
            assert_eq!(Some(bytes), most, "with {different} distinct postings");
        }
    }
}
