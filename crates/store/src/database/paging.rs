//! Reading in pages.

/// Whether so many rows are a whole page, and more may follow.
pub(crate) fn is_full_page(page_size: i64, rows: usize) -> bool {
    i64::try_from(rows).is_ok_and(|rows| rows >= page_size)
}
