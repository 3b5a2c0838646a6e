//! Buffers that count in a client's share, or in another budget, by their length.
//!
//! Input: a buffer as it was filled. Output: one with the same bytes and little spare capacity.
//! Bounds: spare capacity of an eighth of the length.

/// Frees the spare capacity of a buffer if it is more than an eighth of the length: it would use memory that is not
/// counted. Cost: a copy of the bytes in this case.
///
/// `shrink_to_fit` is not enough: mimalloc reallocates in place if the new size is more than half of the old one. Its
/// size classes are an eighth apart, so less spare capacity cannot be freed.
pub fn trim_spare_capacity(bytes: Vec<u8>) -> Vec<u8> {
    match bytes.capacity() - bytes.len() > bytes.len() / 8 {
        true => bytes.as_slice().to_vec(),
        false => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_with_much_spare_capacity_is_copied() {
        for (len, is_copied) in [(50, true), (80, true), (90, false), (100, false)] {
            let mut bytes = Vec::with_capacity(100);
            bytes.resize(len, 7);
            let start = bytes.as_ptr();
            let trimmed = trim_spare_capacity(bytes);
            assert_eq!((trimmed.len(), trimmed.as_ptr() != start), (len, is_copied));
        }
    }
}
