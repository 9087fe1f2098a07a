//! Places on the earth: sorted sets whose scores are the numbers of cells.

mod cell;
mod search;

use super::score::{integer, parse_score};
use super::zset::{AddFlags, add, read_zset};
use super::{Done, Failure, Objects, TypeCommand};
use crate::burst::Args;
use crate::resp::SYNTAX;
use cell::Place;
use silica_proto::{Reply, Version};
use silica_types::Zset;

pub(crate) static GEOADD: TypeCommand = TypeCommand::write(geoadd);
pub(crate) static GEOPOS: TypeCommand = TypeCommand::read(geopos);
pub(crate) static GEODIST: TypeCommand = TypeCommand::read(geodist);
pub(crate) static GEOHASH: TypeCommand = TypeCommand::read(geohash);
pub(crate) static GEOSEARCH: TypeCommand = TypeCommand::read(search::geosearch);
pub(crate) static GEOSEARCHSTORE: TypeCommand = TypeCommand::write(search::geosearchstore);
pub(crate) static GEORADIUS: TypeCommand = TypeCommand::write(search::georadius);
pub(crate) static GEORADIUS_RO: TypeCommand = TypeCommand::read(search::georadius_ro);
pub(crate) static GEORADIUSBYMEMBER: TypeCommand = TypeCommand::write(search::georadiusbymember);
pub(crate) static GEORADIUSBYMEMBER_RO: TypeCommand =
    TypeCommand::read(search::georadiusbymember_ro);

/// The place whose longitude and latitude are the arguments from `at` on.
fn parse_place(args: Args<'_>, at: usize) -> Done<Place> {
    let degrees = |at: usize| {
        let degrees = parse_score(args.get(at));
        degrees.ok_or_else(|| Failure::reply("ERR value is not a valid float"))
    };
    let place = Place { longitude: degrees(at)?, latitude: degrees(at + 1)? };
    match place.is_valid() {
        true => Ok(place),
        false => Err(Failure::reply(format!(
            "ERR invalid longitude,latitude pair {:.6},{:.6}",
            place.longitude, place.latitude
        ))),
    }
}

/// Meters in the unit that an argument names.
fn parse_unit(text: &[u8]) -> Done<f64> {
    match &text.to_ascii_lowercase()[..] {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err(Failure::reply("ERR unsupported unit provided. please use M, KM, FT, MI")),
    }
}

/// The place of a member.
fn place_of(zset: &mut Zset<'_>, member: &[u8]) -> silica_base::Result<Option<Place>> {
    Ok(zset.score(member)?.map(Place::of_score))
}

/// Writes degrees with up to 17 digits behind the point.
fn write_degrees(reply: &mut Reply<'_>, degrees: f64) {
    let text = format!("{degrees:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let text = if text == "-0" { "0" } else { text };
    match reply.version() {
        Version::Resp2 => reply.bulk(text.as_bytes()),
        Version::Resp3 => reply.raw().extend_from_slice(format!(",{text}\r\n").as_bytes()),
    }
}

fn write_place(reply: &mut Reply<'_>, place: Place) {
    reply.array(2);
    write_degrees(reply, place.longitude);
    write_degrees(reply, place.latitude);
}

/// Writes a distance, which has four digits behind the point.
fn write_distance(reply: &mut Reply<'_>, distance: f64) {
    reply.bulk(format!("{distance:.4}").as_bytes());
}

fn geoadd(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let mut flags = AddFlags::default();
    let mut first = 2;
    while first < args.len() && ["nx", "xx", "ch"].iter().any(|word| args.is(first, word)) {
        flags.take(args, first);
        first += 1;
    }
    let given = args.len() - first;
    if given == 0 || !given.is_multiple_of(3) || (flags.nx && flags.xx) {
        return Err(Failure::reply(SYNTAX));
    }
    let mut pairs = Vec::with_capacity(given / 3);
    for at in (first..args.len()).step_by(3) {
        pairs.push((parse_place(args, at)?.score(), args.get(at + 2)));
    }
    add(objects, args.get(1), flags, &pairs, reply)
}

/// Answers what `write` writes of each member's place, or `none` of those that are not there.
fn each_place(
    objects: &mut Objects<'_>,
    args: Args<'_>,
    write: impl Fn(&mut Reply<'_>, Place),
    none: impl Fn(&mut Reply<'_>),
    reply: &mut Reply<'_>,
) -> Done {
    reply.array(args.len() - 2);
    let found = read_zset(objects, args.get(1), |zset| {
        for member in args.from(2) {
            match place_of(zset, member)? {
                Some(place) => write(reply, place),
                None => none(reply),
            }
        }
        Ok(())
    })?;
    if found.is_none() {
        args.from(2).for_each(|_| none(reply));
    }
    Ok(())
}

fn geopos(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    each_place(objects, args, write_place, |reply| reply.null_array(), reply)
}

fn geohash(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let write = |reply: &mut Reply<'_>, place: Place| reply.bulk(&place.name());
    each_place(objects, args, write, |reply| reply.null(), reply)
}

fn geodist(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let unit = match args.len() {
        4 => 1.0,
        5 => parse_unit(args.get(4))?,
        _ => return Err(Failure::reply(SYNTAX)),
    };
    let places = read_zset(objects, args.get(1), |zset| {
        Ok((place_of(zset, args.get(2))?, place_of(zset, args.get(3))?))
    })?;
    match places {
        Some((Some(from), Some(to))) => write_distance(reply, from.distance(to) / unit),
        _ => reply.null(),
    }
    Ok(())
}
