//! Heads that are pushed into a bucket. Needs an S3 server: `scripts/with-s3 cargo test -p rmax -- outside_s3`.

use crate::support::raw_client::{send_request, wait_until};
use crate::support::sandbox::Sandbox;
use crate::support::server_process::serve;

#[expect(clippy::disallowed_methods, reason = "the server's address comes from the script that started it")]
fn variable(name: &str) -> String {
    std::env::var(name).expect("run this through scripts/with-s3")
}

/// Row 10.
#[test]
fn heads_pushed_into_a_bucket_verify_the_chain() {
    let bucket = variable("RLINKS_TEST_S3_BUCKET");
    let mut sandbox = Sandbox::new()
        .with("RMAX_AUDIT_PUSH", &format!("s3://{bucket}/audit"))
        .with("RMAX_METRICS_LOOPBACK", "true");
    for name in
        ["AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ALLOW_HTTP"]
    {
        sandbox = sandbox.with(name, &variable(name));
    }
    sandbox.ok("links set a https://example.com/a");
    let server = serve(&sandbox, "");
    wait_until("the heads are there", || {
        server.get("/metrics").body.contains("rlinks_audit_pushes_total{kind=\"s3\",outcome=\"sent\"} 1")
    });
    server.stop();
    let endpoint = variable("AWS_ENDPOINT_URL");
    let host = endpoint.trim_start_matches("http://").trim_end_matches('/');
    let ask = |path: &str| {
        // The server reads the bucket from the host, if that isn't an address, and verifies no signature.
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: AWS4-HMAC-SHA256 \
             Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n\r\n"
        );
        send_request(host.parse().unwrap(), request.as_bytes())
    };
    let listed = ask(&format!("/{bucket}?list-type=2&prefix=audit/"));
    let (_, key) = listed.body.split_once("<Key>audit/audit-heads-").unwrap_or_else(|| panic!("{listed:?}"));
    let name = key.split('<').next().unwrap();
    let object = ask(&format!("/{bucket}/audit/audit-heads-{name}"));
    assert_eq!(object.status, 200, "{object:?}");
    sandbox.write("pushed", &object.body);
    sandbox.ok("audit verify --checkpoint pushed");
}
