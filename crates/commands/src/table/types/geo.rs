//! Commands on places.

use crate::resp::types::geo;
use crate::table::{Command, ONE, Run, TWO};

pub(super) static COMMANDS: &[Command] = table! {
    "geoadd" -5 "write denyoom" ONE "geo" "3.2.0" Run::Type(&geo::GEOADD),
        "Adds members with their places.";
    "geodist" -4 "readonly" ONE "geo" "3.2.0" Run::Type(&geo::GEODIST),
        "Returns the distance of two members.";
    "geohash" -2 "readonly" ONE "geo" "3.2.0" Run::Type(&geo::GEOHASH),
        "Returns the names of members' cells, as geohash.org has them.";
    "geopos" -2 "readonly" ONE "geo" "3.2.0" Run::Type(&geo::GEOPOS),
        "Returns the places of members.";
    "georadius" -6 "write denyoom movablekeys / stores" ONE "geo" "3.2.0"
        Run::Type(&geo::GEORADIUS), "Returns or stores the members near a place.";
    "georadius_ro" -6 "readonly" ONE "geo" "3.2.10" Run::Type(&geo::GEORADIUS_RO),
        "Returns the members near a place.";
    "georadiusbymember" -5 "write denyoom movablekeys / stores" ONE "geo" "3.2.0"
        Run::Type(&geo::GEORADIUSBYMEMBER), "Returns or stores the members near another one.";
    "georadiusbymember_ro" -5 "readonly" ONE "geo" "3.2.10"
        Run::Type(&geo::GEORADIUSBYMEMBER_RO), "Returns the members near another one.";
    "geosearch" -7 "readonly" ONE "geo" "6.2.0" Run::Type(&geo::GEOSEARCH),
        "Returns the members in a circle or a box.";
    "geosearchstore" -8 "write denyoom / into-first" TWO "geo" "6.2.0"
        Run::Type(&geo::GEOSEARCHSTORE), "Stores the members in a circle or a box.";
};
