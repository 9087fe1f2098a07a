//! Keys in base64, as the meta commands have them: padded, with `+` and `/`.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes` in base64.
pub fn encode(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { digit } else { b'=' });
        }
    }
}

fn digit(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

/// Decodes `text` in place; the length of what it stands for, or `None` where it is not base64 or
/// stands for nothing.
pub(super) fn decode(text: &mut [u8]) -> Option<usize> {
    if text.is_empty() || !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return None;
    }
    let len = text.len() / 4 * 3 - padding;
    let last = text.len() - 4;
    for at in (0..text.len()).step_by(4) {
        let mut word = 0;
        for (place, byte) in text[at..at + 4].iter().enumerate() {
            let is_padding = at == last && place >= 4 - padding;
            word = word << 6 | if is_padding { 0 } else { digit(*byte)? };
        }
        let to = at / 4 * 3;
        text[to..to + 3].copy_from_slice(&word.to_be_bytes()[1..]);
    }
    Some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_decodes() {
        for len in 0..40u8 {
            let bytes: Vec<u8> = (0..len).map(|n| n.wrapping_mul(37)).collect();
            let mut text = Vec::new();
            encode(&mut text, &bytes);
            let decoded = decode(&mut text);
            assert_eq!(decoded, (len > 0).then_some(usize::from(len)));
            assert_eq!(&text[..usize::from(len)], bytes);
        }
        let mut text = Vec::new();
        encode(&mut text, b"ab");
        assert_eq!(text, b"YWI=");
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in ["", "a", "YQ", "YQ=", "YQ=!", "===a", "a===", "Y=Q=", "****", "YQ==YQ=="] {
            assert_eq!(decode(&mut bad.as_bytes().to_vec()), None, "{bad}");
        }
    }
}
