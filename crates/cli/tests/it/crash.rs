//! Killed at every write and sync, on a full disk and on a read-only one: a change is there or it is not, never half.
//!
//! These need `strace`, `unshare` and root (for a mount of their own), so they run in a stage of their own: `scripts/stage/50-crash`.

use std::process::{Command, Output};

use crate::support::sandbox::Sandbox;

/// More calls than one change makes.
const MAX_CALLS: usize = 120;

/// Faults, row 2.
#[test]
fn sigkill_at_any_write_or_sync_leaves_a_change_whole_or_absent() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set crash https://example.com/0 --tag a");
    for call in ["pwrite64", "fdatasync", "write", "ftruncate"] {
        let mut finished = false;
        for number in 1..=MAX_CALLS {
            let before = target(&sandbox);
            let after = format!("https://example.com/{call}/{number}");
            let inject = format!("inject={call}:signal=KILL:when={number}");
            let ran = under(
                &sandbox,
                &["strace", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject],
                &["links", "set", "crash", &after],
            );
            let now = target(&sandbox);
            if ran.status.success() {
                assert_eq!(now, after, "{call} {number}: acknowledged and lost");
                finished = true;
                break;
            }
            assert!(
                now == before || now == after,
                "{call} {number}: {now} is neither the old nor the new target"
            );
            sandbox.ok("audit verify");
        }
        assert!(finished, "{call}: one change makes more than {MAX_CALLS} such calls, or never ends");
    }
    sandbox.ok("doctor");
}

/// Faults, row 13.
#[test]
fn full_disk_refuses_changes_keeps_redirecting_and_recovers() {
    let sandbox = Sandbox::new();
    let script = r#"
        set -e
        mkdir -p rlinks-data && mount -t tmpfs -o size=3m tmpfs rlinks-data
        "$RMAX" links set first https://example.com/ >/dev/null
        "$RMAX" serve --listen 127.0.0.1:0 2>log & server=$!
        trap 'kill $server' EXIT
        for i in $(seq 200); do port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\).*|\1|p' log | head -n 1); [ -n "$port" ] && break; sleep 0.05; done
        dd if=/dev/zero of=rlinks-data/filler bs=64k 2>/dev/null || true
        code=0; i=0
        while [ "$code" = 0 ] && [ "$i" -lt 60 ]; do i=$((i+1)); "$RMAX" links set "more-$i" https://example.com/ >/dev/null 2>err || code=$?; done
        echo "refused with $code"
        exec 3<>"/dev/tcp/127.0.0.1/$port"
        printf 'GET /first HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3
        read -r line <&3 && echo "${line%?}"
        rm rlinks-data/filler
        "$RMAX" links set later https://example.com/ >/dev/null && echo "writing works again"
        "$RMAX" audit verify >/dev/null && echo "the log is whole"
    "#;
    let ran = in_namespace(&sandbox, script);
    let out = String::from_utf8_lossy(&ran.stdout);
    let wanted = "refused with 6\nHTTP/1.1 301 Moved Permanently\nwriting works again\nthe log is whole\n";
    assert_eq!(out, wanted, "{}", String::from_utf8_lossy(&ran.stderr));
}

/// Faults, row 15.
#[test]
fn read_only_disk_refuses_changes_and_alters_nothing() {
    let sandbox = Sandbox::new();
    let script = r#"
        set -e
        mkdir -p rlinks-data && mount -t tmpfs -o size=8m tmpfs rlinks-data
        "$RMAX" links set first https://example.com/ >/dev/null
        mount -o remount,ro rlinks-data
        code=0; "$RMAX" links set second https://example.com/ >/dev/null 2>err || code=$?
        echo "refused with $code"
        mount -o remount,rw rlinks-data
        "$RMAX" links get second >/dev/null 2>&1 || echo "nothing was written"
        "$RMAX" links set second https://example.com/ >/dev/null && echo "writing works again"
    "#;
    let ran = in_namespace(&sandbox, script);
    let out = String::from_utf8_lossy(&ran.stdout);
    let wanted = "refused with 6\nnothing was written\nwriting works again\n";
    assert_eq!(out, wanted, "{}", String::from_utf8_lossy(&ran.stderr));
}

fn target(sandbox: &Sandbox) -> String {
    sandbox.link("crash")["target"].as_str().expect("a target").to_owned()
}

/// A shell with mounts of its own, which go with it.
fn in_namespace(sandbox: &Sandbox, script: &str) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "bash", "-c", script]);
    let ran = command
        .current_dir(sandbox.path("."))
        .env("RMAX", env!("CARGO_BIN_EXE_rmax"))
        .env("RMAX_IDENTITY", "max@rmax.ai")
        .output();
    ran.expect("unshare (util-linux) is needed, and root")
}

fn under(sandbox: &Sandbox, wrapper: &[&str], line: &[&str]) -> Output {
    let ran = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .arg(env!("CARGO_BIN_EXE_rmax"))
        .args(line)
        .current_dir(sandbox.path("."))
        .env("RMAX_IDENTITY", "max@rmax.ai")
        .output();
    ran.unwrap_or_else(|error| panic!("{} is needed: {error}", wrapper[0]))
}
