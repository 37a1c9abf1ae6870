//! `rmax links import` and `export`: files of ours and of others, in and out again.

mod foreign_formats;
mod hostile;
mod outside_nginx;

use insta::assert_snapshot;
use serde_json::json;

use crate::support::import_files::{exported_link, import_file, varied_store};
use crate::support::sandbox::Sandbox;
use crate::support::server_process::serve;

// ---- the same state again ----

#[test]
fn exact_import_reproduces_the_export() {
    let sandbox = varied_store();
    sandbox.ok("links export all.jsonl");
    sandbox.ok("links export all.csv");
    assert!(sandbox.read("all.jsonl").lines().count() > 700);
    for name in ["all.jsonl", "all.csv"] {
        let other = Sandbox::new();
        let file = sandbox.path(name).to_string_lossy().into_owned();
        let report = other.json(&format!("links import {file} --exact --json"));
        assert_eq!((&report["created"], &report["rows"]), (&report["rows"], &report["created"]));
        other.ok("links export again.jsonl");
        other.ok("links export again.csv");
        assert_eq!(other.read("again.jsonl"), sandbox.read("all.jsonl"), "{name}");
        assert_eq!(other.read("again.csv"), sandbox.read("all.csv"), "{name}");
        other.ok("audit verify");
        other.ok("doctor");
        // Counting anew leaves what was counted elsewhere alone.
        other.ok("clicks recompute");
        assert_eq!(other.ok("links export").stdout, sandbox.read("all.jsonl"), "{name}");
        // And once more is no news.
        let again = other.json(&format!("links import {file} --exact --json"));
        assert_eq!((&again["skipped"], &again["created"]), (&report["rows"], &json!(0)));
        assert_eq!(other.ok("links export").stdout, sandbox.read("all.jsonl"), "{name}");
    }
}

#[test]
fn imported_ids_are_never_given_out_again() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set a https://example.com/");
    sandbox.ok("links export all.jsonl");
    let id: i64 = exported_link(&sandbox, "a")["id"].as_str().unwrap().parse().unwrap();
    // The same millisecond's next ids, as if another store had made them a moment from now.
    let lines: Vec<String> = (1..=3)
        .map(|n| {
            let later = id + (n << 22) + 3_600_000 * (1 << 22);
            format!(r#"{{"code":"b{n}","target":"https://example.com/","id":"{later}"}}"#)
        })
        .collect();
    sandbox.write("more.jsonl", &lines.join("\n"));
    sandbox.ok("links import more.jsonl --exact");
    sandbox.ok("links set c https://example.com/");
    let last: i64 = exported_link(&sandbox, "b3")["id"].as_str().unwrap().parse().unwrap();
    assert!(exported_link(&sandbox, "c")["id"].as_str().unwrap().parse::<i64>().unwrap() > last);
    // An id that is there belongs to somebody, and one of next week to nobody yet.
    sandbox.write("taken.jsonl", &format!(r#"{{"code":"d","target":"https://example.com/","id":"{id}"}}"#));
    let ran = sandbox.rmax("links import taken.jsonl --exact");
    assert_eq!(ran.code, Some(4), "{ran}");
    let next_week = id + 7 * 86_400_000 * (1 << 22);
    sandbox.write(
        "early.jsonl",
        &format!(r#"{{"code":"d","target":"https://example.com/","id":"{next_week}"}}"#),
    );
    let ran = sandbox.rmax("links import early.jsonl --exact");
    assert_eq!(ran.code, Some(5), "{ran}");
}

#[test]
fn plain_import_keeps_content_and_drops_identity() {
    let sandbox = varied_store();
    sandbox.ok("links export all.jsonl");
    let other = Sandbox::new().with("RMAX_IDENTITY", "eve@example.com");
    let file = sandbox.path("all.jsonl").to_string_lossy().into_owned();
    other.ok(&format!("links import {file} --no-https"));
    for code in ["off", "gone", "plain"] {
        let (mut before, mut after) = (exported_link(&sandbox, code), exported_link(&other, code));
        assert_eq!(
            (&after["source"], &after["version"], &after["created_by"]),
            (&json!("import"), &json!(1), &json!("eve@example.com"))
        );
        for field in ["id", "source", "version", "created_by", "updated_at", "generated"] {
            before[field].take();
            after[field].take();
        }
        assert_eq!(after, before);
    }
    // The tombstone stays one.
    other.fails(4, "links set gone https://example.com/");
    assert_eq!(other.json("links history off --json")[0]["action"], "link.create");
}

// ---- what is there ----

#[test]
fn import_without_overwrite_changes_no_existing_link() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set same https://example.com/same");
    sandbox.ok("links set other https://example.com/before --title Kept");
    sandbox.ok("links set dead https://example.com/dead");
    sandbox.ok("links delete dead --yes");
    sandbox.write(
        "links.csv",
        "code,target\nsame,https://example.com/same\nother,https://example.com/after\ndead,https://example.com/dead\nnew,https://example.com/new\nBad,https://example.com/\nnew,https://example.com/newer\nnew,https://example.com/new\n",
    );
    let changes = sandbox.changes();
    let dry = sandbox.rmax("links import links.csv --dry-run");
    assert_eq!(sandbox.changes(), changes);
    assert_snapshot!(dry, @"
    exit 4
    --- stdout
    row 3 (other): conflicting: another link is there: it differs in target
    row 4 (dead): conflicting: the code is a deleted link's, and stays taken; restore that link first
    row 6 (Bad): refused: code: may have lower-case letters, digits and hyphens only, not 'B'; try `bad`
    row 7 (new): conflicting: an earlier row has its code and says something else
    links.csv (csv), 7 rows: would be 1 created, 0 updated, 2 skipped, 3 conflicting, 1 refused
    --- stderr
    error: 3 rows conflict, and were left out
    hint: `--overwrite` changes links that are there to what the file says
    ");
    let real = sandbox.rmax("links import links.csv");
    assert_eq!(real.stdout.replace("rows: ", "rows: would be "), dry.stdout);
    assert_eq!((real.code, &real.stderr), (dry.code, &dry.stderr));
    assert_eq!(sandbox.link("other")["target"], "https://example.com/before");
    assert_eq!(sandbox.link("new")["target"], "https://example.com/new");
    sandbox.fails(3, "links get dead");
}

#[test]
fn overwrite_hint_is_shown_only_where_it_helps() {
    let sandbox = Sandbox::new();
    sandbox.write("twice.csv", "code,target\na,https://example.com/1\na,https://example.com/2\n");
    let conflict = |line: &str| {
        let ran = sandbox.rmax(line);
        assert_eq!(ran.code, Some(4), "{ran}");
        ran
    };
    let twice = conflict("links import twice.csv");
    assert!(!twice.stderr.contains("--overwrite"), "{twice}");
    sandbox.ok("workspaces policy --set limits.live_links=1");
    sandbox.write("one.csv", "code,target\nb,https://example.com/\n");
    let full = conflict("links import one.csv");
    for words in ["one.csv (csv), 1 row: 0 created", "has its 1 live links"] {
        assert!(full.stdout.contains(words), "{full}");
    }
    assert!(!full.stderr.contains("--overwrite"), "{full}");
    sandbox.ok("links delete a --yes");
    let dead = conflict("links import twice.csv --overwrite --yes");
    assert!(!dead.stderr.contains("hint: `--overwrite`"), "{dead}");
}

/// Hostile inputs, S4.
#[test]
fn imported_target_on_a_host_of_ours_is_a_loop_in_every_spelling() {
    let sandbox = Sandbox::new();
    sandbox.write("rmax.toml", "domain = \"rmax.to\"\n");
    sandbox.ok("domains add go.example");
    let hosts =
        ["RMAX.To", "rmax.to.", "rmax.to:8443", "\u{ff52}max\u{3002}to", "GO.example.:81", "notrmax.to"];
    let row = |(number, host)| format!("{{\"code\":\"c{number}\",\"target\":\"https://{host}/x\"}}\n");
    sandbox.write("links.jsonl", &hosts.iter().enumerate().map(row).collect::<String>());
    let run = sandbox.rmax("links import links.jsonl");
    assert_eq!(run.code, Some(5), "{run}");
    assert!(run.stdout.contains("1 created") && run.stdout.contains("5 refused"), "{run}");
    let circle = |code: &str, to: &str| {
        format!("{{\"code\":\"{code}\",\"target\":\"https://rmax.to/{to}\",\"no_loop\":false}}\n")
    };
    let rows = [circle("a", "b"), circle("b", "c"), circle("c", "A")].concat();
    sandbox.write("circle.jsonl", &rows);
    let run = sandbox.rmax("links import circle.jsonl");
    assert!(run.stdout.contains("row 3 (c)") && run.stdout.contains("in circles"), "{run}");
    assert!(run.stdout.contains("2 created"), "{run}");
}

#[test]
fn dry_run_notes_that_loops_between_rows_are_found_later() {
    let sandbox = Sandbox::new();
    sandbox.write("rmax.toml", "domain = \"rmax.to\"\n");
    sandbox.ok("links set any https://example.com/");
    let to = |code: &str, target: &str| {
        format!("{{\"code\":\"{code}\",\"target\":\"https://rmax.to/{target}\",\"no_loop\":false}}\n")
    };
    sandbox.write("links.jsonl", &format!("{}{}", to("a", "b"), to("b", "a")));
    sandbox
        .ok("links import links.jsonl --dry-run")
        .says("in circles with one another is seen only when they are written");
    let real = sandbox.rmax("links import links.jsonl");
    assert_eq!(real.code, Some(5), "{real}");
    assert!(real.stdout.contains("visitors would go in circles"), "{real}");
}

#[test]
fn overwrite_shows_the_changes_and_needs_confirmation() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set there https://example.com/before --title Kept --tag a");
    sandbox.write(
        "links.csv",
        "code,target,tags\nthere,https://example.com/after,b\nnew,https://example.com/new,\n",
    );
    sandbox.fails(2, "links import links.csv --overwrite");
    sandbox.fails(2, "links import - --overwrite --yes");
    sandbox.fails(2, "links import links.csv --yes");
    sandbox.fails(2, "links import links.csv --overwrite --exact");
    let changes = sandbox.changes();
    assert_snapshot!(sandbox.rmax("links import links.csv --overwrite --dry-run"), @"
    exit 0
    --- stdout
    links.csv (csv), 2 rows: would be 1 created, 1 updated, 0 skipped, 0 conflicting, 0 refused
    --- stderr
    there:
        target: https://example.com/before -> https://example.com/after
        tags: a -> b
    ");
    assert_eq!(sandbox.changes(), changes);
    assert_snapshot!(sandbox.rmax("links import links.csv --overwrite --yes"), @"
    exit 0
    --- stdout
    links.csv (csv), 2 rows: 1 created, 1 updated, 0 skipped, 0 conflicting, 0 refused
    --- stderr
    there:
        target: https://example.com/before -> https://example.com/after
        tags: a -> b
    ");
    let link = sandbox.link("there");
    assert_eq!((&link["target"], &link["title"]), (&json!("https://example.com/after"), &json!("Kept")));
    assert_eq!(link["meta"]["tags"], json!(["b"]));
    assert_eq!(sandbox.json("links history there --json")[1]["action"], "link.update");
    let report = sandbox.json("links import links.csv --overwrite --yes --json");
    assert_eq!((&report["skipped"], &report["changes"]), (&json!(2), &json!([])));
}

#[test]
fn interrupted_import_resumes_when_repeated() {
    let sandbox = Sandbox::new();
    let rows = |count: usize| -> String {
        let row = |n| format!("c{n},https://example.com/{n},{n}\n");
        format!("code,target,clicks\n{}", (0..count).map(row).collect::<String>())
    };
    sandbox.write("links.csv", &rows(1_200));
    let cut = sandbox.read("links.csv");
    sandbox.write("cut.csv", &cut[..cut.find("c777,").unwrap()]);
    let first = sandbox.json("links import cut.csv --json");
    assert_eq!((&first["created"], &first["format"]), (&json!(777), &json!("csv")));
    let second = sandbox.json("links import links.csv --json");
    assert_eq!((&second["created"], &second["skipped"]), (&json!(1_200 - 777), &json!(777)));
    // Clicks are there once, whichever run brought them.
    for code in ["c5", "c776", "c1199"] {
        let link = sandbox.link(code);
        assert_eq!(link["stats"]["hits"], code[1..].parse::<u64>().unwrap());
    }
    sandbox.ok("links import links.csv");
    assert_eq!(sandbox.link("c776")["stats"]["hits"], 776);
    assert_eq!(sandbox.json("links stats c776 --json")["hits"], 776);
    sandbox.ok("audit verify");
}

// ---- rules ----

#[test]
fn workspace_rules_apply_to_every_row() {
    let sandbox = Sandbox::new();
    sandbox.ok("domains add rmax.to");
    sandbox.write(
        "links.jsonl",
        r#"{"code":"Upper","target":"https://example.com/"}
{"code":"admin","target":"https://example.com/"}
{"code":"plain","target":"http://example.com/"}
{"code":"loop","target":"https://rmax.to/x"}
{"code":"circle","target":"https://rmax.to/circle","no_loop":false}
{"code":"round","target":"https://rmax.to/about","no_loop":false}
{"code":"about","target":"https://rmax.to/round","no_loop":false}
{"code":"js","target":"javascript:alert(1)"}
{"code":"odd","target":"https://example.com/","colour":"red"}
{"code":"when","target":"https://example.com/","created_at":"yesterday"}
{"target":"https://example.com/"}
{"code":"fine","target":"https://example.com/","expires_at":"2020-01-01","created_at":"2019-12-31T23:59:59Z"}
"#,
    );
    assert_snapshot!(sandbox.rmax("links import links.jsonl"), @"
    exit 5
    --- stdout
    row 1 (Upper): refused: code: may have lower-case letters, digits and hyphens only, not 'U'; try `upper`
    row 2 (admin): refused: code: `admin` is a word the server keeps; choose another
    row 3 (plain): refused: target: must be https; allow http with https_only off (--no-https)
    row 4 (loop): refused: target: leads back to rmax.to, a domain served here; allow it with no_loop off (--allow-loop)
    row 5 (circle): refused: target: leads, through links of our own, back to this link: visitors would go in circles
    row 7 (about): refused: target: leads, through links of our own, back to this link: visitors would go in circles
    row 8 (js): refused: target: must begin with https:// or http://; other schemes are not served
    row 9 (odd): refused: colour: is no field of a link
    row 10 (when): refused: created_at: is not a time; write it like <time>, 2030-01-31, or as Unix seconds
    row 11: refused: code: is missing, and there is no short URL it could be read from
    links.jsonl (jsonl), 12 rows: 2 created, 0 updated, 0 skipped, 0 conflicting, 10 refused
    --- stderr
    error: 10 rows break a rule, and were left out
    ");
    assert_eq!(sandbox.link("fine")["created_at"], "2019-12-31T23:59:59Z");
    let report = sandbox.rmax("links import links.jsonl --no-https --json").json();
    assert_eq!((&report["created"], &report["skipped"]), (&json!(1), &json!(2)));
    assert_eq!(sandbox.link("plain")["rules"]["https_only"], false);
}

#[test]
fn quota_applies_to_the_import_and_its_dry_run() {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces policy --set limits.live_links=3");
    sandbox.ok("links set one https://example.com/");
    sandbox.write(
        "links.csv",
        "code,target,expires_at\na,https://example.com/a,\nb,https://example.com/b,2020-01-01\nc,https://example.com/c,\nd,https://example.com/d,\n",
    );
    let dry = sandbox.rmax("links import links.csv --dry-run --json").json();
    let real = sandbox.rmax("links import links.csv --json");
    assert_eq!(real.code, Some(4));
    let mut real = real.json();
    assert_eq!(
        (&real["created"], &real["conflicting"], &real["problems"][0]["row"]),
        (&json!(3), &json!(1), &json!(5))
    );
    real["dry_run"] = json!(true);
    assert_eq!(real, dry);
}

#[test]
fn a_workspace_that_reuses_targets_imports_every_code() {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces create crew --preset team");
    sandbox.ok("--workspace crew shorten https://example.com/page");
    sandbox.write("links.csv", "code,target\none,https://example.com/page\ntwo,https://example.com/page\nTWO,https://example.com/page\n");
    let report = sandbox.json("--workspace crew links import links.csv --json");
    assert_eq!(report["created"], 3);
    // And the generated one goes on being handed back, also where it was brought to.
    let code = sandbox.ok("--workspace crew shorten https://example.com/page").stdout;
    sandbox.ok("--workspace crew links export all.jsonl");
    let other = Sandbox::new();
    other.ok("workspaces create crew --preset team");
    let file = sandbox.path("all.jsonl").to_string_lossy().into_owned();
    other.ok(&format!("--workspace crew links import {file} --exact"));
    assert_eq!(other.ok("--workspace crew shorten https://example.com/page").stdout, code);
    assert_eq!(other.ok("--workspace crew links export").stdout, sandbox.read("all.jsonl"));
}

// ---- out ----

/// Hostile inputs, S21.
#[test]
fn exported_csv_cells_are_never_formulas() {
    let sandbox = Sandbox::new();
    let titles = [
        ("a", "=1+1"),
        ("b", "+1"),
        ("c", "-1"),
        ("d", "@SUM(A1)"),
        ("e", "＝1"),
        ("f", "\"=1"),
        ("g", "'=1"),
        ("h", "it's"),
    ];
    let rows = titles.map(|(code, title)| {
        json!({"code": code, "target": "https://example.com/", "title": title}).to_string()
    });
    sandbox.write("links.jsonl", &rows.join("\n"));
    sandbox.ok("links import links.jsonl");
    let csv = sandbox.ok("links export --format csv").stdout;
    for cell in [
        ",\"'=1+1\",",
        ",\"'+1\",",
        ",\"'-1\",",
        ",\"'@SUM(A1)\",",
        ",\"'＝1\",",
        ",\"\"\"=1\",",
        ",\"''=1\",",
        ",it's,",
    ] {
        assert!(csv.contains(cell), "{cell}\n{csv}");
    }
    // Import reads the very texts back.
    sandbox.write("links.csv", &csv);
    let other = Sandbox::new();
    other.ok(&format!("links import {}", sandbox.path("links.csv").to_string_lossy()));
    for (code, title) in titles {
        assert_eq!(exported_link(&other, code)["title"], title);
    }
    // Numbers stay numbers.
    assert!(csv.lines().all(|line| line.contains(",1,0,,0,") || line.starts_with("code,")), "{csv}");
}

#[test]
fn exported_maps_hold_only_links_that_redirect() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set a https://example.com/?price=$1&q={x} --status 302");
    sandbox.ok("links set b https://example.com/b");
    sandbox.ok("links disable b");
    sandbox.ok("links set over https://example.com/over --expires 2099-01-01");
    sandbox.tamper("update links set expires_at = 1577836800000 where code = 'over'");
    assert_snapshot!(sandbox.rmax("links export --format cloudflare"), @"
    exit 0
    --- stdout
    # Links of rlinks, for the folder Cloudflare Pages or Workers serve.
    /a https://example.com/?price=$1&q={x} 302
    --- stderr
    2 links that do not answer (disabled, expired, deleted) were left out
    wrote 1 link
    ");
    assert_snapshot!(sandbox.rmax("links export --format caddy"), @r#"
    exit 0
    --- stdout
    # Links of rlinks, for a site block of Caddy: import links.caddy
    map {http.request.uri.path} {rlinks_target} {rlinks_status} {
    	~(?i)^/a$ "https://example.com/?price=$$1&q=%7Bx%7D" 302
    	default "" ""
    }
    @rlinks vars_regexp {rlinks_status} ^30[1278]$
    redir @rlinks {rlinks_target} {rlinks_status}
    --- stderr
    2 links that do not answer (disabled, expired, deleted) were left out
    wrote 1 link
    "#);
    assert_snapshot!(sandbox.rmax("links export --format nginx"), @r#"
    exit 0
    --- stdout
    # Links of rlinks, for the http block of nginx. docs/import-export.md says how to serve them.
    geo $rlinks_dollar { default "$"; }
    map $uri $rlinks_link {
        default "";
        "/a" "/a 302 https://example.com/?price=${rlinks_dollar}1&q={x}";
    }
    map "$uri $rlinks_link" $rlinks_301 {
        default "";
        "~^(\S+) \S+ 301 (?<rlinks_to_301>\S+)$" $rlinks_to_301;
    }
    map "$uri $rlinks_link" $rlinks_302 {
        default "";
        "~^(\S+) \S+ 302 (?<rlinks_to_302>\S+)$" $rlinks_to_302;
    }
    map "$uri $rlinks_link" $rlinks_307 {
        default "";
        "~^(\S+) \S+ 307 (?<rlinks_to_307>\S+)$" $rlinks_to_307;
    }
    map "$uri $rlinks_link" $rlinks_308 {
        default "";
        "~^(\S+) \S+ 308 (?<rlinks_to_308>\S+)$" $rlinks_to_308;
    }
    --- stderr
    2 links that do not answer (disabled, expired, deleted) were left out
    wrote 1 link
    "#);
}

#[test]
fn export_overwrites_a_file_only_with_force() {
    let sandbox = Sandbox::new();
    sandbox.ok("links set a https://example.com/");
    assert_eq!(sandbox.ok("links export links.csv").stdout, "wrote 1 link to links.csv\n");
    sandbox.fails(4, "links export links.csv");
    sandbox.ok("links export links.csv --force");
    assert!(sandbox.read("links.csv").starts_with("code,target,"));
    sandbox.fails(5, "links export --format xml");
    assert_eq!(
        sandbox.json("links export all.jsonl --json"),
        json!({"file": "all.jsonl", "format": "jsonl", "links": 1})
    );
}

// ---- beside a server ----

#[test]
fn links_imported_beside_a_running_server_are_served() {
    let sandbox = Sandbox::new();
    let server = serve(&sandbox, "");
    sandbox.ok(&format!("links import {}", import_file("shlink-export.csv")));
    crate::support::raw_client::wait_until("the link is served", || server.status("/spring") == 301);
}

#[test]
fn remote_import_and_export_match_the_local_store() {
    let local = Sandbox::new();
    local.ok("domains add rmax.to");
    let server = serve(&local, "");
    let key = local.json("keys create --name test --scope links:read,links:write --json");
    let remote = Sandbox::new()
        .with("RMAX_SERVER", &format!("http://{}", server.address))
        .with("RMAX_API_KEY", key["key"].as_str().unwrap());
    let file = import_file("kutt.json");
    let dry = remote.rmax(&format!("links import {file} --dry-run --json"));
    assert_eq!(dry.code, Some(5), "{dry}");
    assert_eq!(remote.ok("links export").stdout, "");
    let real = remote.rmax(&format!("links import {file} --json"));
    assert_eq!((real.code, &real.json()["created"]), (Some(5), &json!(2)));
    for format in ["jsonl", "csv", "nginx"] {
        let line = format!("links export --format {format}");
        assert_eq!(remote.ok(&line).stdout, local.ok(&line).stdout);
    }
    remote.ok("links export copy.jsonl");
    assert_eq!(remote.read("copy.jsonl"), local.ok("links export").stdout);
    assert_eq!(exported_link(&local, "kutt")["hits"], 17);
    assert_eq!(server.status("/kutt"), 301);
    remote.fails(2, &format!("links import {file} --exact"));
    remote.fails(2, &format!("links import {file} --overwrite --yes"));
    remote.write(
        "large.csv",
        &format!(
            "code,target\n{}",
            "a,https://example.com/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n".repeat(400_000)
        ),
    );
    remote.fails(5, "links import large.csv");
}
