//! Where settings come from, and what happens to those nobody knows.

use insta::assert_snapshot;

use crate::support::sandbox::Sandbox;

#[track_caller]
fn shows(sandbox: &Sandbox, flags: &str, setting: &str) {
    let ran = sandbox.ok(&format!("serve --print-config {flags}"));
    let found =
        ran.stdout.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == setting);
    assert!(found, "no line {setting:?}\n{ran}");
}

#[test]
fn flags_override_variables_override_the_file_overrides_defaults() {
    let sandbox = Sandbox::new();
    shows(&sandbox, "", "listen = \"127.0.0.1:8080\" # default");
    sandbox.write("rmax.toml", "listen = \"127.0.0.1:1\"\n");
    shows(&sandbox, "", "listen = \"127.0.0.1:1\" # rmax.toml");
    sandbox.write("rmax.toml", "listen = \"127.0.0.1:1\"\n[env.production]\nlisten = \"127.0.0.1:2\"\n");
    shows(&sandbox, "", "listen = \"127.0.0.1:2\" # rmax.toml [env.production]");
    let sandbox = sandbox.with("RMAX_LISTEN", "127.0.0.1:3");
    shows(&sandbox, "", "listen = \"127.0.0.1:3\" # RMAX_LISTEN");
    shows(&sandbox, "--listen 127.0.0.1:4", "listen = \"127.0.0.1:4\" # --listen");
}

/// A file that sets every key there is.
const EVERY_SETTING: &str = r#"
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
forwarded_header = "forwarded"
country_header = "CF-IPCountry"
metrics_loopback = true
geoip_path = "places.mmdb"
journal_mb = 32
journal_sync = "always"
worker_id = 7
data = "here"
store = "sqlite:there/rlinks.db"
[tls]
cert = "cert.pem"
key = "key.pem"
hsts = 60
[connections]
max = 100
per_address = 10
reserved_for_redirects = 50
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
removals_per_minute = 8
keys = 9
invitations = 0
[log]
format = "json"
level = "debug"
[env.staging]
server = "https://links.example.com"
[env.edge]
cloudflare = { account_id = "a", routes = "r", hits = "h" }
"#;

#[test]
fn every_setting_is_read_from_the_file() {
    let sandbox = Sandbox::new().with("RMAX_IDENTITY", "");
    sandbox.write("rmax.toml", EVERY_SETTING);
    assert_snapshot!(sandbox.rmax("serve --print-config"), @r#"
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
    connections.max = 100                    # rmax.toml
    connections.per_address = 10             # rmax.toml
    connections.reserved_for_redirects = 50  # rmax.toml
    trusted_proxies = ["127.0.0.0/8","::1"]  # rmax.toml
    forwarded_header = "forwarded"           # rmax.toml
    country_header = "CF-IPCountry"          # rmax.toml
    metrics_loopback = true                  # rmax.toml
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
    limits.removals_per_minute = 8           # rmax.toml
    limits.keys = 9                          # rmax.toml
    limits.invitations = 0                   # rmax.toml
    limits.domains = 20                      # default
    limits.live_streams = 20                 # default
    limits.dns_checks_per_hour = 30          # default
    worker_id = 7                            # rmax.toml
    tls.cert = "cert.pem"                    # rmax.toml
    tls.key = "key.pem"                      # rmax.toml
    tls.hsts = 2592000                       # default
    tls.hsts = 60                            # rmax.toml
    log.format = "json"                      # rmax.toml
    log.level = "debug"                      # rmax.toml
    "#);
}

#[test]
fn every_setting_has_an_environment_variable() {
    let sandbox = Sandbox::new()
        .with("RMAX_TRUSTED_PROXIES", "127.0.0.0/8, ::1")
        .with("RMAX_SERVE_ADMIN", "no")
        .with("RMAX_INSECURE_COOKIES", "yes")
        .with("RMAX_CACHE_MB", "64")
        .with("RMAX_FORWARDED_HEADER", "x-real-ip")
        .with("RMAX_COUNTRY_HEADER", "X-Country")
        .with("RMAX_METRICS_LOOPBACK", "yes")
        .with("RMAX_CONNECTIONS_MAX", "200")
        .with("RMAX_CONNECTIONS_PER_ADDRESS", "20")
        .with("RMAX_CONNECTIONS_RESERVED_FOR_REDIRECTS", "0")
        .with("RMAX_TLS_HSTS", "0")
        .with("RMAX_GEOIP_PATH", "p.mmdb")
        .with("RMAX_JOURNAL_MB", "16")
        .with("RMAX_JOURNAL_SYNC", "off")
        .with("RMAX_RETENTION_ARCHIVE", "archive")
        .with("RMAX_SAFETY_BLOCKLIST_PATH", "b.txt")
        .with("RMAX_SAFETY_SAFE_BROWSING_KEY", "secret")
        .with("RMAX_LIMITS_TARGET_CHANGES_PER_MINUTE", "0")
        .with("RMAX_LIMITS_REMOVALS_PER_MINUTE", "0")
        .with("RMAX_LIMITS_KEYS", "9")
        .with("RMAX_LIMITS_INVITATIONS", "8")
        .with("RMAX_LIMITS_DOMAINS", "7")
        .with("RMAX_LIMITS_LIVE_STREAMS", "6")
        .with("RMAX_LIMITS_DNS_CHECKS_PER_HOUR", "0")
        .with("RMAX_THREADS", "5")
        .with("RMAX_TLS_CERT", "c.pem")
        .with("RMAX_TLS_KEY", "k.pem")
        .with("RMAX_LOG_LEVEL", "warn")
        .with("RMAX_DATA", "elsewhere");
    assert_snapshot!(sandbox.rmax("serve --print-config"), @r#"
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
    connections.max = 200                    # RMAX_CONNECTIONS_MAX
    connections.per_address = 20             # RMAX_CONNECTIONS_PER_ADDRESS
    connections.reserved_for_redirects = 0   # RMAX_CONNECTIONS_RESERVED_FOR_REDIRECTS
    trusted_proxies = ["127.0.0.0/8","::1"]  # RMAX_TRUSTED_PROXIES
    forwarded_header = "x-real-ip"           # RMAX_FORWARDED_HEADER
    country_header = "X-Country"             # RMAX_COUNTRY_HEADER
    metrics_loopback = true                  # RMAX_METRICS_LOOPBACK
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
    limits.removals_per_minute = 0           # RMAX_LIMITS_REMOVALS_PER_MINUTE
    limits.keys = 9                          # RMAX_LIMITS_KEYS
    limits.invitations = 8                   # RMAX_LIMITS_INVITATIONS
    limits.domains = 7                       # RMAX_LIMITS_DOMAINS
    limits.live_streams = 6                  # RMAX_LIMITS_LIVE_STREAMS
    limits.dns_checks_per_hour = 0           # RMAX_LIMITS_DNS_CHECKS_PER_HOUR
    tls.cert = "c.pem"                       # RMAX_TLS_CERT
    tls.key = "k.pem"                        # RMAX_TLS_KEY
    tls.hsts = 2592000                       # default
    tls.hsts = 0                             # RMAX_TLS_HSTS
    log.format = "text"                      # default
    log.level = "warn"                       # RMAX_LOG_LEVEL
    "#);
    let settings = sandbox.json("serve --print-config --json");
    assert_eq!(settings["settings"]["cache_mb"]["from"], "RMAX_CACHE_MB");
}

#[test]
fn config_file_is_searched_in_the_working_folder_then_in_home() {
    let sandbox = Sandbox::new();
    sandbox.write("home/.config/rmax/rmax.toml", "cache_mb = 1\n");
    shows(&sandbox, "", "cache_mb = 1 # <folder>/home/.config/rmax/rmax.toml");
    let folder = sandbox.path("xdg").to_string_lossy().into_owned();
    let sandbox = sandbox.with("XDG_CONFIG_HOME", &folder);
    sandbox.write("xdg/rmax/rmax.toml", "cache_mb = 2\n");
    shows(&sandbox, "", "cache_mb = 2 # <folder>/xdg/rmax/rmax.toml");
    sandbox.write("rmax.toml", "cache_mb = 3\n");
    shows(&sandbox, "", "cache_mb = 3 # rmax.toml");
    sandbox.write("other.toml", "cache_mb = 4\n");
    shows(&sandbox, "--config other.toml", "cache_mb = 4 # other.toml");
    sandbox.fails(2, "--config missing.toml links list").says("missing.toml cannot be read");
}

#[test]
fn unknown_keys_are_errors_with_a_suggestion() {
    let sandbox = Sandbox::new();
    sandbox.write("rmax.toml", "lisen = \"127.0.0.1:1\"\n");
    assert_snapshot!(sandbox.rmax("links list"), @"
    exit 2
    --- stderr
    error: rmax.toml: `lisen` is no key of the configuration
    hint: did you mean `listen`?
    ");
    sandbox.write("rmax.toml", "[env.staging]\nstor = \"sqlite:x.db\"\n");
    assert_snapshot!(sandbox.rmax("links list"), @"
    exit 2
    --- stderr
    error: rmax.toml [env.staging]: `stor` is no key of the configuration
    hint: did you mean `store`?
    ");
    sandbox.write("rmax.toml", "[tls]\ncertificate = \"x\"\n");
    sandbox.fails(2, "links list").says("did you mean `tls.cert`?");
    sandbox.write("rmax.toml", "zzz = 1\n");
    sandbox.fails(2, "links list").says("the keys are domain, ");
    assert!(!sandbox.path("rlinks-data").exists());
    let sandbox =
        Sandbox::new().with("RMAX_LISTENS", "127.0.0.1:1").with("RMAX_PORT_8080_TCP", "tcp://10.0.0.1:8080");
    assert_snapshot!(sandbox.rmax("links list --json"), @"
    exit 0
    --- stdout
    []
    --- stderr
    warning: the variable RMAX_LISTENS is not known; did you mean RMAX_LISTEN?
    ");
}

#[test]
fn renamed_keys_are_errors_that_give_the_new_name() {
    let sandbox = Sandbox::new();
    sandbox.write("rmax.toml", "[brake]\ntarget_changes_per_minute = 7\n");
    sandbox
        .fails(2, "links list")
        .says("`brake.target_changes_per_minute` is called `limits.target_changes_per_minute` now");
    sandbox.write("rmax.toml", "[env.production.brake]\ntarget_changes_per_minute = 7\n");
    sandbox.fails(2, "links list").says("is called `limits.target_changes_per_minute` now");
    sandbox.write("rmax.toml", "[limits]\ntarget_changes_per_minute = 7\n");
    sandbox.ok("links list");
    let sandbox = sandbox.with("RMAX_BRAKE_TARGET_CHANGES_PER_MINUTE", "7");
    sandbox.fails(2, "links list").says("is called RMAX_LIMITS_TARGET_CHANGES_PER_MINUTE now");
}

#[test]
fn invalid_values_are_rejected_by_name() {
    let sandbox = Sandbox::new();
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
        sandbox.write("rmax.toml", file);
        let ran = sandbox.fails(2, "links list");
        ran.says(message);
        assert!(!ran.stderr.contains("hunter2"), "{ran}");
    }
    let sandbox = Sandbox::new().with("RMAX_THREADS", "many");
    sandbox.fails(2, "links list").says("RMAX_THREADS must be a whole number");
    sandbox.with("RMAX_THREADS", "").fails(2, "serve --listen nowhere").says("--listen must be an address");
}

#[test]
fn env_flag_selects_a_section_of_the_file() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.rmax("--env staging links list"), @"
    exit 2
    --- stderr
    error: there is no environment `staging`; there is production
    hint: add a section [env.staging] to a file rmax.toml here
    ");
    sandbox.write("rmax.toml", "[env.staging]\nstore = \"sqlite:staging/links.db\"\n[env.other]\n");
    assert_snapshot!(sandbox.rmax("--env stagin links list"), @"
    exit 2
    --- stderr
    error: there is no environment `stagin`; there is production, other, staging
    hint: did you mean `--env staging`?
    ");
    sandbox.ok("links set x https://example.com/production");
    sandbox.ok("--env staging links set x https://example.com/staging");
    sandbox.ok("--env other links set x https://example.com/other");
    for (env, folder) in [
        ("production", "rlinks-data/rlinks.db"),
        ("staging", "staging/links.db"),
        ("other", "rlinks-data/other/rlinks.db"),
    ] {
        let link = sandbox.json(&format!("--env {env} links get x"));
        assert_eq!(link["target"], format!("https://example.com/{env}"));
        assert!(sandbox.path(folder).exists(), "{folder}");
        sandbox.ok(&format!("--env {env} audit verify"));
    }
    let sandbox = sandbox.with("RMAX_ENV", "staging");
    assert_eq!(sandbox.link("x")["target"], "https://example.com/staging");
}

#[test]
fn environment_with_two_backends_is_rejected() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "rmax.toml",
        "[env.remote]\nserver = \"https://links.example.com\"\n[env.edge]\ncloudflare = { account_id = \"a\", routes = \"r\", hits = \"h\" }\n[env.both]\nserver = \"https://a.example\"\nstore = \"sqlite:x.db\"\n",
    );
    assert_snapshot!(sandbox.rmax("--env remote links list"), @"
    exit 2
    --- stderr
    error: environment `remote` points at a server, and RMAX_API_KEY with a key to it is not set
    hint: `rmax keys create --name <name>`, run where the store is, makes a key
    ");
    sandbox.fails(2, "--env edge links list").says("points at Cloudflare");
    sandbox.fails(2, "--env both links list").says("`store` and `server` exclude each other");
    sandbox.ok("links list");
    shows(&sandbox, "--env remote", "server = \"https://links.example.com/\" # rmax.toml [env.remote]");
    // A folder beside a server would be passed over in silence.
    sandbox.fails(2, "--env remote --data elsewhere links list").says("--data names a folder");
    // What is named later wins, whichever it is.
    let sandbox = sandbox.with("RMAX_SERVER", "http://127.0.0.1:1").with("RMAX_API_KEY", "rmx_k");
    sandbox.fails(6, "links list").says("http://127.0.0.1:1/ cannot be reached");
    sandbox.fails(6, "--env both links list").says("cannot be reached");
    let sandbox = sandbox.with("RMAX_STORE", "sqlite:here/rlinks.db");
    sandbox.fails(2, "links list").says("exclude each other");
    let sandbox = sandbox.with("RMAX_SERVER", "");
    sandbox.ok("--env remote links list");
}

#[test]
fn server_setting_must_be_a_plain_http_url() {
    for address in [
        "links.example.com",
        "ftp://links.example.com",
        "https://user@links.example.com",
        "https://:hunter2@links.example.com",
        "https://links.example.com/?key=hunter2",
        "https://links.example.com/#x",
        "sqlite:rlinks.db",
    ] {
        let sandbox = Sandbox::new().with("RMAX_SERVER", address).with("RMAX_API_KEY", "rmx_k");
        let refused = sandbox.fails(2, "links list");
        refused.says("RMAX_SERVER must be the address of a server");
        assert!(!refused.stderr.contains("hunter2"), "{refused}");
    }
}

#[test]
fn api_key_in_the_file_is_rejected_and_not_echoed() {
    for text in [
        "api_key = \"rmx_hunter2\"\n",
        "[env.other]\nserver = \"https://a.example\"\napi_key = \"rmx_hunter2\"\n",
    ] {
        let sandbox = Sandbox::new();
        sandbox.write("rmax.toml", text);
        let refused = sandbox.fails(2, "links list");
        refused.says("an API key is never read from a file");
        refused.says("RMAX_API_KEY");
        assert!(!refused.stderr.contains("hunter2"), "{refused}");
    }
}

#[test]
fn data_flag_overrides_the_store_of_the_file() {
    let sandbox = Sandbox::new();
    sandbox.write("rmax.toml", "store = \"sqlite:configured/rlinks.db\"\n");
    sandbox.ok("links set x https://example.com/configured");
    sandbox.ok("--data elsewhere links set x https://example.com/elsewhere");
    assert!(sandbox.path("configured/rlinks.db").exists() && sandbox.path("elsewhere/rlinks.db").exists());
    assert!(sandbox.path("configured/audit-heads.log").exists(), "keys and logs live beside the store");
    assert_eq!(sandbox.link("x")["target"], "https://example.com/configured");
    // A store that cannot be read as one is never passed over.
    sandbox.write("rmax.toml", "store = \"postgre://db/rlinks\"\n");
    sandbox.fails(2, "--data elsewhere links list").says("`store` must be");
}

#[test]
fn database_password_is_never_printed() {
    let url = "postgres://rlinks:hunter2@127.0.0.1:1/rlinks?sslpassword=hunter2";
    let sandbox = Sandbox::new().with("RMAX_STORE", url);
    for line in [
        "serve --print-config",
        "serve --print-config --json",
        "links list",
        "-vv links list",
        "--json links list",
        "doctor",
        "serve",
    ] {
        let ran = sandbox.rmax(line);
        assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{line}\n{ran}");
    }
    assert_eq!(sandbox.rmax("links list").code, Some(6));
    assert_eq!(sandbox.rmax("serve").code, Some(6));
    shows(&sandbox, "", "store = \"postgres://rlinks:***@127.0.0.1:1/rlinks?sslpassword=***\" # RMAX_STORE");
}

#[test]
fn first_change_adds_the_configured_domain() {
    let sandbox = Sandbox::new();
    sandbox.write("rmax.toml", "domain = \"rmax.to\"\n");
    sandbox.ok("links list");
    sandbox.ok("explain x");
    assert_eq!(sandbox.json("domains list --json").as_array().unwrap().len(), 0);
    sandbox.ok("links set x https://example.com/");
    assert_snapshot!(sandbox.rmax("domains list"), @"
    exit 0
    --- stdout
    HOST     WORKSPACE  PRIMARY  STATE
    rmax.to  main       primary  active
    ");
    let changes = sandbox.changes();
    sandbox.ok("links set x https://example.com/");
    assert_eq!(sandbox.changes(), changes);

    sandbox.ok("workspaces create other --preset edge");
    let sandbox = sandbox.with("RMAX_DOMAIN", "other.example");
    sandbox.ok("--workspace other domains list");
    let elsewhere = sandbox.with("RMAX_DOMAIN", "");
    elsewhere.ok("--workspace other domains add other.example");
    let sandbox = elsewhere.with("RMAX_DOMAIN", "other.example");
    sandbox.ok("links set y https://example.com/").says("belongs to another workspace");
}

#[test]
fn json_log_goes_to_stderr_one_event_a_line() {
    let sandbox = Sandbox::new().with("RMAX_LOG_FORMAT", "json");
    let ran = sandbox.ok("-vv links set x https://example.com/");
    assert!(ran.stdout.starts_with("created "));
    for line in ran.stderr.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
    }
}

#[test]
fn incomplete_cloudflare_settings_are_rejected() {
    let sandbox = Sandbox::new().with("CLOUDFLARE_API_TOKEN", "canary");
    let with = |section: &str| sandbox.write("rmax.toml", &format!("[env.edge]\n{section}\n"));
    with(r#"cloudflare = { account_id = "a", routes = "r" }"#);
    assert_snapshot!(sandbox.rmax("--env edge links list"), @r#"
    exit 2
    --- stderr
    error: environment `edge` points at Cloudflare and does not say `cloudflare.hits`
    hint: cloudflare = { account_id = "...", routes = "<namespace id>", hits = "<namespace id>" }
    "#);
    with(r#"cloudflare = { account_id = "a/../b", routes = "r", hits = "h" }"#);
    sandbox.fails(2, "--env edge links list").says("`cloudflare.account_id` must be an id");
    with(r#"cloudflare = { account_id = "a", routes = "r", hits = "h", api_token = "x" }"#);
    sandbox.fails(2, "--env edge links list").says("CLOUDFLARE_API_TOKEN");
    with("store = \"sqlite:x.db\"\ncloudflare = { account_id = \"a\", routes = \"r\", hits = \"h\" }");
    sandbox.fails(2, "--env edge links list").says("exclude each other");
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
        sandbox.fails(2, &format!("--env edge {line}")).says("Cloudflare");
    }
    sandbox.fails(2, "--env edge links list --workspace other").says("no workspaces");
    sandbox.write("rmax.toml", "");
    sandbox.fails(2, "publish").says("no environment of rmax.toml points at Cloudflare");
    sandbox.fails(2, "clicks import-hits --from nowhere").says("there is none");
}
