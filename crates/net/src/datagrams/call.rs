//! What calls that receive and calls that send point to.

/// Headers of messages, and a part and a control message for each.
pub(super) struct Call {
    /// Filled anew for each call, so what they point to need not live longer than it.
    pub(super) headers: Vec<libc::mmsghdr>,
    pub(super) parts: Vec<libc::iovec>,
    pub(super) controls: Vec<Control>,
}

// SAFETY: the pointers in headers and parts are made anew by each call of the system, and used by
// nobody after it.
unsafe impl Send for Call {}

impl Call {
    /// Room for `most` messages.
    pub(super) fn new(most: usize) -> Self {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Call {
            headers: (0..most).map(|_| empty_header()).collect(),
            parts: vec![none; most],
            controls: vec![Control::default(); most],
        }
    }
}

/// A header of zeros: no address, no parts, no control message.
pub(super) fn empty_header() -> libc::mmsghdr {
    // SAFETY: a header is plain numbers and pointers, for which all zero is a value.
    unsafe { std::mem::zeroed() }
}

/// A control message that tells the segments' size. The kernel reads it as 16 bits and writes it
/// as 32.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Control {
    len: usize,
    level: libc::c_int,
    kind: libc::c_int,
    /// The size, or its lower half.
    low: u16,
    high: u16,
    padding: u32,
}

/// Bytes of a control message before what it tells.
const HEAD_BYTES: usize = std::mem::offset_of!(Control, low);

impl Control {
    /// The one that has the kernel cut.
    pub(super) fn segments_of(segment_bytes: u16) -> Self {
        Control {
            len: HEAD_BYTES + size_of::<u16>(),
            level: libc::IPPROTO_UDP,
            kind: libc::UDP_SEGMENT,
            low: segment_bytes,
            ..Control::default()
        }
    }

    /// The segments' size, where `bytes` bytes of this were written and tell one.
    pub(super) fn segment_bytes(&self, bytes: usize) -> Option<usize> {
        let end = HEAD_BYTES + size_of::<libc::c_int>();
        let is_size = (self.level, self.kind) == (libc::IPPROTO_UDP, libc::UDP_GRO);
        let is_whole = bytes >= end && self.len >= end;
        let size = usize::from(self.low) | usize::from(self.high) << 16;
        (is_size && is_whole).then_some(size)
    }
}

const _: () = assert!(
    size_of::<libc::cmsghdr>() == HEAD_BYTES
        && size_of::<usize>() == 8
        && cfg!(target_endian = "little"),
    "control messages have this form on little-endian 64-bit systems only"
);
