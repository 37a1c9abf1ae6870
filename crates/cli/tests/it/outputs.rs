//! Where output goes: files, devices, pipes, stdout; and what happens when it cannot go there.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt as _, symlink};
use std::process::Command;

use crate::support::sandbox::Sandbox;

fn one_link() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("links set x https://example.com/");
    sandbox
}

fn pipe(sandbox: &Sandbox, name: &str) {
    let made = Command::new("mkfifo").arg(sandbox.path(name)).status().unwrap();
    assert!(made.success());
}

#[test]
fn output_to_a_named_pipe_keeps_the_pipe() {
    let sandbox = one_link();
    pipe(&sandbox, "pipe");
    for line in [
        "backup pipe",
        "backup pipe --force",
        "audit export pipe",
        "audit export log.jsonl --force --checkpoint pipe",
    ] {
        let path = sandbox.path("pipe");
        let reader = std::thread::spawn(move || std::fs::read_to_string(path).unwrap());
        sandbox.ok(line);
        let text = reader.join().unwrap();
        assert!(text.starts_with('{') && text.ends_with('\n'), "{line}: {text}");
        assert!(sandbox.path("pipe").metadata().unwrap().file_type().is_fifo(), "{line}");
    }
}

#[test]
fn output_to_a_device_keeps_the_device() {
    let sandbox = one_link();
    symlink("/dev/null", sandbox.path("null")).unwrap();
    for line in ["backup null", "backup null --force", "audit export null --force", "backup /dev/null"] {
        sandbox.ok(line);
        let null = sandbox.path("null");
        assert!(null.symlink_metadata().unwrap().is_symlink(), "{line}");
        assert!(null.metadata().unwrap().file_type().is_char_device(), "{line}");
    }
    sandbox.fails(1, "backup /dev/full").says("/dev/full cannot be written: no storage space");
    sandbox.fails(1, "audit export /dev/full").says("/dev/full cannot be written");
    sandbox.fails(1, "links export /dev/full --format csv").says("/dev/full cannot be written");
}

#[test]
fn dash_and_dev_stdout_receive_only_the_data() {
    let sandbox = one_link();
    for name in ["-", "/dev/stdout", "/dev/fd/1"] {
        let ran = sandbox.ok(&format!("backup {name}"));
        assert!(ran.stdout.starts_with("{\"rlinks_backup\"") && !ran.stdout.contains("saved"), "{ran}");
        ran.says("saved: workspaces 1");
        let ran = sandbox.ok(&format!("--json audit export {name}"));
        assert_eq!(ran.stdout.lines().count(), 2, "{ran}");
        let ran = sandbox.ok(&format!("audit export log.jsonl --force --checkpoint {name}"));
        assert!(ran.stdout.contains("signature") && ran.stdout.lines().count() == 1, "{ran}");
        // Into a file: the shell has made it, so it is there already.
        let file = File::create(sandbox.path("all.jsonl")).unwrap();
        let status = sandbox.command(&format!("backup {name}")).stdout(file).status().unwrap();
        assert!(status.success(), "{name}");
        let trust = sandbox.fingerprint("all.jsonl");
        sandbox.ok(&format!("--data other restore all.jsonl --force --trust {trust}"));
    }
    assert!(!sandbox.path("-").exists());
}

#[test]
fn output_through_a_symlink_keeps_the_symlink() {
    let sandbox = one_link();
    sandbox.write("real", "precious");
    symlink("real", sandbox.path("link")).unwrap();
    sandbox.fails(4, "backup link").says("link exists already");
    sandbox.ok("backup link --force");
    assert!(sandbox.path("link").symlink_metadata().unwrap().is_symlink());
    assert!(sandbox.read("real").starts_with("{\"rlinks_backup\""));

    symlink("nowhere", sandbox.path("dangling")).unwrap();
    sandbox.fails(1, "backup dangling --force").says("is a link that leads nowhere");
    std::fs::create_dir(sandbox.path("folder")).unwrap();
    sandbox.fails(1, "backup folder --force").says("is a folder");
    assert!(sandbox.path("folder").is_dir());
}

#[test]
fn two_outputs_to_the_same_file_are_rejected() {
    let sandbox = one_link();
    for (file, checkpoint) in [("out", "out"), ("out", "./out"), ("-", "-"), ("-", "/dev/stdout")] {
        sandbox
            .fails(2, &format!("audit export {file} --checkpoint {checkpoint}"))
            .says("are the same place");
    }
    assert!(!sandbox.path("out").exists());
}

#[test]
fn exit_code_is_kept_when_stdout_and_stderr_are_full() {
    let sandbox = one_link();
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
        let status = sandbox.command(line).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{line}");
    }
    let slip = sandbox.with("RMAX_LISTENS", "127.0.0.1:1");
    assert_eq!(slip.command("links list").stderr(full()).status().unwrap().code(), Some(0));
    for line in ["links list", "links list --json", "doctor", "workspaces show", "completions bash"] {
        let status = slip.command(line).stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(1), "{line}");
    }
}
