//! How a statement comes to its rows, drawn as a tree, and what that took.

use super::failed;
use super::sink::Sink;
use silica::Result;
use silica_sql::sql::{Sql, Statement, ValueRef, Work};
use std::fmt::Write;

/// What is written of plans before a statement's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Nothing,
    /// The plan.
    Plan,
    /// The plan, and the program of SQLite's machine.
    Program,
}

/// A node of a plan.
struct Node {
    number: i64,
    parent: i64,
    text: String,
}

fn integer(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Integer(number) => number,
        _ => 0,
    }
}

/// Writes the tree that `statement`, an EXPLAIN QUERY PLAN, answers.
pub(super) fn show(statement: &mut Statement<'_>, sink: &mut Sink<'_>) -> Result<()> {
    let mut nodes = Vec::new();
    while statement.step().map_err(failed)? {
        let (number, parent) = (integer(statement.value(0)), integer(statement.value(1)));
        nodes.push(Node { number, parent, text: statement.value(3).to_owned().to_string() });
    }
    if nodes.is_empty() {
        return Ok(());
    }
    let mut text = String::from("QUERY PLAN\n");
    draw(&nodes, 0, "", &mut text);
    sink.raw(text.as_bytes())
}

/// Draws what is below node `parent`, each line behind `before`.
fn draw(nodes: &[Node], parent: i64, before: &str, text: &mut String) {
    let mut below = nodes.iter().filter(|node| node.parent == parent).peekable();
    while let Some(node) = below.next() {
        let is_last = below.peek().is_none();
        let sign = if is_last { "`--" } else { "|--" };
        writeln!(text, "{before}{sign}{}", node.text).expect("a string takes all");
        let before = format!("{before}{}", if is_last { "   " } else { "|  " });
        // A node has a number of its own, which is none of those above it.
        if node.number != parent {
            draw(nodes, node.number, &before, text);
        }
    }
}

/// Writes the plan of the first statement of `text`, and the program if that is `shown`.
pub(super) fn explain(sql: &Sql, text: &str, shown: Shown, sink: &mut Sink<'_>) -> Result<()> {
    let asked = format!("EXPLAIN QUERY PLAN {text}");
    if let (Some(mut plan), _) = sql.prepare_first(&asked).map_err(failed)? {
        show(&mut plan, sink)?;
    }
    if shown == Shown::Program
        && let (Some(mut program), _) =
            sql.prepare_first(&format!("EXPLAIN {text}")).map_err(failed)?
    {
        let style = super::show::Style::new(super::Mode::Column, Some(true));
        super::show::show(&mut program, &style, sink)?;
    }
    Ok(())
}

/// Writes what a statement has done.
pub(super) fn show_work(work: Work, sink: &mut Sink<'_>) -> Result<()> {
    let numbers = [
        ("Steps of full scans", work.full_scan_steps),
        ("Sorts", work.sorts),
        ("Rows of automatic indexes", work.automatic_index_rows),
        ("Steps of the machine", work.machine_steps),
        ("Bytes of the statement", work.memory_bytes),
    ];
    for (name, number) in numbers {
        sink.line(format!("{:32} {number}", format!("{name}:")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_a_tree() {
        let node = |number, parent, text: &str| Node { number, parent, text: text.into() };
        let nodes = [
            node(2, 0, "COMPOUND QUERY"),
            node(3, 2, "LEFT-MOST SUBQUERY"),
            node(6, 3, "SCAN t"),
            node(9, 2, "UNION ALL"),
            node(12, 9, "SCAN u"),
        ];
        let mut text = String::new();
        draw(&nodes, 0, "", &mut text);
        let expected = "\
`--COMPOUND QUERY
   |--LEFT-MOST SUBQUERY
   |  `--SCAN t
   `--UNION ALL
      `--SCAN u
";
        assert_eq!(text, expected);
    }
}
