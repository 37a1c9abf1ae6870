//! The program itself: help, version, completions, and words it does not know.

use insta::assert_snapshot;

use crate::support::sandbox::Sandbox;

#[test]
fn usage_errors_exit_with_2() {
    let sandbox = Sandbox::new();
    for line in [
        "",
        "frobnicate",
        "links",
        "links frobnicate",
        "--frobnicate links list",
        "links list extra",
        "-v -q links list",
        "completions cobol",
        "migrate",
        "serve --threads many",
    ] {
        sandbox.fails(2, line);
    }
    assert_snapshot!(sandbox.rmax("links lst"), @"
    exit 2
    --- stderr
    error: unrecognized subcommand 'lst'

      tip: a similar subcommand exists: 'list'

    Usage: rmax links [OPTIONS] <COMMAND>

    For more information, try '--help'.
    ");
    assert_snapshot!(sandbox.rmax("--json links get"), @r#"
    exit 2
    --- stderr
    {"error":{"code":"BAD_REQUEST","status":400,"message":"the following required arguments were not provided: <CODE>","details":null,"ts":"<time>"}}
    "#);
    let unknown = sandbox.fails(2, "--json links list --frobnicate").error();
    assert!(!unknown["message"].as_str().unwrap().contains("For more information"), "{unknown}");
    let many = sandbox.fails(2, "--json links list --limit many").error();
    assert!(!many["message"].as_str().unwrap().contains("For more information"), "{many}");
    assert!(!sandbox.path("rlinks-data").exists());
}

#[test]
fn help_lists_every_command() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.rmax("--help"), @"
    exit 0
    --- stdout
    Short links that outlive every vendor: a redirect server and its command line

    Usage: rmax [OPTIONS] <COMMAND>

    Commands:
      serve        Run the server
      links        Create, change, look at and remove links
      shorten      Create a link under a generated code and print its short URL
      explain      Say what a request would get and why, without counting it
      workspaces   Workspaces and their policies
      domains      The hosts a workspace answers on
      users        Members of a workspace
      keys         API keys: what programs sign in with
      audit        The log of every change: read, export and verify it
      clicks       Recorded clicks: export, recount and prune them
      publish      Copy a store's links to Cloudflare, where the Worker serves them
      sweep        The daily job by hand: purge expired links where the policy says so, and apply
                   retention, in every workspace
      backup       Write links, people and the audit log into one file, also while serving
      restore      Replace links, people and the audit log by what a backup holds
      doctor       Look for what is wrong and say what to do
      migrate      The schema of the store
      dev          For those who work on rmax, or try it out
      completions  Print a completion script for a shell
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Global options:
          --json              Print data, and errors, as JSON
          --env <NAME>        The environment: a section [env.NAME] of rmax.toml [default: production]
          --workspace <SLUG>  The workspace [default: main]
          --data <DIR>        The data folder [default: ./rlinks-data]
          --config <FILE>     The configuration file [default: ./rmax.toml, then rmax/rmax.toml in the
                              user's configuration folder]
          --insecure          Send the API key to another machine although the server's address is plain
                              http
      -v, --verbose...        Say more on stderr; twice for everything
      -q, --quiet             Say only what went wrong
    ");
    assert_eq!(sandbox.ok("--version").stdout, format!("rmax {}\n", env!("CARGO_PKG_VERSION")));
    for line in ["links set --help", "serve --help", "audit verify --help"] {
        sandbox.ok(line);
    }
    for (line, word) in [
        ("backup --help", "Clicks are not in it. `rmax clicks export` keeps them"),
        ("clicks misses --help", "codes that are unknown, disabled or deleted"),
        ("workspaces policy --help", "0 deletes them when their UTC day is over"),
    ] {
        let help = sandbox.ok(line).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(word), "{line}: {help}");
    }
}

#[test]
fn completions_are_generated_for_every_shell() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.ok(&format!("completions {shell}")).stdout;
        assert!(script.contains("rmax") && script.contains("shorten"), "{shell}");
    }
}

#[test]
fn global_flags_are_accepted_in_any_position() {
    let sandbox = Sandbox::new();
    sandbox.ok("--data there links set x https://example.com/");
    assert_eq!(
        sandbox.json("links list --json --data there"),
        sandbox.json("--data there --json links list")
    );
    assert!(sandbox.path("there/rlinks.db").exists() && !sandbox.path("rlinks-data").exists());
}
