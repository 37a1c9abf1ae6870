//! CSV as we write it, and how import reads it back. A cell of text that a spreadsheet would take for a formula gets an apostrophe in
//! front, which import takes off again. Numbers are written as they are: `-5` is no formula.
//!
//! Reading is left to the crate `csv`. Its writer isn't used because it quotes either every cell or only those with a comma, a quote or
//! the end of a line, while some spreadsheets separate at semicolons and tabs too.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Letters a spreadsheet takes a formula by.
const FORMULA_STARTS: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\0', '＝', '＋', '－', '＠'];

/// A cell of a row.
pub enum Cell<'a> {
    Empty,
    /// What people wrote, or may have.
    Text(Cow<'a, str>),
    Integer(i64),
    Float(f64),
    Bool(bool),
}

impl<'a> Cell<'a> {
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    /// The text, or an empty cell.
    pub fn optional_text(text: Option<impl Into<Cow<'a, str>>>) -> Self {
        text.map_or(Self::Empty, Self::text)
    }
}

/// Appends a row, as RFC 4180 has it.
pub fn write_row<'a>(out: &mut String, cells: impl IntoIterator<Item = Cell<'a>>) {
    for (at, cell) in cells.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        // Writing to a string cannot fail.
        let _ = match cell {
            Cell::Empty => Ok(()),
            Cell::Text(text) => write_text(out, &text),
            Cell::Integer(number) => write!(out, "{number}"),
            Cell::Float(number) => write!(out, "{number}"),
            Cell::Bool(value) => write!(out, "{value}"),
        };
    }
    out.push_str("\r\n");
}

fn write_text(out: &mut String, text: &str) -> std::fmt::Result {
    if is_formula(text) {
        write!(out, "\"'{}\"", text.replace('"', "\"\""))
    } else if text.contains(['"', ',', '\n', '\r', ' ', ';', '\t']) {
        write!(out, "\"{}\"", text.replace('"', "\"\""))
    } else {
        out.write_str(text)
    }
}

/// The text of a cell of ours.
pub(crate) fn from_cell(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if is_formula(text) => text,
        _ => cell,
    }
}

/// Whether a text begins like a formula, perhaps behind apostrophes: those must come back too.
fn is_formula(text: &str) -> bool {
    text.trim_start_matches('\'').starts_with(FORMULA_STARTS)
}

#[cfg(test)]
mod tests {
    use super::{Cell, from_cell, write_row};

    fn cell(text: &str) -> String {
        let mut row = String::new();
        write_row(&mut row, [Cell::text(text)]);
        row.trim_end_matches("\r\n").to_owned()
    }

    /// Hostile inputs, S21.
    #[test]
    fn cells_are_never_formulas_and_round_trip() {
        for text in [
            "=1+1",
            "+1",
            "-1",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "\0=1",
            "＝1",
            "'=1",
            "''@x",
            "=cmd|' /C calc'!A0",
        ] {
            let quoted = cell(text);
            assert!(quoted.starts_with("\"'"), "{quoted}");
            let inside = quoted[1..quoted.len() - 1].replace("\"\"", "\"");
            assert_eq!(from_cell(&inside), text);
        }
        // What is quoted hides no formula, and plain words stay as they are.
        assert_eq!(cell("\"=1"), "\"\"\"=1\"");
        assert_eq!(
            (cell("it's"), cell("'quoted'"), from_cell("'quoted'")),
            ("it's".into(), "'quoted'".into(), "'quoted'")
        );
    }
}
