//! The slot of a key, which MOVED names: CRC-16 (XMODEM) modulo 16384, of the part between braces
//! if there is one.

/// The slot of `key`.
pub(crate) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}').filter(|close| *close > 0)?;
        Some(&rest[..close])
    });
    crc16(tag.unwrap_or(key)) % 16384
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"{foo}bar"), 12182);
        assert_eq!(slot(b"a{}foo"), crc16(b"a{}foo") % 16384);
    }
}
