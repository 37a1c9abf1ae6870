//! What SIGHUP takes over, and what it cannot.

use std::fs::File;

use rustix::process::{Pid, Signal, kill_process};

use crate::client::wait_until;
use crate::place::Place;

#[test]
fn sighup_names_what_needs_a_restart() {
    let place = Place::new();
    place.write("rmax.toml", "trusted_proxies = []\ncache_mb = 16\n");
    let log = File::create(place.path("log")).unwrap();
    let mut server = place.command("serve --listen 127.0.0.1:0").stderr(log).spawn().unwrap();
    let pid = Pid::from_child(&server);
    wait_until("it serves", || place.read("log").contains("serving redirects on"));

    place.write(
        "rmax.toml",
        "trusted_proxies = [\"::1\"]\ncache_mb = 16\npublic_url = \"https://go.example\"\n",
    );
    kill_process(pid, Signal::HUP).unwrap();
    let read = |times: usize| place.read("log").matches("the configuration was read again").count() == times;
    wait_until("it has read", || read(1));
    assert!(!place.read("log").contains("restart"), "{}", place.read("log"));

    place.write("rmax.toml", "domain = \"rmax.to\"\nthreads = 3\n[log]\nlevel = \"debug\"\n");
    kill_process(pid, Signal::HUP).unwrap();
    wait_until("it has read", || read(2));
    let text = "in force only after a restart: domain, threads, cache_mb, log.level";
    assert!(place.read("log").contains(text), "{}", place.read("log"));

    kill_process(pid, Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
}
