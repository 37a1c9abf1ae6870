//! The tests of the core from outside, in one binary.

mod conformance;
#[path = "../../../../conformance/table.rs"]
mod table;
