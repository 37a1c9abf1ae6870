//! Where settings come from, and what happens to those nobody knows.

use insta::assert_snapshot;

use crate::place::Place;

#[track_caller]
fn shows(place: &Place, flags: &str, setting: &str) {
    let ran = place.ok(&format!("serve --print-config {flags}"));
    let found =
        ran.stdout.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == setting);
    assert!(found, "no line {setting:?}\n{ran}");
}

#[test]
fn flags_beat_variables_beat_the_file_beats_defaults() {
    let place = Place::new();
    shows(&place, "", "listen = \"127.0.0.1:8080\" # default");
    place.write("rmax.toml", "listen = \"127.0.0.1:1\"\n");
    shows(&place, "", "listen = \"127.0.0.1:1\" # rmax.toml");
    place.write("rmax.toml", "listen = \"127.0.0.1:1\"\n[env.production]\nlisten = \"127.0.0.1:2\"\n");
    shows(&place, "", "listen = \"127.0.0.1:2\" # rmax.toml [env.production]");
    let place = place.with("RMAX_LISTEN", "127.0.0.1:3");
    shows(&place, "", "listen = \"127.0.0.1:3\" # RMAX_LISTEN");
    shows(&place, "--listen 127.0.0.1:4", "listen = \"127.0.0.1:4\" # --listen");
}

#[test]
fn every_key_of_the_file() {
    let place = Place::new().with("RMAX_IDENTITY", "");
    place.write(
        "rmax.toml",
        r#"
domain = "RMAX.to"
base_domain = "links.example"
public_scheme = "http"
public_url = "https://go.example"
identity = "max"
listen = "[::1]:80"
control_listen = "127.0.0.1:81"
serve_admin = false
insecure_cookies = true
threads = 3
cache_mb = 64
trusted_proxies = ["127.0.0.0/8", "::1"]
country_header = "CF-IPCountry"
geoip_path = "places.mmdb"
journal_mb = 32
journal_sync = "always"
worker_id = 7
data = "here"
store = "sqlite:there/rlinks.db"
[tls]
cert = "cert.pem"
key = "key.pem"
[retention]
archive = "s3://bucket/"
[safety]
blocklist_path = "blocked.txt"
safe_browsing_key = "secret"
safe_browsing_url = "http://s/"
when_unavailable = "refuse"
contact = "mailto:a@b.example"
[domain_checks]
enabled = true
proof = true
resolver = "192.0.2.53"
rdap = "http://r/"
points_to = ["192.0.2.7"]
[limits]
target_changes_per_minute = 7
[log]
format = "json"
level = "debug"
[env.staging]
server = "https://links.example.com"
[env.edge]
cloudflare = { account_id = "a", routes = "r", hits = "h" }
"#,
    );
    assert_snapshot!(place.rmax("serve --print-config"), @r#"
    exit 0
    --- stdout
    # environment production, rmax.toml
    domain = "RMAX.to"                       # rmax.toml
    base_domain = "links.example"            # rmax.toml
    public_scheme = "http"                   # rmax.toml
    public_url = "https://go.example"        # rmax.toml
    identity = "max"                         # rmax.toml
    data = "here"                            # rmax.toml
    store = "sqlite:there/rlinks.db"         # rmax.toml
    listen = "[::1]:80"                      # rmax.toml
    control_listen = "127.0.0.1:81"          # rmax.toml
    serve_admin = false                      # rmax.toml
    insecure_cookies = true                  # rmax.toml
    threads = 3                              # rmax.toml
    cache_mb = 64                            # rmax.toml
    trusted_proxies = ["127.0.0.0/8","::1"]  # rmax.toml
    country_header = "CF-IPCountry"          # rmax.toml
    geoip_path = "places.mmdb"               # rmax.toml
    journal_mb = 32                          # rmax.toml
    journal_sync = "always"                  # rmax.toml
    retention.archive = "s3://bucket/"       # rmax.toml
    safety.blocklist_path = "blocked.txt"    # rmax.toml
    safety.safe_browsing_key = "***"         # rmax.toml
    safety.safe_browsing_url = "http://s/"   # rmax.toml
    safety.when_unavailable = "refuse"       # rmax.toml
    safety.contact = "mailto:a@b.example"    # rmax.toml
    domain_checks.enabled = true             # rmax.toml
    domain_checks.proof = true               # rmax.toml
    domain_checks.resolver = "192.0.2.53"    # rmax.toml
    domain_checks.rdap = "http://r/"         # rmax.toml
    domain_checks.points_to = ["192.0.2.7"]  # rmax.toml
    limits.target_changes_per_minute = 7     # rmax.toml
    worker_id = 7                            # rmax.toml
    tls.cert = "cert.pem"                    # rmax.toml
    tls.key = "key.pem"                      # rmax.toml
    log.format = "json"                      # rmax.toml
    log.level = "debug"                      # rmax.toml
    "#);
}

#[test]
fn every_key_has_a_variable() {
    let place = Place::new()
        .with("RMAX_TRUSTED_PROXIES", "127.0.0.0/8, ::1")
        .with("RMAX_SERVE_ADMIN", "no")
        .with("RMAX_INSECURE_COOKIES", "yes")
        .with("RMAX_CACHE_MB", "64")
        .with("RMAX_COUNTRY_HEADER", "X-Country")
        .with("RMAX_GEOIP_PATH", "p.mmdb")
        .with("RMAX_JOURNAL_MB", "16")
        .with("RMAX_JOURNAL_SYNC", "off")
        .with("RMAX_RETENTION_ARCHIVE", "archive")
        .with("RMAX_SAFETY_BLOCKLIST_PATH", "b.txt")
        .with("RMAX_SAFETY_SAFE_BROWSING_KEY", "secret")
        .with("RMAX_LIMITS_TARGET_CHANGES_PER_MINUTE", "0")
        .with("RMAX_THREADS", "5")
        .with("RMAX_TLS_CERT", "c.pem")
        .with("RMAX_TLS_KEY", "k.pem")
        .with("RMAX_LOG_LEVEL", "warn")
        .with("RMAX_DATA", "elsewhere");
    assert_snapshot!(place.rmax("serve --print-config"), @r#"
    exit 0
    --- stdout
    # environment production, no file
    public_scheme = "https"                  # default
    identity = "max@rmax.ai"                 # RMAX_IDENTITY
    data = "elsewhere"                       # RMAX_DATA
    store = "sqlite:elsewhere/rlinks.db"     # default
    listen = "127.0.0.1:8080"                # default
    serve_admin = false                      # RMAX_SERVE_ADMIN
    insecure_cookies = true                  # RMAX_INSECURE_COOKIES
    threads = 5                              # RMAX_THREADS
    cache_mb = 64                            # RMAX_CACHE_MB
    trusted_proxies = ["127.0.0.0/8","::1"]  # RMAX_TRUSTED_PROXIES
    country_header = "X-Country"             # RMAX_COUNTRY_HEADER
    geoip_path = "p.mmdb"                    # RMAX_GEOIP_PATH
    journal_mb = 16                          # RMAX_JOURNAL_MB
    journal_sync = "off"                     # RMAX_JOURNAL_SYNC
    retention.archive = "archive"            # RMAX_RETENTION_ARCHIVE
    safety.blocklist_path = "b.txt"          # RMAX_SAFETY_BLOCKLIST_PATH
    safety.safe_browsing_key = "***"         # RMAX_SAFETY_SAFE_BROWSING_KEY
    safety.when_unavailable = "allow"        # default
    domain_checks.enabled = false            # default
    domain_checks.proof = false              # default
    limits.target_changes_per_minute = 0     # RMAX_LIMITS_TARGET_CHANGES_PER_MINUTE
    tls.cert = "c.pem"                       # RMAX_TLS_CERT
    tls.key = "k.pem"                        # RMAX_TLS_KEY
    log.format = "text"                      # default
    log.level = "warn"                       # RMAX_LOG_LEVEL
    "#);
    let settings = place.json("serve --print-config --json");
    assert_eq!(settings["settings"]["cache_mb"]["from"], "RMAX_CACHE_MB");
}

#[test]
fn the_file_is_looked_for_here_then_in_the_users_folder() {
    let place = Place::new();
    place.write("home/.config/rmax/rmax.toml", "cache_mb = 1\n");
    shows(&place, "", "cache_mb = 1 # <folder>/home/.config/rmax/rmax.toml");
    let folder = place.path("xdg").to_string_lossy().into_owned();
    let place = place.with("XDG_CONFIG_HOME", &folder);
    place.write("xdg/rmax/rmax.toml", "cache_mb = 2\n");
    shows(&place, "", "cache_mb = 2 # <folder>/xdg/rmax/rmax.toml");
    place.write("rmax.toml", "cache_mb = 3\n");
    shows(&place, "", "cache_mb = 3 # rmax.toml");
    place.write("other.toml", "cache_mb = 4\n");
    shows(&place, "--config other.toml", "cache_mb = 4 # other.toml");
    place.fails(2, "--config missing.toml links list").says("missing.toml cannot be read");
}

#[test]
fn unknown_keys_are_errors_with_a_suggestion() {
    let place = Place::new();
    place.write("rmax.toml", "lisen = \"127.0.0.1:1\"\n");
    assert_snapshot!(place.rmax("links list"), @"
    exit 2
    --- stderr
    error: rmax.toml: `lisen` is no key of the configuration
    hint: did you mean `listen`?
    ");
    place.write("rmax.toml", "[env.staging]\nstor = \"sqlite:x.db\"\n");
    assert_snapshot!(place.rmax("links list"), @"
    exit 2
    --- stderr
    error: rmax.toml [env.staging]: `stor` is no key of the configuration
    hint: did you mean `store`?
    ");
    place.write("rmax.toml", "[tls]\ncertificate = \"x\"\n");
    place.fails(2, "links list").says("did you mean `tls.cert`?");
    place.write("rmax.toml", "zzz = 1\n");
    place.fails(2, "links list").says("the keys are domain, ");
    assert!(!place.path("rlinks-data").exists());
    let place =
        Place::new().with("RMAX_LISTENS", "127.0.0.1:1").with("RMAX_PORT_8080_TCP", "tcp://10.0.0.1:8080");
    assert_snapshot!(place.rmax("links list --json"), @"
    exit 0
    --- stdout
    []
    --- stderr
    warning: the variable RMAX_LISTENS is not known; did you mean RMAX_LISTEN?
    ");
}

#[test]
fn renamed_keys_are_errors_that_give_the_new_name() {
    let place = Place::new();
    place.write("rmax.toml", "[brake]\ntarget_changes_per_minute = 7\n");
    place
        .fails(2, "links list")
        .says("`brake.target_changes_per_minute` is called `limits.target_changes_per_minute` now");
    place.write("rmax.toml", "[env.production.brake]\ntarget_changes_per_minute = 7\n");
    place.fails(2, "links list").says("is called `limits.target_changes_per_minute` now");
    place.write("rmax.toml", "[limits]\ntarget_changes_per_minute = 7\n");
    place.ok("links list");
    let place = place.with("RMAX_BRAKE_TARGET_CHANGES_PER_MINUTE", "7");
    place.fails(2, "links list").says("is called RMAX_LIMITS_TARGET_CHANGES_PER_MINUTE now");
}

#[test]
fn values_that_cannot_be_are_named() {
    let place = Place::new();
    for (file, message) in [
        ("listen = 8080", "rmax.toml: `listen` must be a text in quotes"),
        ("listen = \"8080\"", "rmax.toml: `listen` must be an address and a port"),
        ("domain = \"https://rmax.to\"", "rmax.toml: `domain` is a URL; give the host alone"),
        ("threads = 0", "rmax.toml: `threads` must be a whole number from 1 to 1024"),
        ("worker_id = 1024", "rmax.toml: `worker_id` must be a whole number from 0 to 1023"),
        ("serve_admin = \"maybe\"", "rmax.toml: `serve_admin` must be true or false"),
        ("trusted_proxies = [\"x\"]", "rmax.toml: `trusted_proxies` must be networks"),
        ("log.format = \"xml\"", "rmax.toml: `log.format` must be text or json"),
        ("log.level = \"loud\"", "rmax.toml: `log.level` must be error, warn"),
        ("public_scheme = \"ftp\"", "rmax.toml: `public_scheme` must be http or https"),
        ("public_url = \"go.example\"", "rmax.toml: `public_url` must be the beginning of a URL"),
        ("safety.contact = \"abuse@go.example\"", "rmax.toml: `safety.contact` must be like mailto:"),
        ("tls.cert = \"c.pem\"", "`tls.cert` is set and `tls.key` is not"),
        ("store = \"mysql://root:hunter2@db/x\"", "rmax.toml: `store` must be sqlite:<path> or postgres://"),
        ("env = 1", "rmax.toml: `env` must be sections"),
        ("domain = ", "rmax.toml: line 1: "),
    ] {
        place.write("rmax.toml", file);
        let ran = place.fails(2, "links list");
        ran.says(message);
        assert!(!ran.stderr.contains("hunter2"), "{ran}");
    }
    let place = Place::new().with("RMAX_THREADS", "many");
    place.fails(2, "links list").says("RMAX_THREADS must be a whole number");
    place.with("RMAX_THREADS", "").fails(2, "serve --listen nowhere").says("--listen must be an address");
}

#[test]
fn an_environment_is_a_section() {
    let place = Place::new();
    assert_snapshot!(place.rmax("--env staging links list"), @"
    exit 2
    --- stderr
    error: there is no environment `staging`; there is production
    hint: add a section [env.staging] to a file rmax.toml here
    ");
    place.write("rmax.toml", "[env.staging]\nstore = \"sqlite:staging/links.db\"\n[env.other]\n");
    assert_snapshot!(place.rmax("--env stagin links list"), @"
    exit 2
    --- stderr
    error: there is no environment `stagin`; there is production, other, staging
    hint: did you mean `--env staging`?
    ");
    place.ok("links set x https://example.com/production");
    place.ok("--env staging links set x https://example.com/staging");
    place.ok("--env other links set x https://example.com/other");
    for (env, folder) in [
        ("production", "rlinks-data/rlinks.db"),
        ("staging", "staging/links.db"),
        ("other", "rlinks-data/other/rlinks.db"),
    ] {
        let link = place.json(&format!("--env {env} links get x"));
        assert_eq!(link["target"], format!("https://example.com/{env}"));
        assert!(place.path(folder).exists(), "{folder}");
        place.ok(&format!("--env {env} audit verify"));
    }
    let place = place.with("RMAX_ENV", "staging");
    assert_eq!(place.link("x")["target"], "https://example.com/staging");
}

#[test]
fn an_environment_points_at_one_place() {
    let place = Place::new();
    place.write(
        "rmax.toml",
        "[env.remote]\nserver = \"https://links.example.com\"\n[env.edge]\ncloudflare = { account_id = \"a\", routes = \"r\", hits = \"h\" }\n[env.both]\nserver = \"https://a.example\"\nstore = \"sqlite:x.db\"\n",
    );
    assert_snapshot!(place.rmax("--env remote links list"), @"
    exit 2
    --- stderr
    error: environment `remote` points at a server, and RMAX_API_KEY with a key to it is not set
    hint: `rmax keys create --name <name>`, run where the store is, makes a key
    ");
    place.fails(2, "--env edge links list").says("points at Cloudflare");
    place.fails(2, "--env both links list").says("`store` and `server` exclude each other");
    place.ok("links list");
    shows(&place, "--env remote", "server = \"https://links.example.com/\" # rmax.toml [env.remote]");
    // A folder beside a server would be passed over in silence.
    place.fails(2, "--env remote --data elsewhere links list").says("--data names a folder");
    // What is named later wins, whichever it is.
    let place = place.with("RMAX_SERVER", "http://127.0.0.1:1").with("RMAX_API_KEY", "rmx_k");
    place.fails(6, "links list").says("http://127.0.0.1:1/ cannot be reached");
    place.fails(6, "--env both links list").says("cannot be reached");
    let place = place.with("RMAX_STORE", "sqlite:here/rlinks.db");
    place.fails(2, "links list").says("exclude each other");
    let place = place.with("RMAX_SERVER", "");
    place.ok("--env remote links list");
}

#[test]
fn a_server_is_an_address_and_nothing_else() {
    for address in [
        "links.example.com",
        "ftp://links.example.com",
        "https://user@links.example.com",
        "https://:hunter2@links.example.com",
        "https://links.example.com/?key=hunter2",
        "https://links.example.com/#x",
        "sqlite:rlinks.db",
    ] {
        let place = Place::new().with("RMAX_SERVER", address).with("RMAX_API_KEY", "rmx_k");
        let refused = place.fails(2, "links list");
        refused.says("RMAX_SERVER must be the address of a server");
        assert!(!refused.stderr.contains("hunter2"), "{refused}");
    }
}

#[test]
fn a_key_in_the_file_is_refused_and_not_repeated() {
    for text in [
        "api_key = \"rmx_hunter2\"\n",
        "[env.other]\nserver = \"https://a.example\"\napi_key = \"rmx_hunter2\"\n",
    ] {
        let place = Place::new();
        place.write("rmax.toml", text);
        let refused = place.fails(2, "links list");
        refused.says("an API key is never read from a file");
        refused.says("RMAX_API_KEY");
        assert!(!refused.stderr.contains("hunter2"), "{refused}");
    }
}

#[test]
fn plain_http_to_another_machine_is_worth_a_warning() {
    // An address for documentation: nobody is there, whatever the network says.
    let place = Place::new().with("RMAX_SERVER", "http://links.invalid").with("RMAX_API_KEY", "rmx_k");
    place.fails(6, "links list").says("warning: http://links.invalid/ is http");
    let near = Place::new().with("RMAX_SERVER", "http://localhost:1").with("RMAX_API_KEY", "rmx_k");
    assert!(!near.fails(6, "links list").stderr.contains("warning"));
}

#[test]
fn a_folder_named_later_than_a_file_is_where_the_store_is() {
    let place = Place::new();
    place.write("rmax.toml", "store = \"sqlite:configured/rlinks.db\"\n");
    place.ok("links set x https://example.com/configured");
    place.ok("--data elsewhere links set x https://example.com/elsewhere");
    assert!(place.path("configured/rlinks.db").exists() && place.path("elsewhere/rlinks.db").exists());
    assert!(place.path("configured/audit-heads.log").exists(), "keys and logs live beside the store");
    assert_eq!(place.link("x")["target"], "https://example.com/configured");
    // A store that cannot be read as one is never passed over.
    place.write("rmax.toml", "store = \"postgre://db/rlinks\"\n");
    place.fails(2, "--data elsewhere links list").says("`store` must be");
}

#[test]
fn a_password_is_never_printed() {
    let url = "postgres://rlinks:hunter2@127.0.0.1:1/rlinks?sslpassword=hunter2";
    let place = Place::new().with("RMAX_STORE", url);
    for line in [
        "serve --print-config",
        "serve --print-config --json",
        "links list",
        "-vv links list",
        "--json links list",
        "doctor",
        "serve",
    ] {
        let ran = place.rmax(line);
        assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{line}\n{ran}");
    }
    assert_eq!(place.rmax("links list").code, Some(6));
    assert_eq!(place.rmax("serve").code, Some(6));
    shows(&place, "", "store = \"postgres://rlinks:***@127.0.0.1:1/rlinks?sslpassword=***\" # RMAX_STORE");
}

#[test]
fn the_configured_domain_is_entered_by_whatever_changes_something() {
    let place = Place::new();
    place.write("rmax.toml", "domain = \"rmax.to\"\n");
    place.ok("links list");
    place.ok("explain x");
    assert_eq!(place.json("domains list --json").as_array().unwrap().len(), 0);
    place.ok("links set x https://example.com/");
    assert_snapshot!(place.rmax("domains list"), @"
    exit 0
    --- stdout
    HOST     WORKSPACE  PRIMARY  STATE
    rmax.to  main       primary  active
    ");
    let changes = place.changes();
    place.ok("links set x https://example.com/");
    assert_eq!(place.changes(), changes);

    place.ok("workspaces create other --preset edge");
    let place = place.with("RMAX_DOMAIN", "other.example");
    place.ok("--workspace other domains list");
    let elsewhere = place.with("RMAX_DOMAIN", "");
    elsewhere.ok("--workspace other domains add other.example");
    let place = elsewhere.with("RMAX_DOMAIN", "other.example");
    place.ok("links set y https://example.com/").says("belongs to another workspace");
}

#[test]
fn logs_are_lines_on_stderr() {
    let place = Place::new().with("RMAX_LOG_FORMAT", "json");
    let ran = place.ok("-vv links set x https://example.com/");
    assert!(ran.stdout.starts_with("created "));
    for line in ran.stderr.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
}

#[test]
fn cloudflare_is_named_whole_or_not_at_all() {
    let place = Place::new().with("CLOUDFLARE_API_TOKEN", "canary");
    let with = |section: &str| place.write("rmax.toml", &format!("[env.edge]\n{section}\n"));
    with(r#"cloudflare = { account_id = "a", routes = "r" }"#);
    assert_snapshot!(place.rmax("--env edge links list"), @r#"
    exit 2
    --- stderr
    error: environment `edge` points at Cloudflare and does not say `cloudflare.hits`
    hint: cloudflare = { account_id = "...", routes = "<namespace id>", hits = "<namespace id>" }
    "#);
    with(r#"cloudflare = { account_id = "a/../b", routes = "r", hits = "h" }"#);
    place.fails(2, "--env edge links list").says("`cloudflare.account_id` must be an id");
    with(r#"cloudflare = { account_id = "a", routes = "r", hits = "h", api_token = "x" }"#);
    place.fails(2, "--env edge links list").says("CLOUDFLARE_API_TOKEN");
    with("store = \"sqlite:x.db\"\ncloudflare = { account_id = \"a\", routes = \"r\", hits = \"h\" }");
    place.fails(2, "--env edge links list").says("exclude each other");
    with(r#"cloudflare = { account_id = "a", routes = "r", hits = "h" }"#);
    for line in [
        "shorten https://example.com/",
        "explain x",
        "domains list",
        "keys list",
        "sweep",
        "serve",
        "publish",
    ] {
        place.fails(2, &format!("--env edge {line}")).says("Cloudflare");
    }
    place.fails(2, "--env edge links list --workspace other").says("no workspaces");
    place.write("rmax.toml", "");
    place.fails(2, "publish").says("no environment of rmax.toml points at Cloudflare");
    place.fails(2, "clicks import-hits --from nowhere").says("there is none");
}
