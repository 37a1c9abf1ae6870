//! The pages of links: the list, one link with its form and history, and changes to many at once.

pub(crate) mod bulk;
pub(crate) mod history;
pub(crate) mod link;
pub(crate) mod link_form;
pub(crate) mod list;
pub(crate) mod list_query;
pub(crate) mod recent_clicks;
