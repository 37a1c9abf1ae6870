//! The source documents of the fabric, statement by statement, through the real binary.

use insta::assert_snapshot;

use crate::support::sandbox::Sandbox;

/// A sandbox whose domain is `rmax.to`.
fn rmax_to() -> Sandbox {
    Sandbox::new().with("RMAX_DOMAIN", "rmax.to")
}

#[test]
fn route_object_has_the_documented_shape() {
    let sandbox = rmax_to();
    assert_snapshot!(sandbox.rmax("links set parity https://paritybench.rmax.tech --note 'canonical parity benchmark' --tag research --tag benchmark"), @"
    exit 0
    --- stdout
    created https://rmax.to/parity -> https://paritybench.rmax.tech/
    ");
    assert_snapshot!(sandbox.rmax("links get parity"), @r#"
    exit 0
    --- stdout
    {
      "v": 1,
      "code": "parity",
      "target": "https://paritybench.rmax.tech/",
      "status": "active",
      "created_at": "<time>",
      "updated_at": "<time>",
      "created_by": "max@rmax.ai",
      "meta": {
        "notes": "canonical parity benchmark",
        "tags": [
          "benchmark",
          "research"
        ]
      },
      "rules": {
        "https_only": true,
        "no_loop": true,
        "expires_at": null
      },
      "stats": {
        "hits": 0,
        "last_hit": null
      }
    }
    "#);
}

#[test]
fn get_prints_json_with_or_without_the_flag() {
    let sandbox = rmax_to();
    sandbox.ok("links set parity https://paritybench.rmax.tech");
    assert_eq!(sandbox.ok("links get parity").stdout, sandbox.ok("--json links get parity").stdout);
    assert_eq!(sandbox.json("links set parity https://paritybench.rmax.tech --json"), sandbox.link("parity"));
}

#[test]
fn codes_are_lower_case_letters_digits_and_hyphens_up_to_64() {
    let sandbox = rmax_to();
    let longest = "a".repeat(64);
    for code in ["a", "0", "a-b", "2026-plan", "-", longest.as_str()] {
        sandbox.ok(&format!("links set -- {code} https://example.com/"));
        assert_eq!(sandbox.json(&format!("links get -- {code}"))["code"], code);
    }
    for code in ["a_b", "a.b", "a/b", "'a b'", "ü", "''", "a".repeat(65).as_str(), "a%41"] {
        sandbox.fails(5, &format!("links set {code} https://example.com/")).says("code: ");
    }
}

#[test]
fn upper_case_is_refused_with_the_lower_case_form_and_folded_when_reading() {
    let sandbox = rmax_to();
    assert_snapshot!(sandbox.rmax("links set Parity https://example.com/"), @"
    exit 5
    --- stderr
    error: code: may have lower-case letters, digits and hyphens only, not 'P'; try `parity`
    ");
    sandbox.ok("links set parity https://example.com/");
    assert_eq!(sandbox.link("PaRiTy")["code"], "parity");
    sandbox.ok("links disable PARITY");
    assert_eq!(sandbox.link("parity")["status"], "disabled");
}

#[test]
fn reserved_words_cannot_be_codes() {
    let sandbox = rmax_to();
    for word in ["api", "admin", "www", "health", "metrics", "bulk", "import", "export", "check"] {
        let ran = sandbox.fails(5, &format!("--json links set {word} https://example.com/"));
        assert_eq!(ran.error()["details"]["fields"][0]["code"], "reserved", "{word}");
    }
    sandbox.fails(5, "links set Admin https://example.com/").says("is a word the server keeps");
    sandbox.fails(5, "links set __admin__ https://example.com/");
}

#[test]
fn a_target_must_be_absolute() {
    let sandbox = rmax_to();
    for target in ["example.com", "/path", "//example.com", "https:example.com", "localhost:3000"] {
        let ran = sandbox.fails(5, &format!("--json links set x {target}"));
        assert_eq!(ran.error()["details"]["fields"][0]["code"], "not_absolute", "{target}");
    }
    for (target, code) in [
        ("javascript:alert(1)", "scheme"),
        ("https://good.com@evil.com/", "userinfo"),
        ("' https://example.com/'", "control_character"),
        ("https://a..b/", "bad_host"),
        ("''", "required"),
    ] {
        let ran = sandbox.fails(5, &format!("--json links set x {target}"));
        assert_eq!(ran.error()["details"]["fields"][0]["code"], code, "{target}");
    }
    assert_eq!(sandbox.json("links list --json"), serde_json::json!([]));
}

#[test]
fn https_is_required_unless_allowed() {
    let sandbox = rmax_to();
    assert_snapshot!(sandbox.rmax("links set plain http://example.com/"), @"
    exit 5
    --- stderr
    error: target: must be https; allow http with https_only off (--no-https)
    ");
    sandbox.ok("links set plain http://example.com/ --no-https");
    assert_eq!(sandbox.link("plain")["rules"]["https_only"], false);
    // Kept when not named again.
    sandbox.ok("links set plain http://example.com/other");
    assert_eq!(sandbox.link("plain")["rules"]["https_only"], false);
    sandbox.fails(5, "links set plain http://example.com/other --https");
    sandbox.ok("links set plain https://example.com/ --https");
    assert_eq!(sandbox.link("plain")["rules"]["https_only"], true);
}

#[test]
fn a_target_on_our_own_domain_is_a_loop_unless_allowed() {
    let sandbox = rmax_to();
    sandbox.ok("links set other https://example.com/");
    assert_snapshot!(sandbox.rmax("links set self https://rmax.to/other"), @"
    exit 5
    --- stderr
    error: target: leads back to rmax.to, a domain served here; allow it with no_loop off (--allow-loop)
    ");
    for host in ["RMAX.TO", "rmax.to.", "rmax.to:8443", "ｒｍａｘ.to"] {
        let ran = sandbox.fails(5, &format!("--json links set self https://{host}/other"));
        assert_eq!(ran.error()["details"]["fields"][0]["code"], "loop", "{host}");
    }
    sandbox.ok("links set self https://rmax.to/other --allow-loop");
    assert_eq!(sandbox.link("self")["rules"]["no_loop"], false);
    sandbox.fails(5, "links set self https://rmax.to/other --no-loop");
    // Allowed or not, visitors never go in circles.
    sandbox.fails(5, "links set other https://rmax.to/self --allow-loop").says("back to this link");
    sandbox.fails(5, "links set me https://rmax.to/me --allow-loop").says("back to this link");
}

#[test]
fn expiry_is_kept_and_must_lie_in_the_future() {
    let sandbox = rmax_to();
    sandbox.ok("links set soon https://example.com/ --expires 2099-01-31T12:00:00Z");
    assert_eq!(sandbox.link("soon")["rules"]["expires_at"], "2099-01-31T12:00:00Z");
    for (given, meant) in [
        ("2099-01-31T14:00:00+02:00", "2099-01-31T12:00:00Z"),
        ("2099-01-31", "2099-01-31T00:00:00Z"),
        ("2099-01-31T12:00", "2099-01-31T12:00:00Z"),
        ("4073544000", "2099-01-31T12:00:00Z"),
    ] {
        sandbox.ok(&format!("links set soon https://example.com/ --expires {given}"));
        assert_eq!(sandbox.link("soon")["rules"]["expires_at"], meant, "{given}");
    }
    // Kept when not named.
    sandbox.ok("links set soon https://example.com/new");
    assert_eq!(sandbox.link("soon")["rules"]["expires_at"], "2099-01-31T12:00:00Z");
    sandbox.ok("links set soon https://example.com/new --no-expiry");
    assert!(sandbox.link("soon")["rules"]["expires_at"].is_null());

    assert_snapshot!(sandbox.rmax("links set soon https://example.com/ --expires 2020-01-01T00:00:00Z"), @"
    exit 5
    --- stderr
    error: expires_at: is already over (2020-01-01T00:00:00Z); give a time to come
    ");
    for (given, code) in [("tomorrow", "not_a_time"), ("4073544000000", "milliseconds"), ("-5", "not_a_time")]
    {
        let ran = sandbox.fails(5, &format!("--json links set soon https://example.com/ --expires {given}"));
        assert_eq!(ran.error()["details"]["fields"][0]["code"], code, "{given}");
    }
}

#[test]
fn identity_fields_never_change() {
    let sandbox = rmax_to();
    sandbox.ok("links set parity https://example.com/a");
    let first = sandbox.link("parity");
    let sandbox = sandbox.with("RMAX_IDENTITY", "somebody@else.example");
    sandbox.ok("links set parity https://example.com/b --tag x");
    sandbox.ok("links disable parity");
    let last = sandbox.link("parity");
    for field in ["code", "created_at", "created_by", "v"] {
        assert_eq!(first[field], last[field], "{field}");
    }
    assert_eq!(last["created_by"], "max@rmax.ai");
}

#[test]
fn updated_at_changes_only_with_a_real_change() {
    let sandbox = rmax_to();
    sandbox.ok("links set parity https://example.com/ --tag a --note n");
    let seen = sandbox.link("parity")["updated_at"].clone();
    let changes = sandbox.changes();
    for line in [
        "links set parity https://example.com/",
        "links set parity https://example.com/ --tag a --note n --untag z",
        "links set parity HTTPS://EXAMPLE.com --https --no-loop --status 301 --no-expiry",
        "links enable parity",
        "links restore parity",
    ] {
        assert!(sandbox.ok(line).stdout.starts_with("unchanged "), "{line}");
        assert_eq!(sandbox.link("parity")["updated_at"], seen, "{line}");
    }
    assert_eq!(sandbox.changes(), changes);
    let mut seen = seen.to_string();
    for line in
        ["links set parity https://example.com/ --tag b", "links disable parity", "links enable parity"]
    {
        sandbox.ok(line);
        let now = sandbox.link("parity")["updated_at"].to_string();
        assert!(now > seen, "{line}");
        seen = now;
    }
}

#[test]
fn set_reactivates_a_disabled_link() {
    let sandbox = rmax_to();
    sandbox.ok("links set parity https://example.com/");
    assert_snapshot!(sandbox.rmax("links disable parity"), @"
    exit 0
    --- stdout
    disabled https://rmax.to/parity -> https://example.com/
    ");
    assert_eq!(sandbox.link("parity")["status"], "disabled");
    assert_snapshot!(sandbox.rmax("explain https://rmax.to/parity"), @"
    exit 0
    --- stdout
    rmax.to/parity
      host    rmax.to is answered by workspace main
      code    parity
      link    leads to https://example.com/
      state   disabled
      answer  404 NOT_FOUND
    ");
    sandbox.ok("links set parity https://example.com/");
    assert_eq!(sandbox.link("parity")["status"], "active");
    sandbox.ok("links disable parity");
    assert_snapshot!(sandbox.rmax("links enable parity"), @"
    exit 0
    --- stdout
    enabled https://rmax.to/parity -> https://example.com/
    ");
}

#[test]
fn every_mutation_is_audited() {
    let sandbox = rmax_to();
    sandbox.ok("links set parity https://example.com/");
    sandbox.ok("links set parity https://example.com/b");
    sandbox.ok("links disable parity");
    sandbox.ok("links enable parity");
    sandbox.ok("links delete parity --yes");
    sandbox.ok("links restore parity");
    sandbox.ok("links delete parity --yes");
    sandbox.ok("links set parity https://example.com/c --recreate");
    assert_snapshot!(sandbox.rmax("audit list"), @"
    exit 0
    --- stdout
    SEQ  TIME                      ACTOR        ACTION            SUBJECT
    10   <time>  max@rmax.ai  link.recreate     link:parity
    9    <time>  max@rmax.ai  link.delete       link:parity
    8    <time>  max@rmax.ai  link.restore      link:parity
    7    <time>  max@rmax.ai  link.delete       link:parity
    6    <time>  max@rmax.ai  link.enable       link:parity
    5    <time>  max@rmax.ai  link.disable      link:parity
    4    <time>  max@rmax.ai  link.update       link:parity
    3    <time>  max@rmax.ai  link.create       link:parity
    2    <time>  max@rmax.ai  domain.add        domain:rmax.to
    1    <time>  system       workspace.create  workspace:main
    ");
}

#[test]
fn created_by_is_the_configured_identity_then_gits_then_user_at_host() {
    let sandbox = Sandbox::new().with("RMAX_IDENTITY", "").with("USER", "ada");
    sandbox.ok("links set a https://example.com/");
    let by = sandbox.link("a")["created_by"].as_str().unwrap().to_owned();
    assert!(by.starts_with("ada@") && by.len() > 4, "{by}");

    sandbox.write("home/.gitconfig", "[user]\n\temail = git@example.com\n");
    sandbox.ok("links set b https://example.com/");
    assert_eq!(sandbox.link("b")["created_by"], "git@example.com");

    sandbox.write("rmax.toml", "identity = \"file@example.com\"\n");
    sandbox.ok("links set c https://example.com/");
    assert_eq!(sandbox.link("c")["created_by"], "file@example.com");
}
