//! Clicks cannot get lost: whatever kills the server, fills its disk or breaks it, a click that was answered is stored once.
//!
//! A ledger outside of the server holds every request that was answered. Each names itself by its `Referer`, which a click keeps,
//! so the ledger and the tables are compared click by click and not by sums. These tests need `strace`, `unshare` and root:
//! `scripts/stage/50-crash`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rlinks_store::clock::{monotonic_ms, random_bytes};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use tempfile::NamedTempFile;

use crate::support::raw_client::{becomes_true_within, wait_until};
use crate::support::sandbox::{Sandbox, block_on};
use crate::support::server_process::{ServerProcess, address_in, run, serve};

const CLIENTS: usize = 4;
/// However slow the machine is: a kill that has not come by then will not come.
const ROUND_MS: u64 = 4_000;

// ---- the ledger ----

/// What was asked of the server, and what it answered.
#[derive(Default)]
struct Ledger {
    asked: AtomicU64,
    answered: Mutex<BTreeSet<String>>,
    /// Sent, and the connection ended before an answer came.
    unanswered: Mutex<BTreeSet<String>>,
    /// How long each answer took, in milliseconds.
    took_ms: Mutex<Vec<u64>>,
    /// How long each client waits after an answer.
    pause: Duration,
}

impl Ledger {
    /// Of clients that leave the machine time for something else.
    fn slow() -> Self {
        Self { pause: Duration::from_millis(2), ..Self::default() }
    }

    fn answers(&self) -> usize {
        self.answered.lock().unwrap().len()
    }

    /// Several clients ask, each one request after the other, until somebody says stop or the server is gone.
    fn while_asking<T>(&self, address: SocketAddr, path: &str, watch: impl FnOnce() -> T) -> T {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| self.ask(address, path, &stop));
            }
            let watched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(watch));
            stop.store(true, Ordering::Relaxed);
            watched.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn ask(&self, address: SocketAddr, path: &str, stop: &AtomicBool) {
        let Ok(mut socket) = TcpStream::connect(address) else { return };
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut answer = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let name = format!("{path}{}", self.asked.fetch_add(1, Ordering::Relaxed));
            let request = format!(
                "GET /go HTTP/1.1\r\nHost: rmax.to\r\nReferer: https://ledger.example/{name}\r\n\r\n"
            );
            let began_ms = monotonic_ms();
            if socket.write_all(request.as_bytes()).is_err() || !read_answer(&mut socket, &mut answer) {
                self.unanswered.lock().unwrap().insert(name);
                return;
            }
            // C4: whatever happens, a known link is answered with nothing but its redirect.
            assert!(answer.starts_with(b"HTTP/1.1 301 "), "{}", String::from_utf8_lossy(&answer));
            self.took_ms.lock().unwrap().push(monotonic_ms() - began_ms);
            self.answered.lock().unwrap().insert(name);
            if !self.pause.is_zero() {
                std::thread::sleep(self.pause);
            }
        }
    }

    /// Every click that was answered is stored once; and nothing is but what was asked, with at most one request in flight for
    /// each client and kill.
    #[track_caller]
    fn compare(&self, sandbox: &Sandbox, kills: usize) {
        let (answered, unanswered) = (self.answered.lock().unwrap(), self.unanswered.lock().unwrap());
        let stored = stored(sandbox);
        let missing: Vec<_> = answered.iter().filter(|name| !stored.contains_key(*name)).collect();
        assert!(missing.is_empty(), "{} answered and lost: {missing:?}", missing.len());
        let strange: Vec<_> =
            stored.keys().filter(|name| !answered.contains(*name) && !unanswered.contains(*name)).collect();
        assert!(strange.is_empty(), "stored and never asked: {strange:?}");
        assert!(
            stored.len() - answered.len() <= CLIENTS * kills,
            "{} in flight",
            stored.len() - answered.len()
        );
    }
}

/// Reads one answer, which has no body; whether it came.
fn read_answer(socket: &mut TcpStream, answer: &mut Vec<u8>) -> bool {
    answer.clear();
    let mut chunk = [0; 2048];
    while !answer.ends_with(b"\r\n\r\n") {
        match socket.read(&mut chunk) {
            Ok(count @ 1..) => answer.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("neither an answer nor an end"),
            Ok(0) | Err(_) => return false,
        }
    }
    true
}

// ---- the tables ----

async fn tables(sandbox: &Sandbox) -> SqliteConnection {
    options(sandbox).connect().await.unwrap()
}

fn options(sandbox: &Sandbox) -> SqliteConnectOptions {
    let file = sandbox.path("rlinks-data/clicks.db");
    SqliteConnectOptions::new().filename(file).busy_timeout(Duration::from_secs(20))
}

/// The clicks that are stored so far; a server that has just been started may not have its tables yet.
fn events(sandbox: &Sandbox) -> usize {
    block_on(async {
        let Ok(mut connection) = options(sandbox).connect().await else { return 0 };
        let row: Result<(i64,), _> =
            sqlx::query_as("select count(*) from events").fetch_one(&mut connection).await;
        let _ = connection.close().await;
        row.map_or(0, |(count,)| usize::try_from(count).unwrap())
    })
}

fn count(sandbox: &Sandbox, sql: &str) -> i64 {
    block_on(async {
        let mut connection = tables(sandbox).await;
        let row: (i64,) = sqlx::query_as(AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        row.0
    })
}

/// Waits until so many clicks are stored. A long night of them takes its time.
#[track_caller]
fn wait_for_clicks(sandbox: &Sandbox, clicks: usize) {
    let stored = becomes_true_within(60_000, || events(sandbox) >= clicks);
    assert!(stored, "only {} of {clicks} clicks are stored", events(sandbox));
}

/// The clicks of a ledger that are stored, by name, with their identities. None is there twice, under any name.
#[track_caller]
fn stored(sandbox: &Sandbox) -> BTreeMap<String, (i64, i64, i64)> {
    let rows: Vec<(String, i64, i64, i64)> = block_on(async {
        let mut connection = tables(sandbox).await;
        let sql =
            "select e.referrer, p.boot, p.thread, e.seq from events e join producers p on p.id = e.producer";
        let rows = sqlx::query_as(sql).fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        rows
    });
    let (mut stored, mut identities) = (BTreeMap::new(), BTreeSet::new());
    for (referrer, boot, thread, seq) in rows {
        let name = referrer.strip_prefix("https://ledger.example/").unwrap().to_owned();
        assert!(
            identities.insert((boot, thread, seq)),
            "two clicks have one identity: {boot} {thread} {seq}"
        );
        let first = stored.insert(name, (boot, thread, seq));
        assert!(first.is_none(), "{referrer} is stored twice");
    }
    stored
}

/// The database is whole, and what clicks add up to is what there are.
#[track_caller]
fn verify(sandbox: &Sandbox) {
    let events = count(sandbox, "select count(*) from events");
    for sql in [
        "select coalesce(sum(clicks + bots), 0) from totals where kind = 0",
        "select coalesce(sum(clicks + bots), 0) from totals where kind = 1",
        "select coalesce(sum(clicks + bots), 0) from hours where kind = 0",
        "select coalesce(sum(clicks + bots), 0) from days where kind = 0",
        "select coalesce(sum(clicks + bots), 0) from days where kind = 1",
        "select coalesce(sum(clicks + bots), 0) from months where kind = 1",
        "select next_event - 1 from ingest",
    ] {
        assert_eq!(count(sandbox, sql), events, "{sql}");
    }
    assert_eq!(
        count(sandbox, "select count(*) from pragma_integrity_check where integrity_check <> 'ok'"),
        0
    );
    sandbox.ok("audit verify");
}

/// Clicks that were not kept, but for those torn off: a process may be killed in the middle of a `write`, and what it had not
/// finished was not answered.
fn lost(sandbox: &Sandbox) -> i64 {
    count(sandbox, "select coalesce(sum(clicks), 0) from losses where reason <> 'torn'")
}

fn dropped(sandbox: &Sandbox) -> i64 {
    count(sandbox, "select coalesce(sum(clicks), 0) from losses where reason = 'dropped'")
}

/// Starts once more, waits until everything is stored and stops; then again, and nothing changes.
#[track_caller]
fn settle(sandbox: &Sandbox, ledger: &Ledger, kills: usize) {
    for _ in 0..2 {
        let server = serve(sandbox, "");
        wait_for_clicks(sandbox, ledger.answers());
        stop(server);
        ledger.compare(sandbox, kills);
        verify(sandbox);
    }
}

/// Stops a server in order; it had nothing to panic about.
#[track_caller]
fn stop(server: ServerProcess) {
    assert!(!server.says("panicked"), "{}", server.log());
    server.stop();
}

// ---- chance ----

/// A chain of numbers that begins with a printed seed.
struct SeededRng(u64);

impl SeededRng {
    fn new(test: &str) -> Self {
        let seed = variable("RLINKS_CRASH_SEED")
            .map_or_else(|| u64::from_le_bytes(random_bytes()), |seed| seed.parse().unwrap());
        println!("{test}: RLINKS_CRASH_SEED={seed}");
        Self(seed)
    }

    // Less than `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn rounds() -> usize {
    variable("RLINKS_CRASH_ROUNDS").map_or(5, |text| text.parse().unwrap())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the stage says how often, and whoever repeats a run says which"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("links set go https://example.com/");
    sandbox
}

// ---- killed ----

/// Faults, row 1.
#[test]
fn sigkill_under_load_loses_no_answered_click_and_counts_none_twice() {
    let (sandbox, ledger, mut rng) = (sandbox(), Ledger::default(), SeededRng::new("row 1"));
    for _ in 0..rounds() {
        let mut server = serve(&sandbox, "--threads 2");
        let enough = ledger.answers() + 1 + usize::try_from(rng.below(3000)).unwrap();
        ledger.while_asking(server.address, "", || {
            wait_until("enough is answered", || ledger.answers() >= enough);
            server.signal(Signal::KILL);
            server.ends_within(10_000);
        });
        assert!(!server.says("panicked"), "{}", server.log());
    }
    settle(&sandbox, &ledger, rounds());
    assert_eq!(lost(&sandbox), 0);
}

/// Faults, row 2.
#[test]
fn sigkill_at_any_write_sync_or_unlink_loses_no_answered_click_and_counts_none_twice() {
    // How many such calls one thread makes in a round, about.
    const CALLS: [(&str, u64); 6] = [
        ("write", 600),
        ("pwrite64", 150),
        ("fdatasync,fsync", 8),
        ("unlink,unlinkat,rename,renameat2,ftruncate", 3),
        ("pwrite64", 30),
        ("write", 40),
    ];
    let (sandbox, ledger, mut rng) = (sandbox(), Ledger::default(), SeededRng::new("row 2"));
    let mut injected = 0;
    for round in 0..rounds() {
        let (call, most) = CALLS[round % CALLS.len()];
        let number = 1 + rng.below(most);
        let inject = format!("inject={call}:signal=KILL:when={number}");
        let wrapper =
            ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject];
        let mut server = WrappedServer::new(&sandbox, &wrapper.map(str::to_owned), "--threads 2");
        // It may be over before anybody could ask.
        becomes_true_within(ROUND_MS, || {
            server.process.has_ended() || server.process.says("serving redirects on")
        });
        if let Some(address) = address_in(&server.process.log(), "serving redirects on") {
            ledger.while_asking(address, "", || becomes_true_within(ROUND_MS, || server.process.has_ended()));
        }
        injected += usize::from(server.process.has_ended());
        assert!(!server.process.says("panicked"), "{call} {number}: {}", server.process.log());
    }
    println!("row 2: {injected} of {} kills were injected, {} clicks answered", rounds(), ledger.answers());
    assert!(injected * 2 >= rounds(), "only {injected} of {} kills were injected", rounds());
    settle(&sandbox, &ledger, rounds());
    assert_eq!(lost(&sandbox), 0);
}

/// A server run by another program, which would leave it behind when it is killed itself.
struct WrappedServer {
    process: ServerProcess,
}

impl WrappedServer {
    fn new(sandbox: &Sandbox, wrapper: &[String], flags: &str) -> Self {
        let rmax = sandbox.command(&format!("serve --listen 127.0.0.1:0 {flags}"));
        let mut command = Command::new(&wrapper[0]);
        command
            .args(&wrapper[1..])
            .arg(rmax.get_program())
            .args(rmax.get_args())
            .current_dir(rmax.get_current_dir().unwrap())
            .env_clear()
            .envs(rmax.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        Self { process: run(command) }
    }

    /// The process that was started by the wrapper.
    fn children(&self) -> Vec<Pid> {
        let pid = self.process.pid();
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    }
}

impl Drop for WrappedServer {
    fn drop(&mut self) {
        for child in self.children() {
            let _ = kill_process(child, Signal::KILL);
        }
        // It ends with what it started.
        becomes_true_within(5_000, || self.process.has_ended());
    }
}

// ---- no room ----

/// Faults, row 14.
#[test]
fn full_journal_disk_keeps_redirecting_and_counts_every_dropped_click() {
    let (sandbox, ledger) = (sandbox(), Ledger::default());
    let script = "mkdir -p rlinks-data/journal && mount -t tmpfs -o size=512k tmpfs rlinks-data/journal && exec \"$@\"";
    let wrapper = ["unshare", "--mount", "--propagation", "private", "bash", "-c", script, "bash"];
    // Each of them becomes the next, so in the end it is the server itself.
    let mut server = WrappedServer::new(&sandbox, &wrapper.map(str::to_owned), "--threads 2");
    server.process.wait_for_address();
    let address = server.process.address;
    let ask = |more: usize| {
        let enough = ledger.answers() + more;
        ledger.while_asking(address, "", || wait_until("enough is answered", || ledger.answers() >= enough));
    };
    ask(200);
    // Only the server's own eyes see that disk.
    let outside = sandbox.path("rlinks-data/journal/filler");
    let filler = PathBuf::from(format!("/proc/{}/root{}", server.process.pid(), outside.display()));
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 512]).is_ok() {}
    ask(1000);
    wait_until("it says so", || server.process.says("clicks are not recorded; redirects go on"));
    drop(file);
    std::fs::remove_file(filler).unwrap();
    let full = ledger.answers();
    ask(1000);
    server.process.signal(Signal::TERM);
    assert_eq!(server.process.ends_within(10_000).code(), Some(0), "{}", server.process.log());
    let unanswered = ledger.unanswered.lock().unwrap().len();
    assert_eq!(unanswered, 0);
    let (stored, dropped) = (stored(&sandbox), dropped(&sandbox));
    assert!(dropped > 500, "{dropped} dropped: the disk was not full");
    assert_eq!(i64::try_from(stored.len()).unwrap() + dropped, i64::try_from(ledger.answers()).unwrap());
    assert_eq!(lost(&sandbox), dropped, "and nothing else");
    let later =
        stored.keys().filter(|name| name.parse::<usize>().is_ok_and(|name| name >= full + CLIENTS)).count();
    assert!(later > 500, "only {later} of those after it had room again");
    verify(&sandbox);
}

/// Faults, row 14.
#[test]
fn journal_at_its_size_limit_counts_dropped_clicks_and_recovers() {
    let (sandbox, ledger) = (sandbox(), Ledger::default());
    sandbox.write("rmax.toml", "journal_mb = 1\n");
    let server = serve(&sandbox, "--threads 2");
    let path = format!("{}/", "x".repeat(400));
    let ask = |more: usize| {
        let enough = ledger.answers() + more;
        ledger.while_asking(server.address, &path, || {
            wait_until("enough is answered", || ledger.answers() >= enough);
        });
    };
    ask(50);
    wait_until("clicks are stored", || events(&sandbox) >= 50);
    block_on(async {
        let mut lock = tables(&sandbox).await;
        sqlx::raw_sql("begin immediate").execute(&mut lock).await.unwrap();
        // Two and a half times as much as there is room for.
        ask(2500);
        while !server.says("the journal has used up journal_mb") {
            ask(500);
        }
        ask(500);
        sqlx::raw_sql("rollback").execute(&mut lock).await.unwrap();
        lock.close().await.unwrap();
    });
    // The backlog is stored and its segments are removed; what is left are the segments being written, so that half the room is free.
    let journal = sandbox.path("rlinks-data").join(rlinks_clicks::journal::JOURNAL_FOLDER);
    wait_until("the backlog is removed", || rlinks_clicks::journal::folder_bytes(&journal) < 512 << 10);
    let full = ledger.answers();
    // The journal notices within a tick. While storing lags behind, the clients may fill it again: what counts is that it goes on.
    let later = || {
        let stored = stored(&sandbox);
        let names = stored.keys().filter_map(|name| name.strip_prefix(&path)?.parse::<usize>().ok());
        names.filter(|name| *name >= full + CLIENTS).count()
    };
    wait_until("clicks are stored again", || {
        ask(1);
        later() >= 200
    });
    stop(server);
    let (stored, dropped) = (stored(&sandbox), dropped(&sandbox));
    assert!(dropped > 0);
    assert_eq!(i64::try_from(stored.len()).unwrap() + dropped, i64::try_from(ledger.answers()).unwrap());
    assert_eq!(lost(&sandbox), dropped, "and nothing else");
    let kept = std::fs::metadata(sandbox.path("rlinks-data/clicks.db")).unwrap().len();
    assert!(kept > 500 << 10, "what was in the journal is stored: {kept} bytes");
    verify(&sandbox);
}

// ---- a bad disk ----

/// `strace` on a running server, until it is dropped. Threads it is not told of are left alone.
struct Fault {
    strace: Child,
    /// What it says it has seen.
    seen: NamedTempFile,
}

impl Fault {
    #[track_caller]
    fn on(pid: &str, flags: &[&str], calls: &str, fault: &str) -> Self {
        let seen = NamedTempFile::new().unwrap();
        let strace = Command::new("strace")
            .args(flags)
            .args(["-qq", "-e", &format!("trace={calls}"), "-p", pid])
            .args(["-e", &format!("inject={calls}:{fault}"), "-o"])
            .arg(seen.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("strace is needed: {error}"));
        wait_until("strace is there", || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line.starts_with("TracerPid:") && line != "TracerPid:\t0")
        });
        Self { strace, seen }
    }

    /// How many calls have taken their time.
    fn delayed(&self) -> usize {
        std::fs::read_to_string(self.seen.path()).unwrap().matches("(DELAYED)").count()
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        // It lets go of what it holds.
        let _ = kill_process(Pid::from_child(&self.strace), Signal::TERM);
        let _ = self.strace.wait();
    }
}

/// The thread that keeps the journal.
fn keeper(server: &ServerProcess) -> String {
    let tasks = format!("/proc/{}/task", server.pid());
    let name = |task: &Path| std::fs::read_to_string(task.join("comm")).unwrap_or_default();
    let mut tasks = std::fs::read_dir(tasks).unwrap().map(|task| task.unwrap().path());
    let keeper = tasks.find(|task| name(task).trim() == "journal").expect("a thread named journal");
    keeper.file_name().unwrap().to_string_lossy().into_owned()
}

/// How often a log says something.
fn times(server: &ServerProcess, text: &str) -> usize {
    server.log().matches(text).count()
}

/// Faults, row 16.
#[test]
fn failing_fsync_stops_no_redirect_and_loses_no_click() {
    let (sandbox, ledger) = (sandbox(), Ledger::slow());
    let mut server = serve(&sandbox, "--threads 2");
    wait_until("it is ready", || server.get("/ready").body.contains("\"ready\""));
    let failed = "the click journal could not be synced";
    ledger.while_asking(server.address, "", || {
        let fault = Fault::on(&keeper(&server), &[], "fdatasync", "error=EIO");
        wait_until("the keeper has failed three times", || times(&server, failed) >= 3);
        drop(fault);
        let enough = ledger.answers() + 200;
        wait_until("it goes on", || ledger.answers() >= enough);
        // Not only the keeper: now nothing can be synced, the database neither.
        let fault = Fault::on(&server.pid().to_string(), &["-f"], "fdatasync,fsync", "error=EIO");
        wait_until("clicks cannot be stored", || {
            server.says("clicks cannot be stored; the journal holds them")
        });
        let enough = ledger.answers() + 200;
        wait_until("redirects go on", || ledger.answers() >= enough);
        drop(fault);
    });
    // Without a restart.
    wait_for_clicks(&sandbox, ledger.answers());
    assert!(!server.has_ended() && !server.says("panicked"), "{}", server.log());
    server.signal(Signal::KILL);
    server.ends_within(10_000);
    settle(&sandbox, &ledger, 1);
    assert_eq!(lost(&sandbox), 0);
}

/// Faults, row 17.
#[test]
fn slow_disk_slows_no_redirect_and_loses_no_click() {
    let (sandbox, ledger) = (sandbox(), Ledger::slow());
    let mut server = serve(&sandbox, "--threads 2");
    wait_until("it is ready", || server.get("/ready").body.contains("\"ready\""));
    let fault = Fault::on(&keeper(&server), &[], "fdatasync", "delay_enter=300000");
    ledger.while_asking(server.address, "", || {
        wait_until("three syncs have taken their time", || fault.delayed() >= 3);
    });
    drop(fault);
    let mut took_ms = ledger.took_ms.lock().unwrap().clone();
    took_ms.sort_unstable();
    let p99_ms = took_ms[took_ms.len() * 99 / 100];
    println!("row 17: {} answers, p99 {p99_ms} ms, longest {} ms", took_ms.len(), took_ms[took_ms.len() - 1]);
    assert!(p99_ms < 200, "redirects wait for the disk: p99 {p99_ms} ms");
    assert!(!server.has_ended());
    server.signal(Signal::KILL);
    server.ends_within(10_000);
    settle(&sandbox, &ledger, 1);
    assert_eq!(lost(&sandbox), 0);
}
