//! Where output goes: files, devices, pipes, stdout; and what happens when it cannot go there.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::process::Command;

use crate::place::Place;

fn one_link() -> Place {
    let place = Place::new();
    place.ok("links set x https://example.com/");
    place
}

fn pipe(place: &Place, name: &str) {
    let made = Command::new("mkfifo").arg(place.path(name)).status().unwrap();
    assert!(made.success());
}

#[test]
fn a_pipe_is_written_into_and_stays_a_pipe() {
    let place = one_link();
    pipe(&place, "pipe");
    for line in [
        "backup pipe",
        "backup pipe --force",
        "audit export pipe",
        "audit export log.jsonl --force --checkpoint pipe",
    ] {
        let path = place.path("pipe");
        let reader = std::thread::spawn(move || std::fs::read_to_string(path).unwrap());
        place.ok(line);
        let text = reader.join().unwrap();
        assert!(text.starts_with('{') && text.ends_with('\n'), "{line}: {text}");
        assert!(place.path("pipe").metadata().unwrap().file_type().is_fifo(), "{line}");
    }
}

#[test]
fn a_device_is_written_into_and_stays_a_device() {
    let place = one_link();
    symlink("/dev/null", place.path("null")).unwrap();
    for line in ["backup null", "backup null --force", "audit export null --force", "backup /dev/null"] {
        place.ok(line);
        let null = place.path("null");
        assert!(null.symlink_metadata().unwrap().is_symlink(), "{line}");
        assert!(null.metadata().unwrap().file_type().is_char_device(), "{line}");
    }
    place.fails(1, "backup /dev/full").says("/dev/full cannot be written: no storage space");
    place.fails(1, "audit export /dev/full").says("/dev/full cannot be written");
    place.fails(1, "links export /dev/full --format csv").says("/dev/full cannot be written");
}

#[test]
fn a_dash_and_dev_stdout_are_stdout_and_hold_nothing_else() {
    let place = one_link();
    for name in ["-", "/dev/stdout", "/dev/fd/1"] {
        let ran = place.ok(&format!("backup {name}"));
        assert!(ran.stdout.starts_with("{\"rlinks_backup\"") && !ran.stdout.contains("saved"), "{ran}");
        ran.says("saved: workspaces 1");
        let ran = place.ok(&format!("--json audit export {name}"));
        assert_eq!(ran.stdout.lines().count(), 2, "{ran}");
        let ran = place.ok(&format!("audit export log.jsonl --force --checkpoint {name}"));
        assert!(ran.stdout.contains("signature") && ran.stdout.lines().count() == 1, "{ran}");
        // Into a file: the shell has made it, so it is there already.
        let file = File::create(place.path("all.jsonl")).unwrap();
        let status = place.command(&format!("backup {name}")).stdout(file).status().unwrap();
        assert!(status.success(), "{name}");
        place.ok("--data other restore all.jsonl --force");
    }
    assert!(!place.path("-").exists());
}

#[test]
fn a_link_to_a_file_stays_a_link() {
    let place = one_link();
    place.write("real", "precious");
    symlink("real", place.path("link")).unwrap();
    place.fails(4, "backup link").says("link exists already");
    place.ok("backup link --force");
    assert!(place.path("link").symlink_metadata().unwrap().is_symlink());
    assert!(place.read("real").starts_with("{\"rlinks_backup\""));

    symlink("nowhere", place.path("dangling")).unwrap();
    place.fails(1, "backup dangling --force").says("is a link that leads nowhere");
    std::fs::create_dir(place.path("folder")).unwrap();
    place.fails(1, "backup folder --force").says("is a folder");
    assert!(place.path("folder").is_dir());
}

#[test]
fn two_outputs_with_one_name_are_a_slip() {
    let place = one_link();
    for (file, checkpoint) in [("out", "out"), ("out", "./out"), ("-", "-"), ("-", "/dev/stdout")] {
        place.fails(2, &format!("audit export {file} --checkpoint {checkpoint}")).says("are the same place");
    }
    assert!(!place.path("out").exists());
}

#[test]
fn an_exit_code_survives_a_stderr_and_a_stdout_that_are_full() {
    let place = one_link();
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for (code, line) in [
        (3, "links get nope"),
        (3, "--json links get nope"),
        (5, "links set y http://example.com/"),
        (2, "links lst"),
        (2, "--json links lst"),
        (0, "links list -vv"),
        (2, "workspaces delete main"),
    ] {
        let status = place.command(line).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{line}");
    }
    let slip = place.with("RMAX_LISTENS", "127.0.0.1:1");
    assert_eq!(slip.command("links list").stderr(full()).status().unwrap().code(), Some(0));
    for line in ["links list", "links list --json", "doctor", "workspaces show", "completions bash"] {
        let status = slip.command(line).stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(1), "{line}");
    }
}
