//! What a server is among others, under the names that redis_exporter gives these figures: so that
//! dashboards and alerts made for Redis show them.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Figures of INFO replication: their field, their name, and what they are.
const GAUGES: &[(&str, &str, &str)] = &[
    ("connected_slaves", "redis_connected_slaves", "replicas that are connected"),
    ("master_repl_offset", "redis_master_repl_offset", "bytes of the replication stream"),
    ("repl_backlog_size", "redis_replication_backlog_bytes", "bytes that the backlog may have"),
    ("repl_backlog_histlen", "redis_repl_backlog_history_bytes", "bytes that the backlog has"),
];

/// Figures of a replica, with the labels of its primary.
const LINK_GAUGES: &[(&str, &str, &str)] = &[
    ("slave_repl_offset", "redis_slave_repl_offset", "bytes of the stream that were applied"),
    ("master_last_io_seconds_ago", "redis_master_last_io_seconds_ago", "since the primary spoke"),
    ("master_sync_in_progress", "redis_master_sync_in_progress", "all data is on its way"),
    ("slave_priority", "redis_slave_priority", "what Sentinel chooses by"),
];

/// Figures of a replica as its primary sees it.
const REPLICA_GAUGES: &[(&str, &str, &str)] = &[
    ("offset", "redis_connected_slave_offset_bytes", "bytes that it has acknowledged"),
    ("lag", "redis_connected_slave_lag_seconds", "seconds since it has acknowledged"),
];

/// The samples of `info`, the text of INFO replication.
pub(super) fn metrics(info: &str) -> String {
    let fields =
        silica_base::compact_map(info.lines().filter_map(|line| line.trim_end().split_once(':')));
    let get = |name: &str| fields.get(name).copied();
    let mut out = String::new();
    let mut gauge = |name: &str, doc: &str, samples: &[(String, &str)]| {
        let samples: Vec<_> = samples.iter().filter(|(_, v)| v.parse::<f64>().is_ok()).collect();
        if samples.is_empty() {
            return;
        }
        let written = writeln!(out, "# HELP {name} {doc}\n# TYPE {name} gauge");
        let each = |(labels, value): &&(String, &str)| writeln!(out, "{name}{labels} {value}");
        written.and_then(|()| samples.iter().try_for_each(each)).expect("a string takes all");
    };
    for (field, name, doc) in GAUGES {
        let samples: Vec<_> = get(field).map(|value| (String::new(), value)).into_iter().collect();
        gauge(name, doc, &samples);
    }
    if let Some(role) = get("role") {
        let is_replica = if role == "slave" { "1" } else { "0" };
        gauge(
            "redis_instance_is_replica",
            "1 if it follows another one",
            &[(String::new(), is_replica)],
        );
    }
    if let (Some(host), Some(port)) = (get("master_host"), get("master_port")) {
        let labels = format!("{{master_host=\"{host}\",master_port=\"{port}\"}}");
        let up = if get("master_link_status") == Some("up") { "1" } else { "0" };
        gauge("redis_master_link_up", "1 if the link is up", &[(labels.clone(), up)]);
        for (field, name, doc) in LINK_GAUGES {
            let samples: Vec<_> =
                get(field).map(|value| (labels.clone(), value)).into_iter().collect();
            gauge(name, doc, &samples);
        }
    }
    let replicas: Vec<BTreeMap<&str, &str>> = (0..)
        .map_while(|n| get(&format!("slave{n}")))
        .map(|line| {
            silica_base::compact_map(line.split(',').filter_map(|pair| pair.split_once('=')))
        })
        .collect();
    for (field, name, doc) in REPLICA_GAUGES {
        let sample = |replica: &BTreeMap<&str, &'_ str>| {
            let get = |name: &str| replica.get(name).copied().unwrap_or_default().to_string();
            let (ip, port, state) = (get("ip"), get("port"), get("state"));
            let labels =
                format!("{{slave_ip=\"{ip}\",slave_port=\"{port}\",slave_state=\"{state}\"}}");
            (labels, get(field))
        };
        let samples: Vec<(String, String)> = replicas.iter().map(sample).collect();
        let samples: Vec<_> = samples.iter().map(|(l, v)| (l.clone(), v.as_str())).collect();
        gauge(name, doc, &samples);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::metrics;

    #[test]
    fn both_sides_have_the_names_of_redis_exporter() {
        let primary = metrics(
            "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
             slave0:ip=10.0.0.2,port=6380,state=online,offset=90,lag=1\r\n\
             slave1:ip=10.0.0.3,port=6380,state=wait_bgsave,offset=0,lag=0\r\n\
             master_repl_offset:100\r\n",
        );
        for line in [
            "redis_connected_slaves 2",
            "redis_master_repl_offset 100",
            "redis_connected_slave_offset_bytes{slave_ip=\"10.0.0.2\",slave_port=\"6380\",\
             slave_state=\"online\"} 90",
            "redis_connected_slave_lag_seconds{slave_ip=\"10.0.0.3\",slave_port=\"6380\",\
             slave_state=\"wait_bgsave\"} 0",
        ] {
            assert!(primary.lines().any(|have| have == line), "{line} in {primary}");
        }
        let replica = metrics(
            "role:slave\r\nmaster_host:db\r\nmaster_port:6379\r\nmaster_link_status:down\r\n\
             master_last_io_seconds_ago:7\r\nslave_repl_offset:55\r\n",
        );
        for line in [
            "redis_master_link_up{master_host=\"db\",master_port=\"6379\"} 0",
            "redis_slave_repl_offset{master_host=\"db\",master_port=\"6379\"} 55",
            "redis_master_last_io_seconds_ago{master_host=\"db\",master_port=\"6379\"} 7",
        ] {
            assert!(replica.lines().any(|have| have == line), "{line} in {replica}");
        }
    }
}
