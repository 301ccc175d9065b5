//! Digests as text.

use sha2::{Digest, Sha256};

/// The SHA-256 of some bytes, in lower-case hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_lower_case_hexadecimal() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
    }
}
