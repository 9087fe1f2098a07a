//! `.lint fkey-indexes`: foreign keys whose check reads the whole table that refers.

use super::failed;
use super::show::quoted;
use super::sink::Sink;
use silica::Result;
use silica_sql::sql::{Sql, Value};

const KEYS: &str = "SELECT s.name, f.id, f.\"table\", \
    (SELECT group_concat(\"from\", char(0)) FROM \
     (SELECT \"from\" FROM pragma_foreign_key_list(s.name) WHERE id = f.id ORDER BY seq)), \
    (SELECT group_concat(\"to\", char(0)) FROM \
     (SELECT \"to\" FROM pragma_foreign_key_list(s.name) WHERE id = f.id ORDER BY seq)) \
    FROM sqlite_schema AS s, pragma_foreign_key_list(s.name) AS f \
    WHERE s.type = 'table' AND f.seq = 0 ORDER BY s.name, f.id";

/// A name as it is where SQL reads it as one, else in quotes.
fn name(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_plain { name.to_string() } else { quoted(name) }
}

fn names(value: &Value) -> Vec<String> {
    match value {
        Value::Text(text) => text.split('\0').map(String::from).collect(),
        _ => Vec::new(),
    }
}

/// Writes the statement that makes an index, for each foreign key that lacks one.
pub(super) fn foreign_keys(sql: &mut Sql, sink: &mut Sink<'_>) -> Result<()> {
    for row in sql.query(KEYS, &[]).map_err(failed)? {
        let [child, _, parent, from, to] = &row[..] else { continue };
        let (child, parent) = (child.to_string(), parent.to_string());
        let columns = names(from);
        let conditions: Vec<String> =
            columns.iter().map(|column| format!("{} = ?", quoted(column))).collect();
        let asked = format!(
            "EXPLAIN QUERY PLAN SELECT rowid FROM {} WHERE {}",
            quoted(&child),
            conditions.join(" AND ")
        );
        // A table without rowids is asked for all of its columns.
        let plan = sql
            .query(&asked, &[])
            .or_else(|_| sql.query(&asked.replacen("rowid", "*", 1), &[]))
            .map_err(failed)?;
        let is_scan = plan.iter().any(|node| node[3].to_string().starts_with("SCAN"));
        if !is_scan {
            continue;
        }
        let list: Vec<String> = columns.iter().map(|column| name(column)).collect();
        let of_parent: Vec<String> = names(to).iter().map(|column| name(column)).collect();
        let of_parent = match of_parent.is_empty() {
            true => name(&parent),
            false => format!("{}({})", name(&parent), of_parent.join(", ")),
        };
        let index = format!("{child}_{}", columns.join("_"));
        sink.line(format!(
            "CREATE INDEX {} ON {}({}); --> {of_parent}",
            name(&index),
            name(&child),
            list.join(", ")
        ))?;
    }
    Ok(())
}
