//! Times of a stream that are counted from when they arrive, as Redis up to 6.2 sends them.

use silica_proto::parse_i64;

/// The request of `args` with a time of expiry instead of the milliseconds or seconds from
/// `now_ms` on; `None` if it has none.
///
/// The engines' clock of a replica is held back, and so nothing may be counted from there.
pub(super) fn absolute(args: &[&[u8]], now_ms: u64) -> Option<Vec<Vec<u8>>> {
    let is = |at: usize, word: &str| {
        args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    };
    let at = |place: usize, unit_ms: u64| {
        let count = args.get(place).and_then(|text| parse_i64(text))?;
        let at = now_ms.checked_add_signed(count.checked_mul(unit_ms as i64)?)?;
        Some(at.to_string().into_bytes())
    };
    let owned = |args: &[&[u8]]| args.iter().map(|arg| arg.to_vec()).collect::<Vec<_>>();
    let unit_ms = |is_ms: bool| if is_ms { 1 } else { 1000 };
    if args.len() >= 3 && (is(0, "expire") || is(0, "pexpire")) {
        let mut all = vec![b"PEXPIREAT".to_vec(), args[1].to_vec()];
        all.push(at(2, unit_ms(is(0, "pexpire")))?);
        all.extend(owned(&args[3..]));
        return Some(all);
    }
    if args.len() == 4 && (is(0, "setex") || is(0, "psetex")) {
        let at = at(2, unit_ms(is(0, "psetex")))?;
        return Some(vec![
            b"SET".to_vec(),
            args[1].to_vec(),
            args[3].to_vec(),
            b"PXAT".to_vec(),
            at,
        ]);
    }
    if args.len() >= 5 && is(0, "set") {
        let place = (3..args.len() - 1).find(|place| is(*place, "ex") || is(*place, "px"))?;
        let mut all = owned(args);
        (all[place], all[place + 1]) = (b"PXAT".to_vec(), at(place + 1, unit_ms(is(place, "px")))?);
        return Some(all);
    }
    let is_restore = args.len() >= 4 && (is(0, "restore") || is(0, "restore-asking"));
    if is_restore && args[2] != b"0" && !(4..args.len()).any(|place| is(place, "absttl")) {
        let mut all = owned(args);
        all[2] = at(2, 1)?;
        all.push(b"ABSTTL".to_vec());
        return Some(all);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let Some(made) = absolute(&args, 1_000_000) else { return "as it is".into() };
        made.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_counted_from_now_becomes_a_time() {
        for (line, wanted) in [
            ("EXPIRE k 10", "PEXPIREAT k 1010000"),
            ("pexpire k 10 NX", "PEXPIREAT k 1000010 NX"),
            ("pexpire k -10", "PEXPIREAT k 999990"),
            ("SETEX k 10 v", "SET k v PXAT 1010000"),
            ("PSETEX k 10 v", "SET k v PXAT 1000010"),
            ("SET k v EX 10 NX", "SET k v PXAT 1010000 NX"),
            ("SET k v NX px 10", "SET k v NX PXAT 1000010"),
            ("RESTORE k 5 payload", "RESTORE k 1000005 payload ABSTTL"),
            ("RESTORE k 0 payload REPLACE", "as it is"),
            ("RESTORE k 5 payload ABSTTL", "as it is"),
            ("SET k v PXAT 10", "as it is"),
            ("SET k ex", "as it is"),
            ("EXPIRE k x", "as it is"),
            ("EXPIRE k 9223372036854775807", "as it is"),
        ] {
            assert_eq!(made(line), wanted, "{line}");
        }
    }
}
