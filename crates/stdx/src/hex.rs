//! Bytes as hexadecimal digits.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The bytes as lower-case digits.
pub fn encode(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// The bytes of a text of pairs of digits; `None` for any other text.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok());
    if rest.is_empty() { bytes.collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(encode(&bytes[254..]), "feff");
        assert_eq!(decode(&encode(&bytes)).as_ref(), Some(&bytes));
        assert_eq!(decode("FfA0"), Some(vec![255, 160]));
        for wrong in ["a", "abc", "+f", "0g", "é0"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
