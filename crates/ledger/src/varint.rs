//! Numbers of 64 bits with seven bits in each byte, the lowest first: the form of numbers in packed records.

/// Appends a number. It takes at most ten bytes.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Removes a number from the front of the bytes. Returns `None` if the bytes end within it, or if it has more than 64
/// bits.
#[inline]
pub fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            // Of the tenth byte only the lowest bit is left.
            return (shift < 63 || *byte <= 1).then_some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_as_they_were_put() {
        for number in (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, u64::MAX >> bit]) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            assert!(bytes.len() <= 10);
            bytes.push(7);
            let mut rest = &bytes[..];
            assert_eq!(take_varint(&mut rest), Some(number));
            assert_eq!(rest, [7]);
            let mut cut = &bytes[..bytes.len() - 2];
            assert_eq!(take_varint(&mut cut), None, "{number}");
        }
    }

    #[test]
    fn numbers_over_64_bits_are_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 1;
        assert_eq!(take_varint(&mut &bytes[..]), Some(u64::MAX));
        for last in [2, 0x7f, 0x80, 0xff] {
            bytes[9] = last;
            assert_eq!(take_varint(&mut &bytes[..]), None, "{last}");
        }
    }
}
