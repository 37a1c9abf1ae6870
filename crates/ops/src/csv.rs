//! Cells of our CSV. No spreadsheet takes one for a formula, and what is read back is what was written.

/// Letters a spreadsheet takes a formula by.
const FORMULA_STARTS: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\0', '＝', '＋', '－', '＠'];

/// Whether a text begins like a formula, perhaps behind apostrophes: those must come back too.
fn is_formula(text: &str) -> bool {
    text.trim_start_matches('\'').starts_with(FORMULA_STARTS)
}

/// A cell of CSV, quoted where it must be. What a spreadsheet would take for a formula gets an apostrophe in front.
pub(crate) fn cell(text: &str) -> String {
    let apostrophe = if is_formula(text) { "'" } else { "" };
    if apostrophe.is_empty() && !text.contains(['"', ',', '\n', '\r', ' ', ';', '\t']) {
        return text.to_owned();
    }
    format!("\"{apostrophe}{}\"", text.replace('"', "\"\""))
}

/// The text of a cell of ours.
pub(crate) fn from_cell(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if is_formula(text) => text,
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::{cell, from_cell};

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
