//! Hexadecimal digits.

/// Text that is not the hexadecimal form of the expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HexError {
    /// The text has another length.
    #[error("{digits} digits instead of {expected}")]
    Length {
        /// Bytes of the text.
        digits: usize,
        /// Digits of the value.
        expected: usize,
    },
    /// The text has an odd length.
    #[error("an odd number of digits: {digits}")]
    Odd {
        /// Bytes of the text.
        digits: usize,
    },
    /// A byte of the text is not a digit.
    #[error("the byte at {at} is not a hexadecimal digit")]
    NotADigit {
        /// Offset of the byte.
        at: usize,
    },
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends two lower-case digits for each byte.
pub(crate) fn encode_into(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 0xf)]);
    }
}

/// Returns two lower-case digits for each byte.
pub fn encode_hex(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    encode_into(bytes, &mut text);
    String::from_utf8(text).unwrap_or_else(|_| unreachable!("digits"))
}

/// Decodes exactly `N` bytes.
pub(crate) fn decode_array<const N: usize>(text: &str) -> Result<[u8; N], HexError> {
    if text.len() != 2 * N {
        return Err(HexError::Length { digits: text.len(), expected: 2 * N });
    }
    let mut bytes = [0; N];
    decode_into(text, &mut bytes)?;
    Ok(bytes)
}

/// Decodes any even number of digits.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, HexError> {
    if !text.len().is_multiple_of(2) {
        return Err(HexError::Odd { digits: text.len() });
    }
    let mut bytes = vec![0; text.len() / 2];
    decode_into(text, &mut bytes)?;
    Ok(bytes)
}

/// Decodes the digits of a text into bytes, one for each two digits.
fn decode_into(text: &str, bytes: &mut [u8]) -> Result<(), HexError> {
    let digit = |at: usize, byte: u8| {
        let value = char::from(byte).to_digit(16).ok_or(HexError::NotADigit { at })?;
        Ok(value as u8)
    };
    for (at, pair) in text.as_bytes().as_chunks::<2>().0.iter().enumerate() {
        bytes[at] = digit(2 * at, pair[0])? << 4 | digit(2 * at + 1, pair[1])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_in_both_cases_and_written_in_one() {
        assert_eq!(decode("00ffAb"), Ok(vec![0, 255, 0xab]));
        let mut text = Vec::new();
        encode_into(&[0, 255, 0xab], &mut text);
        assert_eq!(text, b"00ffab");
        assert_eq!(encode_hex(&[0, 255, 0xab]), "00ffab");
        assert_eq!(decode("0"), Err(HexError::Odd { digits: 1 }));
        assert_eq!(decode("0g"), Err(HexError::NotADigit { at: 1 }));
        assert_eq!(decode("+1"), Err(HexError::NotADigit { at: 0 }));
        assert_eq!(decode_array::<1>("0011"), Err(HexError::Length { digits: 4, expected: 2 }));
        assert_eq!(decode("é"), Err(HexError::NotADigit { at: 0 }));
    }
}
