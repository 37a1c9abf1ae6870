//! The few pages the public side has: self-contained, without scripts, without anything an attacker could learn from.

use std::fmt::Write as _;

/// The style of every public page. Its hash stands in [`CONTENT_SECURITY_POLICY`]; a test keeps the two together.
const PAGE_STYLE: &str = "html{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:18vh auto 0;padding:0 1.5rem}h1{font-size:1.5rem;margin:0 0 .5rem}p{margin:.5rem 0}.s{opacity:.65}code{font:.95em ui-monospace,monospace;overflow-wrap:anywhere}";

/// Nothing may be loaded, run, framed or sent from a public page; its own style is allowed by hash.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'sha256-IlZDSCbF1IjzzndDvH2cPMegcf9wOkNNB4aiZB9/hzA='; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

/// A small page for an error.
pub fn error(status: u16, message: &str) -> String {
    page(&format!("{status}"), &format!("<h1>{status}</h1><p>{}.</p>", escape(message)))
}

/// What a bare domain shows.
pub fn landing() -> String {
    page(
        "Short links",
        "<h1>Short links live here</h1><p>This address belongs to a set of short links. Add a link's code to it to be taken there.</p>\
         <p class=\"s\">Add a + to a short link to see where it leads without going there.</p>",
    )
}

/// Where a link leads, in plain text, without going there. The host stands out: it is what a reader should check.
pub fn preview(code: &str, target: &str, host: &str) -> String {
    page(
        "Where this link leads",
        &format!(
            "<h1>This link leads to {}</h1><p>The full address is:</p><p><code>{}</code></p><p class=\"s\">Shown for <code>{}</code>. Nothing was counted, and you have not left.</p>",
            escape(host),
            escape(target),
            escape(code)
        ),
    )
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"robots\" content=\"noindex\"><title>{title}</title><style>{PAGE_STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )
}

/// Text inside an element or a quoted attribute. Characters that turn the reading direction are shown as their numbers.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(safe, "[U+{:04X}]", u32::from(letter));
            }
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    #[test]
    fn style_hash_matches_the_content_security_policy() {
        let digest = Sha256::digest(super::PAGE_STYLE.as_bytes());
        let expected = format!("'sha256-{}'", base64(&digest));
        assert!(super::CONTENT_SECURITY_POLICY.contains(&expected), "style-src must be {expected}");
    }

    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let number = chunk.iter().fold(0_u32, |number, &byte| number << 8 | u32::from(byte))
                << (8 * (3 - chunk.len()));
            for place in 0..4 {
                let letter = LETTERS[(number >> (18 - 6 * place) & 63) as usize];
                text.push(if place > chunk.len() { '=' } else { char::from(letter) });
            }
        }
        text
    }

    #[test]
    fn markup_in_a_target_is_escaped() {
        let page = super::preview("x", "https://a/?<script>\"'&\u{202e}", "a");
        assert!(page.contains("https://a/?&lt;script&gt;&quot;&#39;&amp;[U+202E]"), "{page}");
    }
}
