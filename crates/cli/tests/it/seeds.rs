//! The source documents of the fabric, statement by statement, through the real binary.

use insta::assert_snapshot;

use crate::place::Place;

/// A place whose domain is `rmax.to`.
fn rmax_to() -> Place {
    Place::new().with("RMAX_DOMAIN", "rmax.to")
}

#[test]
fn the_route_object_has_the_seeds_shape() {
    let place = rmax_to();
    assert_snapshot!(place.rmax("links set parity https://paritybench.rmax.tech --note 'canonical parity benchmark' --tag research --tag benchmark"), @"
    exit 0
    --- stdout
    created https://rmax.to/parity -> https://paritybench.rmax.tech/
    ");
    assert_snapshot!(place.rmax("links get parity"), @r#"
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
fn json_makes_no_difference_to_get() {
    let place = rmax_to();
    place.ok("links set parity https://paritybench.rmax.tech");
    assert_eq!(place.ok("links get parity").stdout, place.ok("--json links get parity").stdout);
    assert_eq!(place.json("links set parity https://paritybench.rmax.tech --json"), place.link("parity"));
}

#[test]
fn codes_are_lower_case_letters_digits_and_hyphens_up_to_64() {
    let place = rmax_to();
    let longest = "a".repeat(64);
    for code in ["a", "0", "a-b", "2026-plan", "-", longest.as_str()] {
        place.ok(&format!("links set -- {code} https://example.com/"));
        assert_eq!(place.json(&format!("links get -- {code}"))["code"], code);
    }
    for code in ["a_b", "a.b", "a/b", "'a b'", "ü", "''", "a".repeat(65).as_str(), "a%41"] {
        place.fails(5, &format!("links set {code} https://example.com/")).says("code: ");
    }
}

#[test]
fn upper_case_is_refused_with_the_lower_case_form_and_folded_when_reading() {
    let place = rmax_to();
    assert_snapshot!(place.rmax("links set Parity https://example.com/"), @"
    exit 5
    --- stderr
    error: code: may have lower-case letters, digits and hyphens only, not 'P'; try `parity`
    ");
    place.ok("links set parity https://example.com/");
    assert_eq!(place.link("PaRiTy")["code"], "parity");
    place.ok("links disable PARITY");
    assert_eq!(place.link("parity")["status"], "disabled");
}

#[test]
fn reserved_words_cannot_be_codes() {
    let place = rmax_to();
    for word in ["api", "admin", "www", "health", "metrics", "bulk", "import", "export", "check"] {
        let ran = place.fails(5, &format!("--json links set {word} https://example.com/"));
        assert_eq!(ran.error()["details"]["fields"][0]["code"], "reserved", "{word}");
    }
    place.fails(5, "links set Admin https://example.com/").says("is a word the server keeps");
    place.fails(5, "links set __admin__ https://example.com/");
}

#[test]
fn a_target_must_be_absolute() {
    let place = rmax_to();
    for target in ["example.com", "/path", "//example.com", "https:example.com", "localhost:3000"] {
        let ran = place.fails(5, &format!("--json links set x {target}"));
        assert_eq!(ran.error()["details"]["fields"][0]["code"], "not_absolute", "{target}");
    }
    for (target, code) in [
        ("javascript:alert(1)", "scheme"),
        ("https://good.com@evil.com/", "userinfo"),
        ("' https://example.com/'", "control_character"),
        ("https://a..b/", "bad_host"),
        ("''", "required"),
    ] {
        let ran = place.fails(5, &format!("--json links set x {target}"));
        assert_eq!(ran.error()["details"]["fields"][0]["code"], code, "{target}");
    }
    assert_eq!(place.json("links list --json"), serde_json::json!([]));
}

#[test]
fn https_is_required_unless_allowed() {
    let place = rmax_to();
    assert_snapshot!(place.rmax("links set plain http://example.com/"), @"
    exit 5
    --- stderr
    error: target: must be https; allow http with https_only off (--no-https)
    ");
    place.ok("links set plain http://example.com/ --no-https");
    assert_eq!(place.link("plain")["rules"]["https_only"], false);
    // Kept when not named again.
    place.ok("links set plain http://example.com/other");
    assert_eq!(place.link("plain")["rules"]["https_only"], false);
    place.fails(5, "links set plain http://example.com/other --https");
    place.ok("links set plain https://example.com/ --https");
    assert_eq!(place.link("plain")["rules"]["https_only"], true);
}

#[test]
fn a_target_on_our_own_domain_is_a_loop_unless_allowed() {
    let place = rmax_to();
    place.ok("links set other https://example.com/");
    assert_snapshot!(place.rmax("links set self https://rmax.to/other"), @"
    exit 5
    --- stderr
    error: target: leads back to rmax.to, a domain served here; allow it with no_loop off (--allow-loop)
    ");
    for host in ["RMAX.TO", "rmax.to.", "rmax.to:8443", "ｒｍａｘ.to"] {
        let ran = place.fails(5, &format!("--json links set self https://{host}/other"));
        assert_eq!(ran.error()["details"]["fields"][0]["code"], "loop", "{host}");
    }
    place.ok("links set self https://rmax.to/other --allow-loop");
    assert_eq!(place.link("self")["rules"]["no_loop"], false);
    place.fails(5, "links set self https://rmax.to/other --no-loop");
    // Allowed or not, visitors never go in circles.
    place.fails(5, "links set other https://rmax.to/self --allow-loop").says("back to this link");
    place.fails(5, "links set me https://rmax.to/me --allow-loop").says("back to this link");
}

#[test]
fn an_expiry_is_kept_shown_and_never_in_the_past() {
    let place = rmax_to();
    place.ok("links set soon https://example.com/ --expires 2099-01-31T12:00:00Z");
    assert_eq!(place.link("soon")["rules"]["expires_at"], "2099-01-31T12:00:00Z");
    for (given, meant) in [
        ("2099-01-31T14:00:00+02:00", "2099-01-31T12:00:00Z"),
        ("2099-01-31", "2099-01-31T00:00:00Z"),
        ("2099-01-31T12:00", "2099-01-31T12:00:00Z"),
        ("4073544000", "2099-01-31T12:00:00Z"),
    ] {
        place.ok(&format!("links set soon https://example.com/ --expires {given}"));
        assert_eq!(place.link("soon")["rules"]["expires_at"], meant, "{given}");
    }
    // Kept when not named.
    place.ok("links set soon https://example.com/new");
    assert_eq!(place.link("soon")["rules"]["expires_at"], "2099-01-31T12:00:00Z");
    place.ok("links set soon https://example.com/new --no-expiry");
    assert!(place.link("soon")["rules"]["expires_at"].is_null());

    assert_snapshot!(place.rmax("links set soon https://example.com/ --expires 2020-01-01T00:00:00Z"), @"
    exit 5
    --- stderr
    error: expires_at: is already over (2020-01-01T00:00:00Z); give a time to come
    ");
    for (given, code) in [("tomorrow", "not_a_time"), ("4073544000000", "milliseconds"), ("-5", "not_a_time")]
    {
        let ran = place.fails(5, &format!("--json links set soon https://example.com/ --expires {given}"));
        assert_eq!(ran.error()["details"]["fields"][0]["code"], code, "{given}");
    }
}

#[test]
fn what_never_changes_never_changes() {
    let place = rmax_to();
    place.ok("links set parity https://example.com/a");
    let first = place.link("parity");
    let place = place.with("RMAX_IDENTITY", "somebody@else.example");
    place.ok("links set parity https://example.com/b --tag x");
    place.ok("links disable parity");
    let last = place.link("parity");
    for field in ["code", "created_at", "created_by", "v"] {
        assert_eq!(first[field], last[field], "{field}");
    }
    assert_eq!(last["created_by"], "max@rmax.ai");
}

#[test]
fn updated_at_moves_with_every_change_and_only_then() {
    let place = rmax_to();
    place.ok("links set parity https://example.com/ --tag a --note n");
    let seen = place.link("parity")["updated_at"].clone();
    let changes = place.changes();
    for line in [
        "links set parity https://example.com/",
        "links set parity https://example.com/ --tag a --note n --untag z",
        "links set parity HTTPS://EXAMPLE.com --https --no-loop --status 301 --no-expiry",
        "links enable parity",
        "links restore parity",
    ] {
        assert!(place.ok(line).stdout.starts_with("unchanged "), "{line}");
        assert_eq!(place.link("parity")["updated_at"], seen, "{line}");
    }
    assert_eq!(place.changes(), changes);
    let mut seen = seen.to_string();
    for line in
        ["links set parity https://example.com/ --tag b", "links disable parity", "links enable parity"]
    {
        place.ok(line);
        let now = place.link("parity")["updated_at"].to_string();
        assert!(now > seen, "{line}");
        seen = now;
    }
}

#[test]
fn disabled_is_a_status_and_set_activates_again() {
    let place = rmax_to();
    place.ok("links set parity https://example.com/");
    assert_snapshot!(place.rmax("links disable parity"), @"
    exit 0
    --- stdout
    disabled https://rmax.to/parity -> https://example.com/
    ");
    assert_eq!(place.link("parity")["status"], "disabled");
    assert_snapshot!(place.rmax("explain https://rmax.to/parity"), @"
    exit 0
    --- stdout
    rmax.to/parity
      host    rmax.to is answered by workspace main
      code    parity
      link    leads to https://example.com/
      state   disabled
      answer  404 NOT_FOUND
    ");
    place.ok("links set parity https://example.com/");
    assert_eq!(place.link("parity")["status"], "active");
    place.ok("links disable parity");
    assert_snapshot!(place.rmax("links enable parity"), @"
    exit 0
    --- stdout
    enabled https://rmax.to/parity -> https://example.com/
    ");
}

#[test]
fn every_mutation_is_audited() {
    let place = rmax_to();
    place.ok("links set parity https://example.com/");
    place.ok("links set parity https://example.com/b");
    place.ok("links disable parity");
    place.ok("links enable parity");
    place.ok("links delete parity --yes");
    place.ok("links restore parity");
    place.ok("links delete parity --yes");
    place.ok("links set parity https://example.com/c --recreate");
    assert_snapshot!(place.rmax("audit list"), @"
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
    let place = Place::new().with("RMAX_IDENTITY", "").with("USER", "ada");
    place.ok("links set a https://example.com/");
    let by = place.link("a")["created_by"].as_str().unwrap().to_owned();
    assert!(by.starts_with("ada@") && by.len() > 4, "{by}");

    place.write("home/.gitconfig", "[user]\n\temail = git@example.com\n");
    place.ok("links set b https://example.com/");
    assert_eq!(place.link("b")["created_by"], "git@example.com");

    place.write("rmax.toml", "identity = \"file@example.com\"\n");
    place.ok("links set c https://example.com/");
    assert_eq!(place.link("c")["created_by"], "file@example.com");
}
