//! `audit.push`: the ends of the chains, signed, where nobody who can write the data folder can change them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};

use serde_json::Value;

use crate::support::raw_client::wait_until;
use crate::support::sandbox::Sandbox;
use crate::support::server_process::serve;

/// Takes one request and gives its body.
fn receive(listener: &TcpListener, answer: &str) -> String {
    let (stream, _) = listener.accept().unwrap();
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    stream.get_mut().write_all(answer.as_bytes()).unwrap();
    String::from_utf8(body).unwrap()
}

/// Row 10.
#[test]
fn pushed_heads_reveal_a_forged_chain() {
    let webhook = TcpListener::bind("127.0.0.1:0").unwrap();
    let syslog = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = format!(
        "http://{}/secret-path,syslog://{}",
        webhook.local_addr().unwrap(),
        syslog.local_addr().unwrap()
    );
    let sandbox = Sandbox::new();
    for code in ["a", "b", "c"] {
        sandbox.ok(&format!("links set {code} https://example.com/{code}"));
    }
    let sandbox = sandbox.with("RMAX_AUDIT_PUSH", &to);
    let server = serve(&sandbox, "");
    let pushed = receive(&webhook, "HTTP/1.1 204 No Content\r\n\r\n");
    let mut datagram = [0; 4096];
    let length = syslog.recv(&mut datagram).unwrap();
    let message = String::from_utf8(datagram[..length].to_vec()).unwrap();
    server.stop();

    // Both hold what `audit verify` reads.
    let body: Value = serde_json::from_str(&pushed).unwrap();
    assert_eq!(
        (&body["checkpoints"][0]["workspace"], &body["checkpoints"][0]["seq"]),
        (&"main".into(), &4.into())
    );
    let (head, text) = message.split_once(" - rmax - audit-head - ").unwrap();
    assert!(head.starts_with("<109>1 20"), "{message}");
    sandbox.write("pushed", &pushed);
    sandbox.write("logged", text);
    for checkpoint in ["pushed", "logged"] {
        assert_eq!(sandbox.ok(&format!("audit verify --checkpoint {checkpoint}")).stderr, "");
    }
    // With the key and the log at hand the chain can be cut, and signed anew. What is elsewhere still says otherwise.
    sandbox.tamper("delete from audit where seq > 2; update heads set seq = 2, hash = (select hash from audit where seq = 2), links = 1; delete from links where code in ('b', 'c'); delete from audit_keys");
    std::fs::remove_file(sandbox.path("rlinks-data/audit-heads.log")).unwrap();
    sandbox.ok("links set d https://example.com/d");
    sandbox.ok("audit verify");
    for checkpoint in ["pushed", "logged"] {
        let ran = sandbox.rmax(&format!("audit verify --checkpoint {checkpoint}"));
        assert_eq!(ran.code, Some(1), "{ran}");
        ran.says("workspace main, entry 4: is missing");
    }
    let shown = sandbox.ok("serve --print-config").stdout;
    assert!(shown.contains("audit.push") && !shown.contains("secret-path"), "{shown}");
}

/// Row 10.
#[test]
fn push_destination_that_is_away_delays_nothing_and_is_counted() {
    let webhook = TcpListener::bind("127.0.0.1:0").unwrap();
    let sandbox =
        Sandbox::new().with("RMAX_AUDIT_PUSH", &format!("http://{}/hook", webhook.local_addr().unwrap()));
    sandbox.ok("links set a https://example.com/a");
    let sandbox = sandbox.with("RMAX_METRICS_LOOPBACK", "true");
    let server = serve(&sandbox, "");
    receive(&webhook, "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n");
    wait_until("it is counted", || {
        let metrics = server.get("/metrics").body;
        metrics.contains("rlinks_audit_pushes_total{kind=\"webhook\",outcome=\"failed\"} 1")
    });
    assert!(server.says("the audit heads could not be pushed"));
    assert_eq!(server.status("/a"), 301);
    // It is tried again.
    let again = receive(&webhook, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    assert!(again.contains("\"checkpoints\""), "{again}");
    wait_until("it is counted", || {
        let metrics = server.get("/metrics").body;
        metrics.contains("rlinks_audit_pushes_total{kind=\"webhook\",outcome=\"sent\"} 1")
    });
    server.stop();
    for wrong in ["ftp://example.com/", "s3://", "syslog+unix://", "nonsense"] {
        let sandbox = Sandbox::new().with("RMAX_AUDIT_PUSH", wrong);
        assert_eq!(sandbox.rmax("serve --print-config").code, Some(2), "{wrong}");
    }
}
