//! GEOSEARCH and the commands before it: members near a place.

use super::cell::{Place, Shape};
use super::{integer, parse_place, parse_score, parse_unit, place_of, write_distance, write_place};
use crate::burst::Args;
use crate::resp::SYNTAX;
use crate::resp::types::zset::{read_zset, replace};
use crate::resp::types::{Done, Failure, Objects};
use silica_proto::Reply;
use silica_types::{Direction, Kind, ScoreRange, Zset};

/// Memory of a place that was found, beside its member.
const FOUND_BYTES: usize = 64;
/// Bytes of what was found that are claimed at a time.
const CLAIMED_BYTES: usize = 1 << 18;

/// Where a command finds what it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// GEORADIUS: a place, a radius and a unit come first.
    Place,
    /// GEORADIUSBYMEMBER: a member comes first.
    Member,
    /// GEOSEARCH: all is said by options.
    Options,
    /// GEOSEARCHSTORE: the key that gets what is found comes before the one that is searched.
    Store,
}

/// The middle of what is searched.
#[derive(Debug, Clone, Copy)]
enum Middle {
    Place(Place),
    /// A member's place, of a key that is not there.
    Nowhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Ascending,
    Descending,
}

/// What a command asks for.
struct Asked<'a> {
    form: Form,
    middle: Option<Middle>,
    /// FROMMEMBER said it.
    is_from_member: bool,
    shape: Option<Shape>,
    /// Meters in the unit of the answer's distances.
    unit: f64,
    /// Members at most; 0 for all.
    count: u64,
    /// Any that are near enough will do.
    is_any: bool,
    order: Option<Order>,
    with_distance: bool,
    with_score: bool,
    with_place: bool,
    /// The key that gets what is found.
    target: Option<&'a [u8]>,
    /// It gets distances as scores.
    stores_distance: bool,
}

/// A member that was found.
struct Found {
    member: Vec<u8>,
    score: f64,
    place: Place,
    /// Meters from the middle.
    distance: f64,
}

macro_rules! commands {
    ($($name:ident $form:expr, $may_store:expr;)*) => {
        $(pub(super) fn $name(
            objects: &mut Objects<'_>,
            args: Args<'_>,
            reply: &mut Reply<'_>,
        ) -> Done {
            search(objects, args, ($form, $may_store), reply)
        })*
    };
}

commands! {
    georadius Form::Place, true;
    georadius_ro Form::Place, false;
    georadiusbymember Form::Member, true;
    georadiusbymember_ro Form::Member, false;
    geosearch Form::Options, false;
    geosearchstore Form::Store, false;
}

fn search(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    (form, may_store): (Form, bool),
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.get(if form == Form::Store { 2 } else { 1 });
    let is_there = match objects.kind(key)? {
        None => false,
        Some(Some(Kind::Zset)) => true,
        Some(_) => return Err(Failure::wrong_type()),
    };
    let asked = parse(objects, args, (form, may_store), is_there.then_some(key))?;
    let found = match (asked.middle, asked.shape) {
        (Some(Middle::Place(middle)), Some(shape)) if is_there => {
            find(objects, args, key, (middle, shape), &asked)?
        }
        _ => Vec::new(),
    };
    answer(objects, found, &asked, reply)
}

/// Finds the members of `shape` around `middle`, in the order that is asked for.
fn find(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    key: &[u8],
    (middle, shape): (Place, Shape),
    asked: &Asked<'_>,
) -> Done<Vec<Found>> {
    let limit = if asked.is_any { asked.count as usize } else { usize::MAX };
    let (mut found, mut unclaimed, mut refused) = (Vec::new(), 0, None);
    read_zset(objects, key, |zset| {
        for cell in shape.cells(middle) {
            let (min, max) = cell.scores();
            let range = ScoreRange { min, is_above_min: false, max, is_below_max: true };
            let ranks = zset.ranks_of_scores(&range)?;
            let mut left = ranks.end - ranks.start;
            if left == 0 || found.len() >= limit {
                continue;
            }
            zset.scan(ranks.start, Direction::Forward, &mut |member, score| {
                let place = Place::of_score(score);
                if let Some(distance) = shape.distance(middle, place) {
                    unclaimed += member.len() + FOUND_BYTES;
                    if unclaimed > CLAIMED_BYTES {
                        refused = args.claim(std::mem::take(&mut unclaimed)).err();
                    }
                    found.push(Found { member: member.to_vec(), score, place, distance });
                }
                left -= 1;
                left > 0 && found.len() < limit && refused.is_none()
            })?;
        }
        Ok(())
    })?;
    if let Some(text) = refused {
        return Err(Failure::Reply(text));
    }
    let by_distance = |a: &Found, b: &Found| a.distance.total_cmp(&b.distance);
    match asked.order {
        None => {}
        Some(Order::Ascending) => silica_base::compact_sort_by(&mut found, by_distance),
        Some(Order::Descending) => {
            silica_base::compact_sort_by(&mut found, |a, b| by_distance(b, a))
        }
    }
    if asked.count > 0 {
        found.truncate(usize::try_from(asked.count).unwrap_or(usize::MAX));
    }
    Ok(found)
}

fn answer(
    objects: &mut Objects<'_>,
    found: Vec<Found>,
    asked: &Asked<'_>,
    reply: &mut Reply<'_>,
) -> Done {
    if let Some(target) = asked.target {
        let is_search = matches!(asked.form, Form::Options | Form::Store);
        let event = if is_search { "geosearchstore" } else { "georadiusstore" };
        let elements = found.iter().map(|one| {
            let distance = one.distance / asked.unit;
            (&one.member[..], if asked.stores_distance { distance } else { one.score })
        });
        let len = replace(objects, target, elements, event)?;
        reply.integer(len as i64);
        return Ok(());
    }
    reply.array(found.len());
    let options = [asked.with_distance, asked.with_score, asked.with_place];
    let options = options.into_iter().filter(|is_asked| *is_asked).count();
    for one in found {
        if options > 0 {
            reply.array(1 + options);
        }
        reply.bulk(&one.member);
        if asked.with_distance {
            write_distance(reply, one.distance / asked.unit);
        }
        if asked.with_score {
            reply.integer(one.score as i64);
        }
        if asked.with_place {
            write_place(reply, one.place);
        }
    }
    Ok(())
}

/// A length in an argument, with the unit's meters.
fn parse_length(text: &[u8], what: &str) -> Done<f64> {
    parse_score(text).ok_or_else(|| Failure::Reply(format!("ERR need numeric {what}")))
}

/// The radius of a circle and its unit, which are the arguments from `at` on.
fn parse_circle(args: Args<'_>, at: usize) -> Done<(Shape, f64)> {
    let radius = parse_length(args.get(at), "radius")?;
    if radius < 0.0 {
        return Err(Failure::reply("ERR radius cannot be negative"));
    }
    let unit = parse_unit(args.get(at + 1))?;
    Ok((Shape::Circle(radius * unit), unit))
}

/// The width and the height of a box and their unit, which are the arguments from `at` on.
fn parse_box(args: Args<'_>, at: usize) -> Done<(Shape, f64)> {
    let width = parse_length(args.get(at), "width")?;
    let height = parse_length(args.get(at + 1), "height")?;
    if width < 0.0 || height < 0.0 {
        return Err(Failure::reply("ERR height or width cannot be negative"));
    }
    let unit = parse_unit(args.get(at + 2))?;
    Ok((Shape::Box(width * unit, height * unit), unit))
}

/// The place of `member`, if there is a sorted set to look into.
fn middle_of(objects: &mut Objects<'_>, key: Option<&[u8]>, member: &[u8]) -> Done<Middle> {
    let Some(key) = key else { return Ok(Middle::Nowhere) };
    let read = |zset: &mut Zset<'_>| place_of(zset, member);
    match read_zset(objects, key, read)?.flatten() {
        Some(place) => Ok(Middle::Place(place)),
        None => Err(Failure::reply("ERR could not decode requested zset member")),
    }
}

/// Reads the arguments; `key` is that of the sorted set, if there is one.
fn parse<'a>(
    objects: &mut Objects<'_>,
    args: Args<'a>,
    (form, may_store): (Form, bool),
    key: Option<&[u8]>,
) -> Done<Asked<'a>> {
    let mut asked = Asked {
        form,
        middle: None,
        is_from_member: false,
        shape: None,
        unit: 1.0,
        count: 0,
        is_any: false,
        order: None,
        with_distance: false,
        with_score: false,
        with_place: false,
        target: (form == Form::Store).then(|| args.get(1)),
        stores_distance: false,
    };
    let first = match form {
        Form::Place => {
            asked.middle = Some(Middle::Place(parse_place(args, 2)?));
            let (shape, unit) = parse_circle(args, 4)?;
            (asked.shape, asked.unit) = (Some(shape), unit);
            6
        }
        Form::Member => {
            asked.middle = Some(middle_of(objects, key, args.get(2))?);
            // Nobody reads the radius of a key that is not there.
            if key.is_some() {
                let (shape, unit) = parse_circle(args, 3)?;
                (asked.shape, asked.unit) = (Some(shape), unit);
            }
            5
        }
        Form::Options => 2,
        Form::Store => 3,
    };
    let mut at = first;
    while at < args.len() {
        at += match asked.take_word(args, at, may_store)? {
            0 => asked.take_shape(objects, args, at, key)?,
            taken => taken,
        };
    }
    asked.check(args)?;
    if asked.count > 0 && !asked.is_any && asked.order.is_none() {
        // The nearest ones are meant.
        asked.order = Some(Order::Ascending);
    }
    Ok(asked)
}

impl<'a> Asked<'a> {
    /// Notes an option that all forms have, and returns how many arguments it is; 0 if it is none.
    fn take_word(&mut self, args: Args<'a>, at: usize, may_store: bool) -> Done<usize> {
        let has_value = at + 1 < args.len();
        match () {
            () if args.is(at, "withdist") => self.with_distance = true,
            () if args.is(at, "withhash") => self.with_score = true,
            () if args.is(at, "withcoord") => self.with_place = true,
            () if args.is(at, "any") => self.is_any = true,
            () if args.is(at, "asc") => self.order = Some(Order::Ascending),
            () if args.is(at, "desc") => self.order = Some(Order::Descending),
            () if args.is(at, "count") && has_value => {
                let count = integer(args.get(at + 1))?;
                let count = u64::try_from(count).ok().filter(|count| *count > 0);
                self.count = count.ok_or_else(|| Failure::reply("ERR COUNT must be > 0"))?;
                return Ok(2);
            }
            () if may_store && has_value && (args.is(at, "store") || args.is(at, "storedist")) => {
                (self.target, self.stores_distance) =
                    (Some(args.get(at + 1)), args.is(at, "storedist"));
                return Ok(2);
            }
            () if self.form == Form::Store && args.is(at, "storedist") => {
                self.stores_distance = true;
            }
            () => return Ok(0),
        }
        Ok(1)
    }

    /// Notes an option of GEOSEARCH, and returns how many arguments it is.
    fn take_shape(
        &mut self,
        objects: &mut Objects<'_>,
        args: Args<'a>,
        at: usize,
        key: Option<&[u8]>,
    ) -> Done<usize> {
        let left = args.len() - at - 1;
        let is_search = matches!(self.form, Form::Options | Form::Store);
        let has_place = self.middle.is_some() && !self.is_from_member;
        let has_box = matches!(self.shape, Some(Shape::Box(..)));
        let has_circle = matches!(self.shape, Some(Shape::Circle(_)));
        match () {
            () if !is_search => Err(Failure::reply(SYNTAX)),
            () if args.is(at, "frommember") && left >= 1 && !has_place => {
                self.middle = Some(middle_of(objects, key, args.get(at + 1))?);
                self.is_from_member = true;
                Ok(2)
            }
            () if args.is(at, "fromlonlat") && left >= 2 && !self.is_from_member => {
                self.middle = Some(Middle::Place(parse_place(args, at + 1)?));
                Ok(3)
            }
            () if args.is(at, "byradius") && left >= 2 && !has_box => {
                let (shape, unit) = parse_circle(args, at + 1)?;
                (self.shape, self.unit) = (Some(shape), unit);
                Ok(3)
            }
            () if args.is(at, "bybox") && left >= 3 && !has_circle => {
                let (shape, unit) = parse_box(args, at + 1)?;
                (self.shape, self.unit) = (Some(shape), unit);
                Ok(4)
            }
            () => Err(Failure::reply(SYNTAX)),
        }
    }

    /// Fails if the options do not go together.
    fn check(&self, args: Args<'_>) -> Done {
        let is_search = matches!(self.form, Form::Options | Form::Store);
        let name = || String::from_utf8_lossy(args.get(0)).into_owned();
        let text = match () {
            () if self.target.is_some()
                && (self.with_distance || self.with_score || self.with_place) =>
            {
                let who = match self.form {
                    Form::Store => "GEOSEARCHSTORE",
                    _ => "STORE option in GEORADIUS",
                };
                format!("{who} is not compatible with WITHDIST, WITHHASH and WITHCOORD options")
            }
            () if is_search && self.middle.is_none() => {
                format!("exactly one of FROMMEMBER or FROMLONLAT can be specified for {}", name())
            }
            () if is_search && self.shape.is_none() => {
                format!("exactly one of BYRADIUS and BYBOX can be specified for {}", name())
            }
            () if self.is_any && self.count == 0 => {
                "the ANY argument requires COUNT argument".to_string()
            }
            () => return Ok(()),
        };
        Err(Failure::Reply(format!("ERR {text}")))
    }
}
