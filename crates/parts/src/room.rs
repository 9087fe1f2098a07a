//! The room that a store has on its device, and what parts of it are as large as a small device
//! allows.
//!
//! What a store keeps in reserve grows with the largest of its pieces: a compaction and a merge
//! write their output before their inputs go, and logs are allocated ahead. On a small device
//! pieces of the usual size would leave little for entries, so each is at most a part of the room.

use silica_base::Result;
use silica_device::{Device, DeviceFile, Mode};

/// Bytes that a store may take on its device: what is free, and what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    bytes: u64,
}

impl Room {
    /// Room without a bound.
    pub const UNBOUNDED: Room = Room { bytes: u64::MAX };

    /// The room that a store has which is alone on `device`. Where at least `enough` bytes are free
    /// nothing depends on how many there are: the room is unbounded, and no file is looked at.
    pub fn of<D: Device>(device: &D, enough: u64) -> Result<Room> {
        // A device that does not tell is taken to have room: it will say when it has not.
        let free = device.free_bytes().unwrap_or(u64::MAX);
        if free >= enough {
            return Ok(Room::UNBOUNDED);
        }
        let mut bytes = free;
        for name in device.list()? {
            bytes = bytes.saturating_add(device.open(&name, Mode::Buffered)?.len()?);
        }
        Ok(if bytes >= enough { Room::UNBOUNDED } else { Room { bytes } })
    }

    /// `bytes`, but at most one part in `part` of the room.
    pub fn at_most(&self, bytes: u64, part: u64) -> u64 {
        bytes.min(self.bytes / part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_device::sim::{SimDevice, SimOptions};

    #[test]
    fn room_is_what_is_free_and_what_is_there_and_only_a_small_one_bounds() {
        let device = SimDevice::new(1, SimOptions::default());
        device.set_capacity(1 << 20);
        let file = device.create("FILE", Mode::Buffered).expect("it is made");
        file.write_at(0, &[7; 256 << 10]).expect("there is room");
        let room = Room::of(&device, 1 << 30).expect("the device tells");
        assert_eq!(room.at_most(1 << 40, 1), 1 << 20, "what is taken counts, too");
        assert_eq!((room.at_most(1 << 40, 16), room.at_most(9, 16)), (64 << 10, 9));
        assert_eq!(Room::of(&device, 512 << 10).expect("it tells"), Room::UNBOUNDED);
        assert_eq!(Room::UNBOUNDED.at_most(1 << 40, 16), 1 << 40);
    }
}
