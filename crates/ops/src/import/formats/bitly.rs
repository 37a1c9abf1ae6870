//! The JSON of Bitly's list of links.

use rlinks_core::draft::Input;

use crate::import::record::FieldReader;
use crate::import::row::{Row, code_of_url};

/// The most further addresses of one link.
const MAX_CUSTOM_BITLINKS: usize = 100;

pub(super) fn row(reader: &mut FieldReader, more_codes: &mut Vec<String>) -> Row {
    let code = reader.code("hash", "id").or_else(|| reader.code("hash", "link"));
    let more = reader.list("custombitlinks", &[',']).unwrap_or_default();
    if more.len() > MAX_CUSTOM_BITLINKS {
        reader.push_error::<()>("custom_bitlinks", &format!("has more than {MAX_CUSTOM_BITLINKS} addresses"));
    } else {
        more_codes.extend(more.iter().filter_map(|url| code_of_url(url)));
    }
    Row {
        input: Input {
            code,
            target: reader.text("longurl"),
            title: reader.text("title"),
            tags: reader.list("tags", &[',']),
            metadata: reader.archived(),
            ..Input::default()
        },
        created_at: reader.time("createdat"),
        ..Row::default()
    }
}
