//! What nodes say of themselves and of each other about once a second: how far their data is, and
//! who does not answer them. It is shown (CLUSTER NODES, SHARDS, INFO, COUNT-FAILURE-REPORTS) and
//! decides nothing.

use super::map::{Map, Node};
use super::role::is_loading;
use super::{Cluster, lock};
use crate::service::Service;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Milliseconds after which a report counts no more: five reports were missed.
const FRESH_MS: u64 = 5_000;

/// What a node has said for the last time.
#[derive(Debug, Clone)]
struct Report {
    at_ms: u64,
    offset: u64,
    is_loading: bool,
    /// Who does not answer it.
    down: Vec<String>,
}

/// The last report of each node.
#[derive(Default)]
pub(crate) struct Reports(Mutex<BTreeMap<String, Report>>);

/// How a node is, as far as this one knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    /// It does not answer this node.
    Unheard,
    /// It does not answer most of the primaries.
    Failed,
}

impl Cluster {
    /// What this node says in `map`: its id, its offset, whether it loads, and who does not answer.
    pub(super) fn report(&self, service: &Service, map: &Map) -> Vec<Vec<u8>> {
        let offset = service.replication.offset().to_string();
        let state = if is_loading(service) { "loading" } else { "online" };
        let mut words: Vec<Vec<u8>> =
            ["CLUSTERX", "REPORT", &map.me, &offset, state].map(|w| w.as_bytes().to_vec()).into();
        let down = map.nodes.keys().filter(|id| **id != map.me && !self.links.is_up(id));
        words.extend(down.map(|id| id.clone().into_bytes()));
        words
    }

    /// Takes what node `id` says. Strangers are not listened to.
    pub(crate) fn take_report(&self, service: &Service, id: &str, words: &[String]) {
        let [offset, state, down @ ..] = words else { return };
        if self.map().nodes.contains_key(id) {
            let report = Report {
                at_ms: service.monotonic_ms(),
                offset: offset.parse().unwrap_or(0),
                is_loading: state == "loading",
                down: down.to_vec(),
            };
            lock(&self.links.reports.0).insert(id.to_string(), report);
        }
    }

    /// Nodes, but this one, that have said lately that node `id` does not answer them.
    pub(crate) fn failure_reports(&self, service: &Service, map: &Map, id: &str) -> Vec<String> {
        let since_ms = service.monotonic_ms().saturating_sub(FRESH_MS);
        let reports = lock(&self.links.reports.0);
        let says_so = |(by, report): &(&String, &Report)| {
            map.nodes.contains_key(*by)
                && report.at_ms >= since_ms
                && report.down.iter().any(|down| down == id)
        };
        reports.iter().filter(says_so).map(|(by, _)| by.clone()).collect()
    }

    /// How `node` is.
    pub(crate) fn health(&self, service: &Service, map: &Map, node: &Node) -> Health {
        if node.id == map.me || self.links.is_up(&node.id) {
            return Health::Up;
        }
        let is_serving = |node: &Node| node.primary.is_none() && !node.slots.is_empty();
        let serving = map.nodes.values().filter(|node| is_serving(node)).count();
        let counts = |id: &String| map.nodes.get(id).is_some_and(is_serving);
        let reports = self.failure_reports(service, map, &node.id);
        let by = reports.iter().filter(|id| counts(id)).count() + usize::from(is_serving(map.me()));
        if 2 * by > serving { Health::Failed } else { Health::Unheard }
    }

    /// The offset of `node`'s data, and whether it is whole.
    pub(crate) fn progress(&self, service: &Service, map: &Map, node: &Node) -> (u64, bool) {
        if node.id == map.me {
            return (service.replication.offset(), !is_loading(service));
        }
        let reports = lock(&self.links.reports.0);
        reports.get(&node.id).map_or((0, true), |report| (report.offset, !report.is_loading))
    }
}
