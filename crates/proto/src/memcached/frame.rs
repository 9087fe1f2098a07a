//! The frame that datagrams of memcached's protocols start with.

/// Bytes of a frame.
pub const FRAME_BYTES: usize = 8;

/// Which message a datagram belongs to. Its numbers are big-endian; two bytes of nothing follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The request's number, which each datagram of its replies repeats.
    pub id: u16,
    /// The place of this datagram in its message.
    pub number: u16,
    /// Datagrams of the message.
    pub count: u16,
}

impl Frame {
    /// The frame of a datagram; `None` where it is too short for one.
    #[inline]
    pub fn read(datagram: &[u8]) -> Option<Frame> {
        let bytes = datagram.first_chunk::<FRAME_BYTES>()?;
        let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Some(Frame { id: number(0), number: number(2), count: number(4) })
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; FRAME_BYTES] {
        let (id, number) = (self.id.to_be_bytes(), self.number.to_be_bytes());
        let count = self.count.to_be_bytes();
        [id[0], id[1], number[0], number[1], count[0], count[1], 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_their_form() {
        let frame = Frame { id: 0x1234, number: 2, count: 0x0300 };
        assert_eq!(frame.bytes(), [0x12, 0x34, 0, 2, 3, 0, 0, 0]);
        assert_eq!(Frame::read(&[&frame.bytes()[..], b"get a"].concat()), Some(frame));
        // What nobody has defined is ignored, as memcached does.
        assert_eq!(Frame::read(&[0x12, 0x34, 0, 2, 3, 0, 9, 9]), Some(frame));
        assert_eq!(Frame::read(&[0; 7]), None);
    }
}
