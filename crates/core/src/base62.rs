//! Numbers as short text: digits, lower case, upper case, in this order.

/// The alphabet, by value.
pub const ALPHABET: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The shortest text for `number`.
pub fn encode(mut number: u64) -> String {
    let mut digits = [0_u8; 11];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = ALPHABET[usize::try_from(number % 62).expect("a remainder below 62")];
        number /= 62;
        if number == 0 {
            break;
        }
    }
    String::from_utf8_lossy(&digits[at..]).into_owned()
}

/// The number behind a text that [`encode`] could have written. `01` is no second spelling of `1`.
pub fn decode(text: &str) -> Option<u64> {
    if text.is_empty() || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    text.bytes().try_fold(0_u64, |number, byte| {
        let value = ALPHABET.iter().position(|&letter| letter == byte)?;
        number.checked_mul(62)?.checked_add(value as u64)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    #[test]
    fn encoding_matches_known_vectors() {
        for (number, text) in [
            (0, "0"),
            (123, "1Z"),
            (1_234_567_890, "1ly7vk"),
            (1_234_567_890_123_456, "5Ezg7yb1S"),
            (123_456_789_012_345_678, "97qS0b7N2m"),
            (i64::MAX as u64, "aZl8N0y58M7"),
        ] {
            assert_eq!(super::encode(number), text);
            assert_eq!(super::decode(text), Some(number));
        }
    }

    #[test]
    fn decode_rejects_leading_zeros_and_invalid_characters() {
        for text in ["", "01", "00", "a b", "ä", "zzzzzzzzzzzzzzz"] {
            assert_eq!(super::decode(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_number_round_trips(number: u64) {
            prop_assert_eq!(super::decode(&super::encode(number)), Some(number));
        }
    }
}
