//! `math.random`: the same numbers for every run of a script, those of the function `lrand48`.

use crate::failure::{bad_argument, number_argument};
use crate::shared::Shared;
use mlua::{Lua, MultiValue, Result, Table, Value};
use std::rc::Rc;

/// The generator's state for a seed.
pub(crate) fn seeded(seed: i32) -> u64 {
    u64::from(seed as u32) << 16 | 0x330E
}

/// The next number, below 1.
fn next(shared: &Shared) -> f64 {
    const MAX: u64 = i32::MAX as u64;
    let state = shared.random.get().wrapping_mul(0x5_DEEC_E66D).wrapping_add(11) & ((1 << 48) - 1);
    shared.random.set(state);
    ((state >> 17) % MAX) as f64 / MAX as f64
}

/// Adds `random` and `randomseed`.
pub(super) fn add(lua: &Lua, ours: &Table, shared: &Rc<Shared>) -> Result<()> {
    let numbers = Rc::clone(shared);
    let random = move |lua: &Lua, args: MultiValue| {
        let args: Vec<Value> = args.into_iter().collect();
        let random = next(&numbers);
        let integer = |at| number_argument(lua, &args, at, "random").map(f64::floor);
        let (low, high) = match args.len() {
            0 => return Ok(random),
            1 => (1.0, integer(0)?),
            2 => (integer(0)?, integer(1)?),
            _ => return crate::failure::raise(lua, "wrong number of arguments"),
        };
        if low > high {
            return bad_argument(lua, args.len(), "random", "interval is empty");
        }
        Ok((random * (high - low + 1.0)).floor() + low)
    };
    ours.raw_set("random", lua.create_function(random)?)?;
    let numbers = Rc::clone(shared);
    let seed = move |lua: &Lua, args: MultiValue| {
        let args: Vec<Value> = args.into_iter().collect();
        let seed = number_argument(lua, &args, 0, "randomseed")?;
        numbers.random.set(seeded(seed as i64 as i32));
        Ok(())
    };
    ours.raw_set("randomseed", lua.create_function(seed)?)
}
