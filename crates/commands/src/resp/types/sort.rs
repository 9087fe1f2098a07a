//! SORT: the elements of a list, a set or a sorted set in another order, and what other keys have
//! for them.

use super::room::Room;
use super::score::{integer, parse_range_end};
use super::{Done, Failure, Objects, Opened, TypeCommand};
use crate::burst::Args;
use crate::resp::SYNTAX;
use crate::resp::events::Classes;
use silica_proto::Reply;
use silica_types::{Direction, Hash, Kind, List, Zset};
use std::cmp::Ordering;
use std::ops::Range;

pub(crate) static SORT: TypeCommand = TypeCommand::write(sort);
pub(crate) static SORT_RO: TypeCommand = TypeCommand::read(sort);

/// Memory of an element beside its bytes.
const ELEMENT_BYTES: usize = 64;
/// Bytes of elements that are claimed at a time.
const CLAIMED_BYTES: usize = 1 << 18;
/// Keys that are read at a time.
const KEYS_AT_ONCE: usize = 256;

/// What SORT asks for.
struct Asked<'a> {
    is_descending: bool,
    /// Elements are texts, not numbers.
    is_alpha: bool,
    /// How many are left out first, and how many follow at most.
    start: i64,
    count: i64,
    /// The pattern of the keys whose values decide the order.
    by: Option<Pattern<'a>>,
    /// The order is that of the key.
    is_unsorted: bool,
    /// What is answered in place of an element.
    get: Vec<Pattern<'a>>,
    /// The key that gets the answer.
    target: Option<&'a [u8]>,
}

/// A pattern of keys, or of fields of hashes: the element comes in place of the first star.
#[derive(Clone, Copy)]
enum Pattern<'a> {
    Element,
    /// There is no star: it names nothing.
    Nothing,
    Key {
        before: &'a [u8],
        behind: &'a [u8],
        field: Option<&'a [u8]>,
    },
}

impl<'a> Pattern<'a> {
    fn new(text: &'a [u8]) -> Pattern<'a> {
        if text == b"#" {
            return Pattern::Element;
        }
        let Some(star) = text.iter().position(|byte| *byte == b'*') else {
            return Pattern::Nothing;
        };
        let (before, rest) = (&text[..star], &text[star + 1..]);
        let arrow = rest.windows(2).position(|two| two == b"->").filter(|at| at + 2 < rest.len());
        let (behind, field) = match arrow {
            Some(at) => (&rest[..at], Some(&rest[at + 2..])),
            None => (rest, None),
        };
        Pattern::Key { before, behind, field }
    }

    /// The key that it names for an element.
    fn key(self, element: &[u8]) -> Option<Vec<u8>> {
        match self {
            Pattern::Key { before, behind, .. } => Some([before, element, behind].concat()),
            _ => None,
        }
    }

    /// What it names for an element.
    fn value(self, objects: &mut Objects<'_>, element: &[u8]) -> Done<Option<Vec<u8>>> {
        let Pattern::Key { field, .. } = self else {
            return Ok(matches!(self, Pattern::Element).then(|| element.to_vec()));
        };
        let key = self.key(element).unwrap_or_default();
        match (objects.kind(&key)?, field) {
            (Some(None), None) => Ok(objects.string(&key)?.map(|(value, _)| value)),
            (Some(Some(Kind::Hash)), Some(field)) => {
                let Some(mut opened) = objects.open(&key, Kind::Hash)? else { return Ok(None) };
                let value = Hash::of(&mut opened.object, objects.pages()).get(field);
                objects.close(opened);
                Ok(value?)
            }
            _ => Ok(None),
        }
    }
}

fn parse<'a>(args: Args<'a>) -> Done<Asked<'a>> {
    let mut asked = Asked {
        is_descending: false,
        is_alpha: false,
        start: 0,
        count: -1,
        by: None,
        is_unsorted: false,
        get: Vec::new(),
        target: None,
    };
    let may_store = !args.is(0, "sort_ro");
    let mut at = 2;
    while at < args.len() {
        let left = args.len() - at - 1;
        at += match () {
            () if args.is(at, "asc") || args.is(at, "desc") => {
                asked.is_descending = args.is(at, "desc");
                1
            }
            () if args.is(at, "alpha") => {
                asked.is_alpha = true;
                1
            }
            () if args.is(at, "limit") && left >= 2 => {
                (asked.start, asked.count) =
                    (integer(args.get(at + 1))?, integer(args.get(at + 2))?);
                3
            }
            () if may_store && args.is(at, "store") && left >= 1 => {
                asked.target = Some(args.get(at + 1));
                2
            }
            () if args.is(at, "by") && left >= 1 => {
                let text = args.get(at + 1);
                asked.is_unsorted |= !text.contains(&b'*');
                asked.by = Some(Pattern::new(text));
                2
            }
            () if args.is(at, "get") && left >= 1 => {
                asked.get.push(Pattern::new(args.get(at + 1)));
                2
            }
            () => return Err(Failure::reply(SYNTAX)),
        };
    }
    Ok(asked)
}

/// The places of `len` elements that are asked for.
fn limits(asked: &Asked<'_>, len: u64) -> Range<usize> {
    let start = u64::try_from(asked.start).unwrap_or(0).min(len);
    let count = u64::try_from(asked.count).unwrap_or(len).min(len - start);
    start as usize..(start + count) as usize
}

fn sort(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let mut asked = parse(args)?;
    let key = args.get(1);
    let elements = match objects.kind(key)? {
        None => Vec::new(),
        Some(Some(kind @ (Kind::List | Kind::Set | Kind::Zset))) => {
            if kind == Kind::Set && asked.is_unsorted && asked.target.is_some() {
                // A set has no order that could be kept.
                (asked.is_unsorted, asked.is_alpha, asked.by) = (false, true, None);
            }
            load(objects, args, kind, &asked)?
        }
        Some(_) => return Err(Failure::wrong_type()),
    };
    let elements = if asked.is_unsorted { elements } else { arrange(objects, elements, &asked)? };
    match asked.target {
        Some(target) => store(objects, target, &elements, &asked, reply),
        None => answer(objects, args, &elements, &asked, reply),
    }
}

/// The elements of the key: all of them or, if their order stays, those that are asked for.
fn load(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    kind: Kind,
    asked: &Asked<'_>,
) -> Done<Vec<Vec<u8>>> {
    let Some(mut opened) = objects.open(args.get(1), kind)? else { return Ok(Vec::new()) };
    let len = opened.object.len(0);
    let places = if asked.is_unsorted { limits(asked, len) } else { 0..len as usize };
    let (mut all, mut left) = (Vec::with_capacity(places.len()), places.len());
    let (mut unclaimed, mut refused) = (0, None);
    let mut take = |element: &[u8]| {
        unclaimed += element.len() + ELEMENT_BYTES;
        if unclaimed > CLAIMED_BYTES {
            refused = args.claim(std::mem::take(&mut unclaimed)).err();
        }
        all.push(element.to_vec());
        left -= 1;
        left > 0 && refused.is_none()
    };
    let start = places.start as u64;
    let is_back = asked.is_unsorted && asked.is_descending && kind != Kind::Set;
    let (first, direction) = match is_back {
        true => ((len - 1).saturating_sub(start), Direction::Backward),
        false => (start, Direction::Forward),
    };
    let scanned = match kind {
        _ if places.is_empty() => Ok(()),
        Kind::List => {
            List::of(&mut opened.object, objects.pages()).scan(first, direction, &mut take)
        }
        Kind::Zset => Zset::of(&mut opened.object, objects.pages()).scan(
            first,
            direction,
            &mut |member, _| take(member),
        ),
        _ => opened
            .object
            .tree(0, objects.pages())
            .scan(first, direction, &mut |member, _| take(member)),
    };
    objects.close(opened);
    scanned?;
    refused.map_or(Ok(all), |text| Err(Failure::Reply(text)))
}

/// What decides an element's place.
enum Weight {
    Number(f64),
    Text(Option<Vec<u8>>),
    /// The element itself.
    Element,
}

/// Reads what `pattern` names for `elements`, many keys at a time.
fn prefetch(objects: &mut Objects<'_>, pattern: Pattern<'_>, elements: &[Vec<u8>]) -> Done {
    let keys: Vec<Vec<u8>> = elements.iter().filter_map(|element| pattern.key(element)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    Ok(objects.fetch(&keys)?)
}

fn weight(objects: &mut Objects<'_>, element: &[u8], asked: &Asked<'_>) -> Done<Weight> {
    let value = match asked.by {
        None if asked.is_alpha => return Ok(Weight::Element),
        None => Some(element.to_vec()),
        Some(by) => by.value(objects, element)?,
    };
    if asked.is_alpha {
        return Ok(Weight::Text(value));
    }
    let Some(value) = value else { return Ok(Weight::Number(0.0)) };
    let is_over = |number: &f64| number.is_infinite() && value.iter().any(u8::is_ascii_digit);
    let number = parse_range_end(&value).filter(|number| !is_over(number));
    let text = "ERR One or more scores can't be converted into double";
    number.map(Weight::Number).ok_or_else(|| Failure::reply(text))
}

/// The elements that are asked for, in their order.
fn arrange(
    objects: &mut Objects<'_>,
    elements: Vec<Vec<u8>>,
    asked: &Asked<'_>,
) -> Done<Vec<Vec<u8>>> {
    let mut weighed = Vec::with_capacity(elements.len());
    for some in elements.chunks(KEYS_AT_ONCE) {
        if let Some(by) = asked.by {
            prefetch(objects, by, some)?;
        }
        for element in some {
            weighed.push((weight(objects, element, asked)?, element));
        }
    }
    weighed.sort_by(|(a, one), (b, other)| {
        let order = match (a, b) {
            (Weight::Number(a), Weight::Number(b)) => {
                a.partial_cmp(b).unwrap_or(Ordering::Equal).then_with(|| one.cmp(other))
            }
            (Weight::Text(a), Weight::Text(b)) => a.cmp(b),
            _ => one.cmp(other),
        };
        if asked.is_descending { order.reverse() } else { order }
    });
    let places = limits(asked, weighed.len() as u64);
    Ok(weighed[places].iter().map(|(_, element)| (*element).clone()).collect())
}

/// Calls `each` with what is answered for `elements`, until it returns false.
fn each_answer(
    objects: &mut Objects<'_>,
    elements: &[Vec<u8>],
    asked: &Asked<'_>,
    each: &mut dyn FnMut(Option<&[u8]>) -> bool,
) -> Done {
    for some in elements.chunks(KEYS_AT_ONCE) {
        for pattern in &asked.get {
            prefetch(objects, *pattern, some)?;
        }
        for element in some {
            if asked.get.is_empty() && !each(Some(element)) {
                return Ok(());
            }
            for pattern in &asked.get {
                let value = pattern.value(objects, element)?;
                if !each(value.as_deref()) {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn answer(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    elements: &[Vec<u8>],
    asked: &Asked<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    reply.array(elements.len() * asked.get.len().max(1));
    let mut room = Room::new(args, reply.buffered());
    each_answer(objects, elements, asked, &mut |value| {
        match value {
            Some(value) => reply.bulk(value),
            None => reply.null(),
        }
        room.fits(reply.buffered())
    })?;
    room.finish()
}

/// Makes the answer the list at `target`.
fn store(
    objects: &mut Objects<'_>,
    target: &[u8],
    elements: &[Vec<u8>],
    asked: &Asked<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    let mut values: Vec<Vec<u8>> = Vec::with_capacity(elements.len());
    each_answer(objects, elements, asked, &mut |value| {
        values.push(value.unwrap_or_default().to_vec());
        true
    })?;
    let was_there = objects.remove(target)?;
    objects.tell(&[b"DEL", target]);
    for some in values.chunks(KEYS_AT_ONCE) {
        let mut told = vec![&b"RPUSH"[..], target];
        told.extend(some.iter().map(|value| &value[..]));
        objects.tell(&told);
    }
    if values.is_empty() {
        if was_there {
            objects.event(Classes::GENERIC, "del", target);
        }
    } else {
        let mut opened = objects.open_or_new(target, Kind::List)?;
        push_all(objects, &mut opened, &values)?;
        objects.store(opened)?;
        objects.event(Classes::LIST, "sortstore", target);
    }
    reply.integer(values.len() as i64);
    Ok(())
}

fn push_all(objects: &mut Objects<'_>, opened: &mut Opened, values: &[Vec<u8>]) -> Done {
    let mut list = List::of(&mut opened.object, objects.pages());
    Ok(values.iter().try_for_each(|value| list.push(false, value))?)
}
