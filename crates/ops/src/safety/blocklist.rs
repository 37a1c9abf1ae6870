//! The operator's own list of what no link may lead to: a text file, read again when it is replaced.
//!
//! | a line | what it blocks |
//! |---|---|
//! | `evil.example` | that domain and everything below it |
//! | `evil.example/folder` | that page and everything below it, on that host alone |
//! | `https://evil.example/page?id=1` | the same; scheme and port make no difference, a query counts by whole parameters |
//! | `https://evil.example` | that host alone, and no other below it |
//! | `# words`, an empty line | nothing; words may also follow an entry after ` #` |
//!
//! A list of a million lines is one text and one index of places in it: looking up takes as many steps as a host has labels and a path
//! has folders.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use hashbrown::HashTable;
use parking_lot::Mutex;
use rlinks_core::{Host, Target};

use super::canonical::{CanonicalUrl, is_ip_address, path_and_query, suffixes};

/// Places in the text are 32 bits wide, and so much is more than anybody has.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Of a path and of a query, so many beginnings are looked up. Entries are no longer either.
const MAX_PATH_PARTS: usize = 32;
/// So many bad lines are named, the rest counted.
const MAX_NAMED_LINES: usize = 10;

/// Before an entry, what it is: so that one index holds all kinds.
const DOMAIN_TAG: char = '.';
const PREFIX_TAG: char = '=';
/// A host some entry has a path for.
const HAS_PATHS_TAG: char = '@';

pub struct Blocklist {
    text: String,
    index: HashTable<(u32, u32)>,
    hasher: RandomState,
    /// Entries, each counted once.
    pub entries: usize,
    /// Lines nobody can read, the first of them named by number.
    pub bad: BadLines,
}

/// Lines nobody can read.
#[derive(Debug, Default)]
pub struct BadLines {
    /// Number and reason of the first ones.
    pub named: Vec<(usize, String)>,
    /// How many there are in all.
    pub count: usize,
}

impl Blocklist {
    /// Reads a list. Lines nobody can read are left out and named.
    pub fn parse(text: &str) -> Self {
        let mut list = Self {
            text: String::new(),
            index: HashTable::new(),
            hasher: RandomState::new(),
            entries: 0,
            bad: BadLines::default(),
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.split(" #").next().unwrap_or_default().trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Err(why) = list.add_line(line) {
                list.bad.count += 1;
                if list.bad.named.len() < MAX_NAMED_LINES {
                    list.bad.named.push((number + 1, why));
                }
            }
        }
        list.text.shrink_to_fit();
        list
    }

    fn add_line(&mut self, line: &str) -> Result<(), String> {
        let rest = ["https://", "http://"].iter().find_map(|scheme| {
            line.get(..scheme.len()).filter(|front| front.eq_ignore_ascii_case(scheme))?;
            Some(&line[scheme.len()..])
        });
        if rest.is_none() && line.contains("://") {
            return Err("is no address that begins with http:// or https://".to_owned());
        }
        let url = rest.unwrap_or(line);
        let (authority, path) = url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()));
        if rest.is_none() && path.is_empty() {
            let host = host(authority)?;
            self.insert(DOMAIN_TAG, &host, "");
            return Ok(());
        }
        let host = host(without_port(authority))?;
        let path = normalized_path(path);
        if path.matches(['/', '&']).count() > MAX_PATH_PARTS {
            return Err(format!("has more than {MAX_PATH_PARTS} folders and parameters"));
        }
        if !path.is_empty() {
            let before = self.entries;
            self.insert(HAS_PATHS_TAG, &host, "");
            self.entries = before;
        }
        self.insert(PREFIX_TAG, &host, &path);
        Ok(())
    }

    fn insert(&mut self, kind: char, host: &str, path: &str) {
        let start = self.text.len();
        self.text.push(kind);
        self.text.push_str(host);
        self.text.push_str(path);
        let Self { text, index, hasher, .. } = self;
        let entry = &text[start..];
        let hash = hasher.hash_one(entry);
        let at = |&(start, length): &(u32, u32)| &text[start as usize..(start + length) as usize];
        if index.find(hash, |place| at(place) == entry).is_some() {
            self.text.truncate(start);
            return;
        }
        // The file has less than 4 GiB, and an entry is never longer than its line by more than its escapes.
        let (Ok(from), Ok(length)) = (u32::try_from(start), u32::try_from(entry.len())) else {
            self.text.truncate(start);
            return;
        };
        index.insert_unique(hash, (from, length), |place| hasher.hash_one(at(place)));
        self.entries += 1;
    }

    /// The entry that blocks a target, as it stands in the list.
    pub fn blocking_entry(&self, target: &Target) -> Option<String> {
        let host = target.host();
        let mut key = String::with_capacity(host.len() + 1);
        for suffix in suffixes(host) {
            key.clear();
            key.push(DOMAIN_TAG);
            key.push_str(suffix);
            if self.contains(&key) {
                return Some(suffix.to_owned());
            }
            if is_ip_address(host) {
                break;
            }
        }
        let mut found = |kind: char, rest: &str| {
            key.clear();
            key.push(kind);
            key.push_str(host);
            key.push_str(rest);
            self.contains(&key)
        };
        if found(PREFIX_TAG, "") {
            return Some(host.to_owned());
        }
        if !found(HAS_PATHS_TAG, "") {
            return None;
        }
        let CanonicalUrl { path, query, .. } = CanonicalUrl::from_target(target);
        let path = path.strip_suffix('/').unwrap_or(&path);
        let ends = |text: &str, mark: char| -> Vec<usize> {
            let marks = text.match_indices(mark).map(|(at, _)| at).filter(|at| *at > 0);
            marks.take(MAX_PATH_PARTS).chain([text.len()]).collect()
        };
        for end in ends(path, '/') {
            if found(PREFIX_TAG, &path[..end]) {
                return Some(format!("{host}{}", &path[..end]));
            }
        }
        let query = query?;
        for end in ends(&query, '&') {
            let whole = format!("{path}?{}", &query[..end]);
            if found(PREFIX_TAG, &whole) {
                return Some(format!("{host}{whole}"));
            }
        }
        None
    }

    fn contains(&self, key: &str) -> bool {
        let at = |&(start, length): &(u32, u32)| &self.text[start as usize..(start + length) as usize];
        self.index.find(self.hasher.hash_one(key), |place| at(place) == key).is_some()
    }
}

/// Most hosts of a long list are spelled as they should be, and need no parser to say so.
fn host(text: &str) -> Result<String, String> {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        (1..=63).contains(&bytes.len())
            && bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            && bytes[0] != b'-'
            && bytes[bytes.len() - 1] != b'-'
            && !label.starts_with("xn--")
    };
    let is_plain = text.len() <= rlinks_core::host::MAX_HOST_BYTES
        && text.split('.').all(label)
        && text.rsplit('.').next().is_some_and(|last| {
            last.bytes().any(|byte| byte.is_ascii_alphabetic()) && !last.starts_with("0x")
        });
    if is_plain {
        return Ok(text.to_owned());
    }
    Host::parse(text).map(|host| host.to_string()).map_err(|error| error.message)
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// A path with its query as targets are spelled, without a slash at the path's end.
fn normalized_path(rest: &str) -> String {
    let (path, query) = path_and_query(rest);
    let path = path.strip_suffix('/').unwrap_or(&path);
    match query.filter(|query| !query.is_empty()) {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    }
}

/// A list in its file.
pub struct BlocklistFile {
    path: PathBuf,
    list: ArcSwapOption<Blocklist>,
    /// The file as it was when it was last read.
    last_read: Mutex<Option<FileState>>,
}

/// What changes when a file does.
type FileState = (u64, u64, i64, i64, u64);

impl BlocklistFile {
    /// A list that is read when it is first needed.
    pub fn new(path: PathBuf) -> Self {
        Self { path, list: ArcSwapOption::empty(), last_read: Mutex::new(None) }
    }

    /// The list in force; it is read where it was not yet.
    pub async fn get(&self) -> Result<Arc<Blocklist>, String> {
        if let Some(list) = self.list.load_full() {
            return Ok(list);
        }
        self.read().await
    }

    /// Reads the file again. What cannot be read leaves the old list in force.
    pub async fn read(&self) -> Result<Arc<Blocklist>, String> {
        *self.last_read.lock() = file_state(&self.path);
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || read(&path)).await;
        let list = Arc::new(read.map_err(|error| error.to_string())??);
        self.list.store(Some(Arc::clone(&list)));
        Ok(list)
    }

    /// Whether the file is another one than was last read.
    pub fn has_changed(&self) -> bool {
        *self.last_read.lock() != file_state(&self.path)
    }

    /// Says in the log what was read, and which lines were not.
    pub fn report(&self, list: &Blocklist) {
        let (path, entries) = (self.path.display(), list.entries);
        tracing::info!(%path, entries, "the block list was read");
        for (line, why) in &list.bad.named {
            tracing::warn!(%path, line, "a line of the block list blocks nothing: it {why}");
        }
        if list.bad.count > list.bad.named.len() {
            tracing::warn!(%path, "the block list has {} such lines in all", list.bad.count);
        }
    }
}

fn file_state(path: &Path) -> Option<FileState> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.mtime(), file.mtime_nsec(), file.len()))
}

fn read(path: &Path) -> Result<Blocklist, String> {
    let cannot =
        |why: &dyn std::fmt::Display| format!("the block list {} cannot be read: {why}", path.display());
    let file = fs::metadata(path).map_err(|error| cannot(&error))?;
    // Opening a pipe would wait for somebody to write.
    if !file.is_file() {
        return Err(cannot(&"it is not a file"));
    }
    if file.len() > MAX_FILE_BYTES {
        return Err(cannot(&"it has more than 1 GiB"));
    }
    let bytes = fs::read(path).map_err(|error| cannot(&error))?;
    // A line that is no UTF-8 is a bad line, and not the end of the list.
    let text =
        String::from_utf8(bytes).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned());
    Ok(Blocklist::parse(text.strip_prefix('\u{feff}').unwrap_or(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(list: &str, url: &str) -> Option<String> {
        Blocklist::parse(list).blocking_entry(&Target::parse(url, 65_536).unwrap())
    }

    #[test]
    fn domain_entry_blocks_its_subdomains() {
        for (url, by) in [
            ("https://evil.example", Some("evil.example")),
            ("http://EVIL.example.:8080/x?y#z", Some("evil.example")),
            ("https://a.b.evil.example/", Some("evil.example")),
            ("https://devil.example/", None),
            ("https://evil.example.com/", None),
            ("https://example/", None),
            ("https://ok.example/?u=https://evil.example/", None),
            ("https://xn--bse-sna.example/", Some("xn--bse-sna.example")),
            ("https://böse.example/", Some("xn--bse-sna.example")),
            ("http://10.1.2.3/", Some("10.1.2.3")),
            ("http://9.10.1.2/", None),
            ("http://[2001:db8::1]/", Some("[2001:db8::1]")),
        ] {
            let list = "# a list\n\nEvil.Example. # a word\nböse.example\n10.1.2.3\n[2001:db8:0::1]\r\n";
            assert_eq!(blocked(list, url).as_deref(), by, "{url}");
        }
    }

    #[test]
    fn url_entry_blocks_paths_below_it_on_its_host_only() {
        let list = "https://host.example/bad/\nhost.example/q?id=5&x=1\nhttp://only.example\nhttp://1.2.3.4:8080/mal%77are\nhost.example/a b\n";
        for (url, is_blocked) in [
            ("https://host.example/bad", true),
            ("http://host.example:444/bad/", true),
            ("https://host.example/bad/page", true),
            ("https://host.example/bad?x", true),
            ("https://host.example/b%61d#x", true),
            ("https://host.example//bad//x", true),
            ("https://host.example/ok/../bad/x", true),
            ("https://host.example/badly", false),
            ("https://host.example/BAD", false),
            ("https://host.example/", false),
            ("https://www.host.example/bad", false),
            ("https://host.example/q?id=5&x=1", true),
            ("https://host.example/q?id=5&x=1&y=2", true),
            ("https://host.example/q?id=5&x=12", false),
            ("https://host.example/q?id=5", false),
            ("https://host.example/q", false),
            ("https://only.example/anything?at=all", true),
            ("https://www.only.example/", false),
            ("http://1.2.3.4/malware/x", true),
            ("http://1.2.3.4/", false),
            ("https://host.example/a%20b", true),
        ] {
            assert_eq!(blocked(list, url).is_some(), is_blocked, "{url}");
        }
    }

    #[test]
    fn invalid_lines_are_reported_and_the_rest_used() {
        let list = Blocklist::parse(
            "good.example\n*.star.example\nhttp://\nftp://x.example/\n-\nagain.example\ngood.example\n",
        );
        assert_eq!(list.entries, 2);
        let lines: Vec<usize> = list.bad.named.iter().map(|(line, _)| *line).collect();
        assert_eq!((lines, list.bad.count), (vec![2, 3, 4, 5], 4), "{:?}", list.bad);
    }

    #[test]
    fn memory_of_many_lines_is_close_to_their_text() {
        use std::fmt::Write as _;
        let mut text = String::new();
        for number in 0..100_000 {
            let _ = writeln!(text, "host-{number}.example");
        }
        let list = Blocklist::parse(&text);
        assert_eq!((list.entries, list.bad.count), (100_000, 0));
        assert!(list.text.capacity() <= text.len());
        // A slot is eight bytes and one of control, and at most every second is free.
        assert!(list.index.capacity() <= 2 * 100_000);
        let target = |url: &str| Target::parse(url, 2048).unwrap();
        assert!(list.blocking_entry(&target("https://www.host-99999.example/")).is_some());
        assert!(list.blocking_entry(&target("https://host-100000.example/")).is_none());
    }
}
