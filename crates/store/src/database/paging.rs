//! Reading in pages.

/// Whether so many rows are a whole page, and more may follow.
pub(crate) fn fills(page: i64, rows: usize) -> bool {
    i64::try_from(rows).is_ok_and(|rows| rows >= page)
}
