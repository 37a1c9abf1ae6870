//! Words to find a link by. Core splits them for both databases, so both find the same.

use std::fmt::Write as _;

use crate::Link;

/// The most words kept of one link.
const MAX_WORDS: usize = 256;
/// The longest part of a word that counts.
const MAX_WORD_CHARS: usize = 40;

/// The words of a text: lower case, split at everything that is neither letter nor digit, so a host is several words.
///
/// A letter beyond ASCII is written as its number in hexadecimal between two `z`, and a `z` as two. So every word is
/// `[a-z0-9]+`, no tokenizer of any database can split it differently, and a prefix stays a prefix.
pub fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).map(|word| {
        let mut plain = String::with_capacity(word.len());
        for letter in word.chars().take(MAX_WORD_CHARS).flat_map(char::to_lowercase) {
            if letter == 'z' {
                plain.push_str("zz");
            } else if letter.is_ascii_alphanumeric() {
                plain.push(letter);
            } else {
                let _ = write!(plain, "z{:x}z", u32::from(letter));
            }
        }
        plain
    })
}

fn texts(link: &Link) -> impl Iterator<Item = &str> {
    [link.code.as_str(), link.title.as_deref().unwrap_or_default()]
        .into_iter()
        .chain(link.tags.iter().map(String::as_str))
        .chain([link.target.as_str(), link.notes.as_deref().unwrap_or_default()])
}

/// Whether a link has a word beginning with each of these: what both databases say of the words they were given.
pub fn matches(link: &Link, beginnings: &[String]) -> bool {
    let begins = |own: &str, word: &String| own.starts_with(word.as_str());
    if texts(link).map(str::len).sum::<usize>() >= MAX_WORDS {
        let own = index_text(link);
        return beginnings.iter().all(|word| own.split(' ').any(|own| begins(own, word)));
    }
    // So short a text has no more words than are kept.
    let mut found = vec![false; beginnings.len()];
    for own in texts(link).flat_map(words) {
        for (found, word) in found.iter_mut().zip(beginnings) {
            *found |= begins(&own, word);
        }
    }
    found.into_iter().all(|found| found)
}

/// Everything a link is found by: code, title, tags, target, notes, each word once.
pub fn index_text(link: &Link) -> String {
    let mut seen = std::collections::BTreeSet::new();
    for word in texts(link).flat_map(words) {
        seen.insert(word);
        if seen.len() >= MAX_WORDS {
            break;
        }
    }
    seen.into_iter().collect::<Vec<_>>().join(" ")
}

/// The words somebody looks for: at most eight; each must be the beginning of one of the link's words.
pub fn parse_query(text: &str) -> Vec<String> {
    words(text).take(8).collect()
}

#[cfg(test)]
mod tests {
    fn words(text: &str) -> Vec<String> {
        super::words(text).collect()
    }

    #[test]
    fn search_words_split_hosts_and_encode_non_ascii() {
        assert_eq!(
            words("https://Docs.Example.com/a_b?x=1"),
            ["https", "docs", "example", "com", "a", "b", "x", "1"]
        );
        assert_eq!(words("Größe ÄRGER"), ["grzf6zzdfze", "ze4zrger"]);
        assert_eq!(words("Zebra grz"), ["zzebra", "grzz"]);
        assert_eq!(words("\" OR 1=1 -- * NEAR("), ["or", "1", "1", "near"]);
        assert!(words("").is_empty() && words("!!! --").is_empty());
    }
}
