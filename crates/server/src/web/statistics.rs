//! Statistics as pages: a panel over a range of days, its charts, and the page of the whole workspace.

pub(crate) mod chart;
pub(crate) mod panel;
pub(crate) mod range;
pub(crate) mod workspace;
