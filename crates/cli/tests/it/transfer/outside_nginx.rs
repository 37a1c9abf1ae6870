//! The map for nginx, served by a real nginx beside a real `rmax serve`: both answer alike. Run by `scripts/stage/35-outside`.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use crate::client::{Answer, ask, wait_until};
use crate::place::Place;
use crate::serve::served::serve;

/// A running nginx. Dropping it ends it.
struct Nginx {
    child: Child,
    address: SocketAddr,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What docs/import-export.md tells people to write.
const SERVER: &str = "
    merge_slashes off;
    location / {
        if ($rlinks_301) { return 301 $rlinks_301; }
        if ($rlinks_302) { return 302 $rlinks_302; }
        if ($rlinks_307) { return 307 $rlinks_307; }
        if ($rlinks_308) { return 308 $rlinks_308; }
        return 404;
    }
";

fn nginx(place: &Place) -> Nginx {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = place.path("nginx");
    std::fs::create_dir_all(&folder).unwrap();
    let temporary: Vec<String> = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("    {kind}_temp_path {}/{kind};", folder.display()))
        .collect();
    let temporary = temporary.join("\n");
    place.write(
        "nginx/nginx.conf",
        &format!(
            "daemon off;\nmaster_process off;\npid {0}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n{temporary}\n    access_log off;\n    map_hash_bucket_size 256;\n    map_hash_max_size 65536;\n    include {1};\n    server {{\n        listen {address};\n{SERVER}    }}\n}}\n",
            folder.display(),
            place.path("links.nginx.conf").display(),
        ),
    );
    let find = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];
    let program = find.into_iter().find(|path| std::path::Path::new(path).exists()).unwrap_or("nginx");
    let child = Command::new(program)
        .args(["-p", &folder.to_string_lossy(), "-c", &folder.join("nginx.conf").to_string_lossy()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("nginx is needed (scripts/stage/00-fetch installs it): {error}"));
    let mut nginx = Nginx { child, address };
    wait_until("nginx listens", || {
        assert!(nginx.child.try_wait().unwrap().is_none(), "nginx ended");
        std::net::TcpStream::connect(nginx.address).is_ok()
    });
    nginx
}

fn get(address: SocketAddr, path: &str) -> Answer {
    ask(address, format!("GET {path} HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\n\r\n").as_bytes())
}

#[track_caller]
fn alike(place: &Place, flags: &str, paths: &[&str]) {
    place.ok(&format!("{flags} links export links.nginx.conf --format nginx --force"));
    let (server, nginx) = (serve(place, ""), nginx(place));
    for path in paths {
        let (ours, theirs) = (get(server.address, path), get(nginx.address, path));
        let place = |answer: &Answer| answer.location().map(str::to_owned);
        // Nginx does not know why something is gone.
        let status = if ours.status == 410 { 404 } else { ours.status };
        assert_eq!((theirs.status, place(&theirs)), (status, place(&ours)), "{path}");
    }
}

#[test]
fn a_fabric_answers_alike() {
    let place = Place::new();
    place.ok("domains add rmax.to");
    for status in [301, 302, 307, 308] {
        place.ok(&format!("links set s{status} https://example.com/{status} --status {status}"));
    }
    place.ok("links set odd 'https://example.com/?a=$b&c=${d}&e=\"f\";{x}#g\\h%20i'");
    place.ok("links set off https://example.com/");
    place.ok("links disable off");
    place.ok("links set dead https://example.com/");
    place.ok("links delete dead --yes");
    place.ok("links set over https://example.com/ --expires 2099-01-01");
    place.write("old.jsonl", r#"{"code":"old","target":"https://example.com/","expires_at":"2020-01-01"}"#);
    place.ok("links import old.jsonl");
    place.ok(&format!("links set long https://example.com/{}", "x".repeat(1_900)));
    alike(
        &place,
        "",
        &[
            "/s301",
            "/s302",
            "/s307",
            "/s308",
            "/S301",
            "/odd",
            "/off",
            "/dead",
            "/over",
            "/old",
            "/long",
            "/nothing",
            "/s301/",
            "/s301/x",
            "/s301?q=1",
            "/%73301",
            "//s301",
            "/s30",
        ],
    );
}

#[test]
fn where_case_matters_it_matters_there() {
    let place = Place::new();
    place.ok("workspaces create crew --preset team");
    place.ok("domains add rmax.to --workspace crew");
    for (code, page) in [("AbC", "one"), ("abc", "two"), ("Only", "three"), ("lower", "four")] {
        place.ok(&format!("--workspace crew links set {code} https://example.com/{page}"));
    }
    alike(
        &place,
        "--workspace crew",
        &["/AbC", "/abc", "/ABC", "/Only", "/only", "/ONLY", "/lower", "/Lower", "/nothing"],
    );
}
