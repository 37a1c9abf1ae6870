//! Workspaces, policies and domains.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::sandbox::Sandbox;

#[test]
fn workspace_is_created_shown_and_listed() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.rmax("workspaces create crew --preset team --name 'The crew'"), @"
    exit 0
    --- stdout
    created workspace crew (preset team)
    ");
    assert_snapshot!(sandbox.rmax("workspaces list"), @"
    exit 0
    --- stdout
    SLUG  NAME      PRESET  LINKS
    main  Main      fabric  0
    crew  The crew  team    0
    ");
    assert_snapshot!(sandbox.rmax("workspaces show crew"), @r#"
    exit 0
    --- stdout
    slug        crew
    name        The crew
    links       0
    domains     none
    created_at  <time>
    policy
      answers.deleted=404
      answers.disabled=410
      answers.expired=410
      cache.max_age=0
      cache.scope=no-store
      code.alphabet=A-Za-z0-9_-
      code.fold_case=false
      code.max=20
      code.min=1
      code.unique_fold=false
      delete=soft
      generator=hash
      https_only=false
      limits.creations_per_hour=null
      limits.live_links=null
      limits.requests_per_hour=1000
      max_target_bytes=65536
      preset=team
      redirect_status=302
      retention_days=396
      reuse=true
      sign_in=["password","oidc","keys"]
      sweep=none
      user_agent=512
      visibility=workspace
    "#);
    let shown = sandbox.json("--workspace crew workspaces show --json");
    assert_eq!(
        (&shown["slug"], &shown["links"], &shown["policy"]["preset"]),
        (&json!("crew"), &json!(0), &json!("team"))
    );
    assert!(shown["id"].is_string());
    assert_eq!(sandbox.json("workspaces list --json").as_array().unwrap().len(), 2);
}

#[test]
fn invalid_workspace_slug_or_preset_is_rejected() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.rmax("workspaces create Bad_Slug --preset huge --name ''"), @"
    exit 5
    --- stderr
    error: slug: may have lower-case letters and digits, with hyphens inside
    error: preset: is none of fabric, edge, platform, team
    error: name: is empty
    ");
    sandbox.ok("workspaces create crew");
    assert_snapshot!(sandbox.rmax("workspaces create crew"), @"
    exit 4
    --- stderr
    error: `crew` is taken
    hint: a slug is never given out twice, a deleted workspace's neither; choose another
    ");
    assert_snapshot!(sandbox.rmax("--workspace nowhere links list"), @"
    exit 3
    --- stderr
    error: there is no workspace `nowhere`
    hint: `rmax workspaces list` shows the ones there are
    ");
    sandbox.fails(3, "workspaces show nowhere");
    sandbox.fails(3, "workspaces policy nowhere");
    sandbox.fails(3, "workspaces restore nowhere");
    sandbox.fails(2, "workspaces create");
}

#[test]
fn workspaces_do_not_see_each_other() {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces create crew --preset team");
    sandbox.ok("links set x https://example.com/main");
    sandbox.fails(3, "--workspace crew links get x");
    sandbox.ok("--workspace crew links set x https://example.com/crew");
    assert_eq!(sandbox.link("x")["target"], "https://example.com/main");
    assert_eq!(sandbox.json("links list --json --workspace crew")[0]["target"], "https://example.com/crew");
    let sandbox = sandbox.with("RMAX_WORKSPACE", "crew");
    assert_eq!(sandbox.link("x")["target"], "https://example.com/crew");
}

#[test]
fn deleted_workspace_is_hidden_and_can_be_restored() {
    let sandbox = Sandbox::new();
    sandbox.ok("workspaces create crew");
    sandbox.ok("--workspace crew links set x https://example.com/");
    assert_snapshot!(sandbox.rmax("workspaces delete crew"), @"
    exit 2
    --- stderr
    error: deleting a workspace needs --yes where nobody can be asked
    ");
    assert_snapshot!(sandbox.rmax("workspaces delete crew --yes"), @"
    exit 0
    --- stdout
    deleted workspace crew (preset fabric)
    ");
    assert_snapshot!(sandbox.rmax("--workspace crew links get x"), @"
    exit 3
    --- stderr
    error: the workspace `crew` was deleted
    hint: `rmax workspaces restore crew` brings it back
    ");
    sandbox.fails(3, "workspaces delete crew --yes");
    sandbox.fails(4, "workspaces create crew");
    assert_snapshot!(sandbox.rmax("workspaces list"), @"
    exit 0
    --- stdout
    SLUG  NAME  PRESET  LINKS
    main  Main  fabric  0
    ");
    assert_snapshot!(sandbox.rmax("workspaces list --show-deleted"), @"
    exit 0
    --- stdout
    SLUG  NAME  PRESET  LINKS  STATE
    main  Main  fabric  0
    crew  crew  fabric  1      deleted <time>
    ");
    assert_snapshot!(sandbox.rmax("workspaces restore crew"), @"
    exit 0
    --- stdout
    restored workspace crew (preset fabric)
    ");
    sandbox.ok("--workspace crew links get x");
    assert!(sandbox.ok("workspaces restore crew").stdout.starts_with("unchanged "));
}

#[test]
fn a_policy_is_shown_and_changed() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.rmax("workspaces policy"), @r#"
    exit 0
    --- stdout
    answers.deleted=404
    answers.disabled=404
    answers.expired=410
    cache.max_age=0
    cache.scope=private
    code.alphabet=a-z0-9-
    code.fold_case=true
    code.max=64
    code.min=1
    code.unique_fold=false
    delete=tombstone
    generator=random7
    https_only=true
    limits.creations_per_hour=null
    limits.live_links=null
    limits.requests_per_hour=null
    max_target_bytes=2048
    preset=fabric
    redirect_status=301
    retention_days=null
    reuse=false
    sign_in=["password","oidc","keys"]
    sweep=none
    user_agent=hashed
    visibility=workspace
    "#);
    let policy = sandbox.json("workspaces policy --set cache.max_age=60 --set answers.expired=404 --json");
    assert_eq!((&policy["cache"]["max_age"], &policy["answers"]["expired"]), (&json!(60), &json!(404)));
    sandbox.ok("workspaces policy --set limits.live_links=1");
    sandbox.ok("links set a https://example.com/");
    assert_snapshot!(sandbox.rmax("links set b https://example.com/"), @"
    exit 4
    --- stderr
    error: this workspace may have 1 links that are neither deleted nor expired, and has them
    hint: delete links that are no longer needed, or raise the limit with `rmax workspaces policy --set limits.live_links=<n>`
    ");
    assert_eq!(sandbox.fails(4, "--json links set b https://example.com/").error()["code"], "QUOTA_EXCEEDED");
    sandbox.ok("workspaces policy --set limits.live_links=null");
    sandbox.ok("links set b https://example.com/");
    assert_eq!(sandbox.json("workspaces policy --preset edge --json")["redirect_status"], 302);
    // What was given out keeps answering under the new rules.
    assert_eq!(sandbox.json("explain a --json")["status"], 301);
}

#[test]
fn fields_of_a_policy_may_come_in_any_order() {
    let sandbox = Sandbox::new();
    let policy = sandbox
        .json("workspaces policy --json --set reuse=true --set generator=hash --set code.fold_case=false");
    assert_eq!((&policy["reuse"], &policy["generator"]), (&json!(true), &json!("hash")));
}

#[test]
fn invalid_policy_changes_nothing() {
    let sandbox = Sandbox::new();
    let changes = sandbox.changes();
    assert_snapshot!(sandbox.rmax("workspaces policy --set nope=1 --set cache.max_age=-1 --set reuse=true"), @"
    exit 5
    --- stderr
    error: nope: is no field of a policy
    error: cache.max_age: cannot be `-1`: invalid value: integer `-1`, expected u32
    error: reuse: reuse needs the generator hash
    ");
    assert_snapshot!(sandbox.rmax("workspaces policy --set cache.max_age"), @"
    exit 2
    --- stderr
    error: `--set cache.max_age` names no value
    hint: write it like `--set cache.max_age=60`
    ");
    sandbox.fails(5, "workspaces policy --preset huge");
    sandbox.ok("workspaces policy --set cache.max_age=0");
    assert_eq!(sandbox.changes(), changes);
}

#[test]
fn domains_are_added_listed_made_primary_and_removed() {
    let sandbox = Sandbox::new();
    assert_snapshot!(sandbox.rmax("domains list"), @"
    exit 0
    --- stderr
    no domains: workspace main answers on every host until it, or the operator, names one
    ");
    assert_snapshot!(sandbox.rmax("domains add RMAX.to."), @"
    exit 0
    --- stdout
    added rmax.to: answered by workspace main, its primary domain
    --- stderr
    warning: rmax.to is the first domain: until now workspace main answered on every host, and from now on hosts nobody configured get 404
    ");
    assert_snapshot!(sandbox.rmax("domains add rmax.to"), @"
    exit 0
    --- stdout
    unchanged rmax.to: answered by workspace main, its primary domain
    ");
    sandbox.ok("domains add bücher.example");
    assert_snapshot!(sandbox.rmax("domains primary bücher.example"), @"
    exit 0
    --- stdout
    primary xn--bcher-kva.example: answered by workspace main, its primary domain
    ");
    assert_snapshot!(sandbox.rmax("domains list"), @"
    exit 0
    --- stdout
    HOST                   WORKSPACE  PRIMARY  STATE
    rmax.to                main                active
    xn--bcher-kva.example  main       primary  active
    ");
    assert!(sandbox.ok("shorten https://example.com/").stdout.starts_with("https://xn--bcher-kva.example/"));
    assert_snapshot!(sandbox.rmax("domains remove xn--bcher-kva.example"), @"
    exit 0
    --- stdout
    removed xn--bcher-kva.example from workspace main
    ");
    assert_eq!(sandbox.json("domains list --json")[0]["primary"], true);
    sandbox.fails(3, "domains remove nope.example");
    sandbox.fails(3, "domains primary nope.example");
}

#[test]
fn a_domain_belongs_to_one_workspace() {
    let sandbox = Sandbox::new();
    sandbox.ok("domains add rmax.to");
    sandbox.ok("workspaces create crew");
    assert_snapshot!(sandbox.rmax("--workspace crew domains add rmax.to"), @"
    exit 4
    --- stderr
    error: `rmax.to` is taken
    hint: a host belongs to one workspace; `rmax domains list --all` shows whose it is
    ");
    sandbox.ok("--workspace crew domains add crew.example");
    sandbox.fails(3, "domains remove crew.example");
    assert_snapshot!(sandbox.rmax("domains list --all"), @"
    exit 0
    --- stdout
    HOST          WORKSPACE  PRIMARY  STATE
    crew.example  crew       primary  active
    rmax.to       main       primary  active
    ");
    assert_eq!(sandbox.json("domains list --json").as_array().unwrap().len(), 1);
    // Every domain served counts as ours.
    sandbox.fails(5, "links set x https://crew.example/y");
}

#[test]
fn adding_a_domain_that_is_not_a_host_is_rejected() {
    let sandbox = Sandbox::new();
    for host in ["https://rmax.to", "rmax.to/x", "rmax.to:80", "a..b", "'a b'", "''"] {
        let ran = sandbox.fails(5, &format!("--json domains add {host}"));
        assert_eq!(ran.error()["details"]["fields"][0]["field"], "host", "{host}");
    }
}

#[test]
fn removing_the_configured_domain_warns_that_it_returns() {
    let sandbox = Sandbox::new().with("RMAX_DOMAIN", "rmax.to");
    sandbox.ok("links set x https://example.com/");
    assert_snapshot!(sandbox.rmax("domains remove rmax.to"), @"
    exit 0
    --- stdout
    removed rmax.to from workspace main
    --- stderr
    hint: rmax.to is the configured `domain`: the next change enters it again unless you remove it there too
    ");
    assert_eq!(sandbox.json("domains list --json"), json!([]));
}
