//! Bytes in hexadecimal, as cheat codes take them.

use jsonrpc::error::RpcError;

/// Decodes `text`. `name` is that of the parameter, for the error.
pub(super) fn decode(name: &str, text: &str) -> Result<Vec<u8>, RpcError> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        let message = format!("{name} has {} hexadecimal digits, an odd number", digits.len());
        return Err(RpcError::invalid_params(message));
    }
    let digit = |(at, byte): (usize, u8)| {
        let value = char::from(byte).to_digit(16);
        value.and_then(|value| u8::try_from(value).ok()).ok_or_else(|| {
            RpcError::invalid_params(format!("{name} has no hexadecimal digit at {at}"))
        })
    };
    let pairs = digits.chunks_exact(2).enumerate();
    pairs
        .map(|(index, pair)| {
            let high = digit((2 * index, pair[0]))?;
            Ok(high << 4 | digit((2 * index + 1, pair[1]))?)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_pairs_of_digits_in_either_case() {
        assert_eq!(decode("data", ""), Ok(vec![]));
        assert_eq!(decode("data", "00fFAb"), Ok(vec![0, 255, 0xab]));
        let message = |text| decode("data", text).map_err(|err| err.message);
        assert_eq!(message("123"), Err("data has 3 hexadecimal digits, an odd number".into()));
        assert_eq!(message("12g4"), Err("data has no hexadecimal digit at 2".into()));
        assert_eq!(message("0x12"), Err("data has no hexadecimal digit at 1".into()));
        assert_eq!(message("éé"), Err("data has no hexadecimal digit at 0".into()));
    }
}
