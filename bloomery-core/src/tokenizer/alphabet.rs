//! The GPT-2 alphabet: every byte as one printable character.
//!
//! Byte-level vocabularies spell their tokens in it. The printable Latin-1 bytes stand for themselves; the
//! other 68 become U+0100, U+0101, ... in ascending order.

/// One more than the largest character of the alphabet.
const END: usize = 256 + 68;

const fn stands_for_itself(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF)
}

const CHARS: [char; 256] = {
    let mut chars = ['\0'; 256];
    let mut others = 0x100;
    let mut byte = 0;
    while byte < 256 {
        chars[byte] = if stands_for_itself(byte as u8) {
            byte as u8 as char
        } else {
            others += 1;
            match char::from_u32(others - 1) {
                Some(char) => char,
                None => '\0',
            }
        };
        byte += 1;
    }
    chars
};

const BYTES: [Option<u8>; END] = {
    let mut bytes = [None; END];
    let mut byte = 0;
    while byte < 256 {
        bytes[CHARS[byte] as usize] = Some(byte as u8);
        byte += 1;
    }
    bytes
};

/// The character that spells a byte.
pub(super) fn char_of(byte: u8) -> char {
    CHARS[usize::from(byte)]
}

/// The byte that a character spells, if it belongs to the alphabet.
pub(super) fn byte_of(char: char) -> Option<u8> {
    BYTES.get(char as usize).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        for byte in 0..=255 {
            assert_eq!(byte_of(char_of(byte)), Some(byte));
        }
        assert_eq!((char_of(b' '), char_of(b'\n'), char_of(b'a'), char_of(0xAD)), ('Ġ', 'Ċ', 'a', 'Ń'));
        assert_eq!((byte_of(' '), byte_of('▁'), byte_of('\u{144}')), (None, None, None));
    }
}
