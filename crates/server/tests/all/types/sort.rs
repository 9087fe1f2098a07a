//! SORT.

use super::{Compare, Requests, differ, start_engine};
use crate::support::Client;

#[test]
fn sorted_elements_are_those_of_redis() {
    differ(&Requests {
        templates: &[
            "RPUSH K F F F N N",
            "RPUSH K N N S S",
            "ZADD K S F S F S N",
            "SADD K N N S F",
            "SADD K N N N S",
            "SORT K BY nosort STORE L",
            "SORT K BY nosort DESC LIMIT 1 3 STORE L",
            "ZADD K S N S N S N S N",
            "SET w:F V",
            "SET w:N N",
            "HSET h:N F V x V",
            "DEL K",
            "DEL w:N",
            "SORT K",
            "SORT K DESC",
            "SORT K ALPHA",
            "SORT K ALPHA DESC LIMIT N N",
            "SORT K LIMIT N N",
            "SORT K LIMIT 1",
            "SORT K BY w:*",
            "SORT K BY w:* DESC GET # GET w:*",
            "SORT K BY w:* ALPHA GET h:*->x",
            "SORT K BY h:*->x ALPHA LIMIT 0 3",
            "SORT K BY nosort",
            "SORT K BY nosort DESC",
            "SORT K BY nosort LIMIT 1 2 DESC GET w:* GET nothing",
            "SORT K ALPHA GET # GET h:*->F GET h:*-> GET w:*",
            "SORT_RO K ALPHA",
            "SORT_RO K STORE L",
            "SORT K STORE L",
            "SORT K ALPHA STORE L",
            "SORT K BY w:* ALPHA GET w:* STORE L",
            "SORT w:N",
            "SORT K V",
            "LRANGE L 0 -1",
        ],
        // Redis does not say in which order those come whose keys are not there, nor those of a set
        // that is not sorted.
        compare: |line| match line.contains(" BY ") && !line.contains(" STORE ") {
            true => Compare::Shape,
            false => Compare::Exactly,
        },
    });
}

#[test]
fn patterns_are_for_those_who_may_read_all_keys() {
    let (server, _directory) = start_engine("mica");
    let mut client = Client::connect(&server);
    client.ask("RPUSH mine:list 2 1");
    client.ask("ACL SETUSER ann on nopass +@all ~mine:*");
    client.ask("AUTH ann any");
    assert_eq!(client.ask("SORT mine:list BY nosort"), "['2' '1']");
    for option in ["BY", "GET"] {
        let answer = client.ask(&format!("SORT mine:list LIMIT 0 1 {option} yours:*"));
        let wanted =
            format!("-ERR {option} option of SORT denied due to insufficient ACL permissions");
        assert_eq!(answer, wanted);
    }
    assert!(client.ask("SORT mine:list STORE yours").starts_with("-NOPERM"));
    assert_eq!(client.ask("SORT mine:list STORE mine:sorted"), ":2");
    server.stop();
}
