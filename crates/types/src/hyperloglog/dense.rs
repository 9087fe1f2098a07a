//! Registers of 6 bits, the first one in the lowest bits of the first byte.

use super::REGISTERS;

/// Bits of a register.
const BITS: usize = 6;
/// Bytes of all registers.
pub(super) const BYTES: usize = REGISTERS * BITS / 8;

/// The value of a register.
pub(super) fn get(registers: &[u8], index: usize) -> u8 {
    let (at, shift) = (index * BITS / 8, index * BITS % 8);
    let next = registers.get(at + 1).copied().unwrap_or(0);
    ((u16::from_le_bytes([registers[at], next]) >> shift) & 0x3f) as u8
}

/// Sets a register to `value` if that is greater; true if it is.
pub(super) fn raise(registers: &mut [u8], index: usize, value: u8) -> bool {
    if get(registers, index) >= value {
        return false;
    }
    let (at, shift) = (index * BITS / 8, index * BITS % 8);
    let keep = !(0x3f_u16 << shift);
    let next = registers.get(at + 1).copied().unwrap_or(0);
    let word = u16::from_le_bytes([registers[at], next]) & keep | u16::from(value) << shift;
    let [low, high] = word.to_le_bytes();
    registers[at] = low;
    if let Some(next) = registers.get_mut(at + 1) {
        *next = high;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_do_not_touch_each_other() {
        let mut registers = vec![0; BYTES];
        let value = |index: usize| (index * 7 % 52) as u8;
        for index in 0..REGISTERS {
            assert_eq!(raise(&mut registers, index, value(index)), value(index) > 0);
        }
        for index in 0..REGISTERS {
            assert_eq!(get(&registers, index), value(index));
            assert!(!raise(&mut registers, index, value(index)));
        }
    }
}
