//! Rows as structs: what `sqlx::FromRow` derives, without sqlx's macros, which compile both database drivers a second time.

/// Reads a struct from the columns that have its fields' names, on either database. Fields after a `;` are rows themselves and are read from
/// the same columns.
#[macro_export]
macro_rules! from_row {
    ($name:ty { $($field:ident),* $(; $($inner:ident),*)? }) => {
        $crate::from_row!(@on sqlx::sqlite::SqliteRow, $name { $($field),* $(; $($inner),*)? });
        $crate::from_row!(@on sqlx::postgres::PgRow, $name { $($field),* $(; $($inner),*)? });
    };
    (@on $row:ty, $name:ty { $($field:ident),* $(; $($inner:ident),*)? }) => {
        impl sqlx::FromRow<'_, $row> for $name {
            fn from_row(row: &$row) -> Result<Self, sqlx::Error> {
                Ok(Self {
                    $($field: sqlx::Row::try_get(row, stringify!($field))?,)*
                    $($($inner: sqlx::FromRow::from_row(row)?,)*)?
                })
            }
        }
    };
}

pub use crate::from_row;
