//! The map for nginx, served by a real nginx beside a real `rmax serve`: both answer alike. Run by `scripts/stage/35-outside`.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use crate::support::raw_client::{Response, send_request, wait_until};
use crate::support::sandbox::Sandbox;
use crate::support::server_process::serve;

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

fn nginx(sandbox: &Sandbox) -> Nginx {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = sandbox.path("nginx");
    std::fs::create_dir_all(&folder).unwrap();
    let temporary: Vec<String> = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("    {kind}_temp_path {}/{kind};", folder.display()))
        .collect();
    let temporary = temporary.join("\n");
    sandbox.write(
        "nginx/nginx.conf",
        &format!(
            "daemon off;\nmaster_process off;\npid {0}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n{temporary}\n    access_log off;\n    map_hash_bucket_size 256;\n    map_hash_max_size 65536;\n    include {1};\n    server {{\n        listen {address};\n{SERVER}    }}\n}}\n",
            folder.display(),
            sandbox.path("links.nginx.conf").display(),
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

fn get(address: SocketAddr, path: &str) -> Response {
    send_request(
        address,
        format!("GET {path} HTTP/1.1\r\nHost: rmax.to\r\nConnection: close\r\n\r\n").as_bytes(),
    )
}

#[track_caller]
fn alike(sandbox: &Sandbox, flags: &str, paths: &[&str]) {
    sandbox.ok(&format!("{flags} links export links.nginx.conf --format nginx --force"));
    let (server, nginx) = (serve(sandbox, ""), nginx(sandbox));
    for path in paths {
        let (ours, theirs) = (get(server.address, path), get(nginx.address, path));
        let sandbox = |answer: &Response| answer.location().map(str::to_owned);
        // Nginx does not know why something is gone.
        let status = if ours.status == 410 { 404 } else { ours.status };
        assert_eq!((theirs.status, sandbox(&theirs)), (status, sandbox(&ours)), "{path}");
    }
}

#[test]
fn exported_map_redirects_like_the_server() {
    let sandbox = Sandbox::new();
    sandbox.ok("domains add rmax.to");
    for status in [301, 302, 307, 308] {
        sandbox.ok(&format!("links set s{status} https://example.com/{status} --status {status}"));
    }
    sandbox.ok("links set odd 'https://example.com/?a=$b&c=${d}&e=\"f\";{x}#g\\h%20i'");
    sandbox.ok("links set off https://example.com/");
    sandbox.ok("links disable off");
    sandbox.ok("links set dead https://example.com/");
    sandbox.ok("links delete dead --yes");
    sandbox.ok("links set over https://example.com/ --expires 2099-01-01");
    sandbox.write("old.jsonl", r#"{"code":"old","target":"https://example.com/","expires_at":"2020-01-01"}"#);
    sandbox.ok("links import old.jsonl");
    sandbox.ok(&format!("links set long https://example.com/{}", "x".repeat(1_900)));
    alike(
        &sandbox,
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
fn exported_map_is_case_sensitive_where_codes_are() {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces create crew --preset team");
    sandbox.ok("domains add rmax.to --workspace crew");
    for (code, page) in [("AbC", "one"), ("abc", "two"), ("Only", "three"), ("lower", "four")] {
        sandbox.ok(&format!("--workspace crew links set {code} https://example.com/{page}"));
    }
    alike(
        &sandbox,
        "--workspace crew",
        &["/AbC", "/abc", "/ABC", "/Only", "/only", "/ONLY", "/lower", "/Lower", "/nothing"],
    );
}
