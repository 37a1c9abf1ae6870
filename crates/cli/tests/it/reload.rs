//! What SIGHUP takes over, and what it cannot.

use std::fs::File;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::raw_client::wait_until;
use crate::support::sandbox::Sandbox;

#[test]
fn sighup_logs_settings_that_need_a_restart() {
    let sandbox = Sandbox::new();
    sandbox.write("rmax.toml", "trusted_proxies = []\ncache_mb = 16\n");
    let log = File::create(sandbox.path("log")).unwrap();
    let mut server = sandbox.command("serve --listen 127.0.0.1:0").stderr(log).spawn().unwrap();
    let pid = Pid::from_child(&server);
    wait_until("it serves", || sandbox.read("log").contains("serving redirects on"));

    sandbox.write(
        "rmax.toml",
        "trusted_proxies = [\"::1\"]\ncache_mb = 16\npublic_url = \"https://go.example\"\n",
    );
    kill_process(pid, Signal::HUP).unwrap();
    let read =
        |times: usize| sandbox.read("log").matches("the configuration was read again").count() == times;
    wait_until("it has read", || read(1));
    assert!(!sandbox.read("log").contains("restart"), "{}", sandbox.read("log"));

    sandbox.write("rmax.toml", "domain = \"rmax.to\"\nthreads = 3\n[log]\nlevel = \"debug\"\n");
    kill_process(pid, Signal::HUP).unwrap();
    wait_until("it has read", || read(2));
    let text = "in force only after a restart: domain, threads, cache_mb, log.level";
    assert!(sandbox.read("log").contains(text), "{}", sandbox.read("log"));

    kill_process(pid, Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
}
