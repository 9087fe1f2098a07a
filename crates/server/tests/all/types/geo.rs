//! Places.

use super::{Compare, Requests, differ};

/// Members of one place come in any order.
fn compare(line: &str) -> Compare {
    let is_search = line.starts_with("GEOSEARCH ") || line.starts_with("GEORADIUS");
    if is_search { Compare::Unordered } else { Compare::Exactly }
}

#[test]
fn places_are_those_of_redis() {
    differ(&Requests {
        templates: &[
            "GEOADD K X Y F X Y F X Y F",
            "GEOADD K X Y F X Y F X Y F X Y F X Y F X Y F",
            "GEOADD K NX CH X Y F X Y F",
            "GEOADD K XX X Y F",
            "GEOADD K X 86 F",
            "GEOADD K NX XX X Y F",
            "GEOADD K X Y",
            "GEOADD K X V F",
            "ZREM K F F",
            "ZRANGE K 0 -1 WITHSCORES",
            "GEOPOS K F F",
            "GEOHASH K F F F",
            "GEODIST K F F",
            "GEODIST K F F KM",
            "GEODIST K F F mi",
            "GEODIST K F F x",
        ],
        compare,
    });
}

#[test]
fn what_is_near_a_place_is_that_of_redis() {
    differ(&Requests {
        templates: &[
            "GEOADD K X Y F X Y F X Y F",
            "GEOADD K X Y F X Y F X Y F X Y F X Y F X Y F",
            "GEOADD K X Y F X Y F X Y F X Y F X Y F X Y F",
            "ZREM K F",
            "GEOSEARCH K FROMMEMBER F BYRADIUS D KM ASC",
            "GEOSEARCH K FROMLONLAT X Y BYRADIUS D KM WITHDIST WITHCOORD WITHHASH",
            "GEOSEARCH K FROMLONLAT X Y BYRADIUS D KM COUNT 3",
            "GEOSEARCH K FROMLONLAT X Y BYBOX D D KM DESC COUNT N",
            "GEOSEARCH K FROMMEMBER F BYBOX D D MI WITHDIST",
            "GEOSEARCH K FROMMEMBER F FROMLONLAT X Y BYRADIUS D KM",
            "GEOSEARCH K FROMLONLAT X Y ASC COUNT 1",
            "GEOSEARCH K BYRADIUS D KM ASC COUNT 1 ANY",
            "GEOSEARCH K FROMLONLAT X Y BYRADIUS N M ANY",
            "GEOSEARCH K FROMLONLAT X Y BYRADIUS D ly",
            "GEOSEARCHSTORE L K FROMMEMBER F BYRADIUS D KM",
            "GEOSEARCHSTORE L K FROMLONLAT X Y BYBOX D D KM STOREDIST",
            "GEOSEARCHSTORE L K FROMLONLAT X Y BYBOX D D KM WITHDIST",
            "GEORADIUS K X Y D KM WITHDIST ASC",
            "GEORADIUS K X Y D FT COUNT N",
            "GEORADIUS K X Y D KM STORE L",
            "GEORADIUS K X Y D KM STOREDIST M COUNT 5",
            "GEORADIUS K X Y D KM STORE L WITHDIST",
            "GEORADIUS_RO K X Y D KM STORE L",
            "GEORADIUS_RO K X Y D KM WITHHASH",
            "GEORADIUSBYMEMBER K F D KM",
            "GEORADIUSBYMEMBER K F D KM STORE L DESC",
            "GEORADIUSBYMEMBER_RO K F D KM WITHCOORD COUNT 2",
            "ZRANGE L 0 -1 WITHSCORES",
            "SET K V",
        ],
        compare,
    });
}
