//! Bytes as hexadecimal.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Bytes as lower-case hexadecimal.
pub fn encode(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}

/// Hexadecimal as bytes, or nothing.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// A number as 16 lower-case digits. Every response has one as its id, so this neither loops nor branches.
pub fn encode_u64(number: u64) -> [u8; 16] {
    let digits =
        u128::from(eight_digits(number >> 32)) << 64 | u128::from(eight_digits(number & 0xffff_ffff));
    digits.to_be_bytes()
}

/// The eight digits of a number of 32 bits, one in each byte.
const fn eight_digits(number: u64) -> u64 {
    let pairs = (number | number << 16) & 0x0000_ffff_0000_ffff;
    let bytes = (pairs | pairs << 8) & 0x00ff_00ff_00ff_00ff;
    let nibbles = (bytes | bytes << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // One in each byte that is a letter.
    let letters = (nibbles + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    nibbles + 0x3030_3030_3030_3030 + letters * (b'a' - b'0' - 10) as u64
}

#[cfg(test)]
mod tests {
    use super::{decode, encode, encode_u64};

    #[test]
    fn numbers_and_bytes_are_encoded_alike() {
        for number in [0, 1, 9, 10, 0xf, u64::MAX, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210] {
            let bytes = number.to_be_bytes();
            let text = encode(&bytes);
            assert_eq!(encode_u64(number).as_slice(), text.as_bytes());
            assert_eq!(decode(&text).as_deref(), Some(&bytes[..]));
        }
    }

    #[test]
    fn text_that_is_not_hexadecimal_is_no_bytes() {
        assert_eq!((decode("0"), decode("0g"), decode("é")), (None, None, None));
    }
}
