//! What the files of a server hold.

use std::path::Path;

/// Every byte below a folder that holds this text, by file.
pub(crate) fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else {
            // A file may be gone by now: what is in no file is not kept.
            let bytes = std::fs::read(&path).unwrap_or_default();
            if bytes.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text.as_bytes())) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}
