//! Data out: the statements that make a database again.

use super::failed;
use super::show::{literal, quoted};
use super::sink::Sink;
use silica::Result;
use silica_sql::sql::{Sql, Value};

const TABLES: &str = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql IS NOT NULL \
                      AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name LIKE ? ORDER BY rowid";
const OTHERS: &str = "SELECT sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL AND \
                      tbl_name LIKE ? ORDER BY type = 'trigger', rowid";
const STATISTICS: &str = "SELECT name FROM sqlite_schema WHERE name IN ('sqlite_stat1', \
                          'sqlite_stat4') ORDER BY name";

/// Writes statements that make the database again, here or in SQLite.
pub(super) fn dump(sql: &mut Sql, pattern: &str, sink: &mut Sink<'_>) -> Result<()> {
    sink.line("PRAGMA foreign_keys=OFF;")?;
    sink.line("BEGIN TRANSACTION;")?;
    let mut has_virtual = false;
    for table in sql.query(TABLES, &[pattern.into()]).map_err(failed)? {
        let (name, made_by) = (table[0].to_string(), table[1].to_string());
        if made_by.to_ascii_uppercase().starts_with("CREATE VIRTUAL") {
            // Its rows are in tables of its own, which come, too. CREATE would make these.
            if !std::mem::replace(&mut has_virtual, true) {
                sink.line("PRAGMA writable_schema=ON;")?;
            }
            let [name, made_by] = [name, made_by].map(|text| of_text(&text));
            sink.line(format!(
                "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) \
                 VALUES('table',{name},{name},0,{made_by});"
            ))?;
            continue;
        }
        sink.line(format!("{made_by};"))?;
        rows(sql, &name, sink)?;
    }
    let has_sequences = "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'";
    if !sql.query(has_sequences, &[]).map_err(failed)?.is_empty() {
        sink.line("DELETE FROM sqlite_sequence;")?;
        rows(sql, "sqlite_sequence", sink)?;
    }
    let statistics = sql.query(STATISTICS, &[]).map_err(failed)?;
    if !statistics.is_empty() && pattern == "%" {
        sink.line("ANALYZE sqlite_schema;")?;
        for table in statistics {
            rows(sql, &table[0].to_string(), sink)?;
        }
    }
    for other in sql.query(OTHERS, &[pattern.into()]).map_err(failed)? {
        sink.line(format!("{};", other[0]))?;
    }
    if has_virtual {
        sink.line("PRAGMA writable_schema=RESET;")?;
    }
    sink.line("COMMIT;")
}

fn of_text(text: &str) -> String {
    literal(Value::from(text).as_ref())
}

/// Writes the rows of a table, without what it makes of other columns.
fn rows(sql: &mut Sql, table: &str, sink: &mut Sink<'_>) -> Result<()> {
    let columns = "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0";
    let columns = sql.query(columns, &[table.into()]).map_err(failed)?;
    let names: Vec<String> = columns.iter().map(|row| quoted(&row[0].to_string())).collect();
    // By an index that has all columns they would come in its order.
    let select = format!("SELECT {} FROM {} NOT INDEXED", names.join(","), quoted(table));
    let mut statement = sql.prepare(&select).map_err(failed)?;
    let into = format!("INSERT INTO {}({})", quoted(table), names.join(","));
    while statement.step().map_err(failed)? {
        let values: Vec<String> = (0..names.len()).map(|at| literal(statement.value(at))).collect();
        sink.line(format!("{into} VALUES({});", values.join(",")))?;
    }
    Ok(())
}
