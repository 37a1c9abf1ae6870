//! The JSON of Bitly's list of links.

use rlinks_core::draft::Input;

use crate::import::record::Taker;
use crate::import::row::{Row, code_of_url};

/// The most further addresses of one link.
const MOST_ADDRESSES: usize = 100;

pub(super) fn row(taker: &mut Taker, more_codes: &mut Vec<String>) -> Row {
    let code = taker.code("hash", "id").or_else(|| taker.code("hash", "link"));
    let more = taker.list("custombitlinks", &[',']).unwrap_or_default();
    if more.len() > MOST_ADDRESSES {
        taker.wrong::<()>("custom_bitlinks", &format!("has more than {MOST_ADDRESSES} addresses"));
    } else {
        more_codes.extend(more.iter().filter_map(|url| code_of_url(url)));
    }
    Row {
        input: Input {
            code,
            target: taker.text("longurl"),
            title: taker.text("title"),
            tags: taker.list("tags", &[',']),
            metadata: taker.archived(),
            ..Input::default()
        },
        created_at: taker.time("createdat"),
        ..Row::default()
    }
}
