//! The tests of the command line and of the repository itself, in one binary: one link instead of many.

mod tidy;
