//! Files that appear whole or not at all.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use rlinks_store::database::atomic_file::{AtomicFile, AtomicFileError, Overwrite, write_if_absent};

fn names(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn file_appears_only_when_it_is_finished_and_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let mut file = AtomicFile::create(&path, Overwrite::Refuse).unwrap();
    file.write_all(b"whole").unwrap();
    assert!(!path.exists());
    file.finish().unwrap();
    assert_eq!((fs::read(&path).unwrap().as_slice(), names(&folder)), (&b"whole"[..], vec!["a".to_owned()]));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    let mut dropped = AtomicFile::create(&folder.path().join("b"), Overwrite::Refuse).unwrap();
    dropped.write_all(b"half").unwrap();
    drop(dropped);
    assert_eq!(names(&folder), ["a"], "what was not finished leaves nothing behind");
}

#[test]
fn existing_file_is_replaced_only_when_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let late = AtomicFile::create(&path, Overwrite::Refuse).unwrap();
    fs::write(&path, "first").unwrap();
    assert!(matches!(AtomicFile::create(&path, Overwrite::Refuse), Err(AtomicFileError::Exists)));
    assert!(matches!(late.finish(), Err(AtomicFileError::Exists)), "also when it came in the meantime");
    write_if_absent(&path, b"second").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "first");

    let mut file = AtomicFile::create(&path, Overwrite::Replace).unwrap();
    file.write_all(b"third").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "first", "until it is complete");
    file.finish().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "third");
    assert_eq!(names(&folder), ["a"]);
}

#[test]
fn links_and_folders_are_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
    for name in ["folder", "link"] {
        let refused = AtomicFile::create(&folder.path().join(name), Overwrite::Replace);
        assert!(matches!(refused, Err(AtomicFileError::NotAFile)), "{name}");
    }
    let refused = AtomicFile::create(std::path::Path::new("/"), Overwrite::Replace);
    assert!(matches!(refused, Err(AtomicFileError::NoName)));
}
