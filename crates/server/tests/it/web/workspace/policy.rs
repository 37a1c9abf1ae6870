//! The policy.

use rlinks_core::{Policy, Preset};

use super::{open, send, server_with_admin};
use crate::support::browser::Browser;
use crate::support::members::TestServer;

const PAGE: &str = "/admin/policy";

/// Every field of a form of the page, as a browser would send it.
fn fields(page: &str) -> Vec<(String, String)> {
    let form = page.split("<form method=\"post\" action=\"/admin/policy\">").nth(1).unwrap();
    let form = form.split("</form>").next().unwrap();
    let attribute = |tag: &str, name: &str| {
        tag.split(&format!(" {name}=\"")).nth(1).map(|rest| rest.split('"').next().unwrap().to_owned())
    };
    let mut found = Vec::new();
    for tag in form.split('<').filter(|tag| tag.starts_with("input")) {
        if !tag.contains("checkbox") || tag.contains(" checked") {
            found.push((attribute(tag, "name").unwrap(), attribute(tag, "value").unwrap()));
        }
    }
    for select in form.split("<select ").skip(1) {
        let select = select.split("</select>").next().unwrap();
        let chosen = select.split("<option").find(|option| option.contains(" selected")).unwrap();
        found.push((attribute(&format!(" {select}"), "name").unwrap(), attribute(chosen, "value").unwrap()));
    }
    found
}

fn set(fields: &mut [(String, String)], name: &str, value: &str) {
    let field = fields.iter_mut().find(|(known, _)| known == name).unwrap();
    value.clone_into(&mut field.1);
}

fn post(browser: &mut Browser, fields: &[(String, String)]) -> crate::support::raw_client::Response {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    browser.post(PAGE, &fields)
}

fn policy(server: &TestServer) -> Policy {
    server.runtime.block_on(server.ops.workspace(&server.main.slug)).unwrap().policy
}

#[test]
fn policy_change_is_previewed_before_it_is_saved() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let page = open(&mut ann, PAGE);
    for preset in Preset::ALL {
        assert!(page.contains(&format!("?preset={preset}#")), "{page}");
    }
    let mut form = fields(&page);
    let nothing = post(&mut ann, &form);
    assert_eq!(nothing.location(), Some("/admin/policy?done=nothing"), "{nothing:?}");
    set(&mut form, "cache.max_age", "60");
    set(&mut form, "limits.live_links", "500");
    let shown = post(&mut ann, &form);
    assert_eq!(shown.status, 200, "{shown:?}");
    assert!(shown.body.contains("<del>no limit</del></td><td><ins>500</ins>"), "{shown:?}");
    assert!(
        shown.body.contains("<del>0</del></td><td><ins>60</ins>") && !shown.body.contains("Longest target"),
        "{shown:?}"
    );
    assert_eq!(policy(&server), Policy::preset(Preset::Fabric), "nothing is changed before it is confirmed");
    let saved = post(&mut ann, &fields(&shown.body));
    assert_eq!(saved.location(), Some("/admin/policy?done=policy"), "{saved:?}");
    let now = policy(&server);
    assert_eq!((now.cache.max_age, now.limits.live_links), (60, Some(500)));
    // And back to no limit, by emptying the field.
    let mut form = fields(&open(&mut ann, PAGE));
    set(&mut form, "limits.live_links", "");
    let shown = post(&mut ann, &form);
    post(&mut ann, &fields(&shown.body));
    assert_eq!(policy(&server).limits.live_links, None);
    assert_eq!(server.actions().iter().filter(|action| *action == "workspace.policy").count(), 2);
}

#[test]
fn preset_fills_the_form_and_is_saved_like_any_change() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let mut form = fields(&open(&mut ann, "/admin/policy?preset=team"));
    assert_eq!(policy(&server).preset, Preset::Fabric);
    set(&mut form, "code.max", "30");
    let shown = post(&mut ann, &form);
    assert!(shown.body.contains("<del>fabric</del></td><td><ins>team</ins>"), "{shown:?}");
    post(&mut ann, &fields(&shown.body));
    let mut expected = Policy::preset(Preset::Team);
    expected.code.max = 30;
    assert_eq!(policy(&server), expected);
}

#[test]
fn invalid_value_is_reported_beside_its_field() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let mut form = fields(&open(&mut ann, PAGE));
    set(&mut form, "code.min", "70");
    set(&mut form, "user_agent", "<b>most</b>");
    set(&mut form, "retention_days", "30");
    let refused = post(&mut ann, &form);
    assert_eq!(refused.status, 400, "{refused:?}");
    for wrong in ["code.min-wrong", "user_agent-wrong"] {
        assert!(
            refused.body.contains(&format!("<p class=\"problem\" id=\"{wrong}\">")),
            "{wrong}: {refused:?}"
        );
    }
    assert!(
        !refused.body.contains("retention_days-wrong") && !refused.body.contains("<b>most"),
        "{refused:?}"
    );
    assert!(
        refused.body.contains("name=\"retention_days\" value=\"30\""),
        "what was typed stays: {refused:?}"
    );
    let mut form = fields(&open(&mut ann, PAGE));
    form.retain(|(name, _)| !name.starts_with("sign_in"));
    let refused = post(&mut ann, &form);
    assert!(
        refused.status == 400 && refused.body.contains("Choose at least one way to sign in."),
        "{refused:?}"
    );
    assert_eq!(policy(&server), Policy::preset(Preset::Fabric));
}

#[test]
fn errors_are_in_plain_language() {
    let (_server, mut ann) = server_with_admin(Preset::Fabric);
    for (field, value, words) in [
        ("code.min", "abc", "Write a whole number."),
        ("code.min", "70", "the shortest is not longer than the longest."),
        ("code.max", "0", "the shortest is not longer than the longest."),
        ("code.max", "99999999999999999999", "This number is too large."),
        ("code.alphabet", "A-Za-z0-9-", "only where codes are lower-case letters, digits, hyphen."),
        ("generator", "random8", "only where a code is made of seven random lower-case characters."),
        ("reuse", "true", "only where a code is made as a hash of the target."),
        ("cache.max_age", "31536001", "which is a year."),
        ("max_target_bytes", "3", "Choose a number between 16 and 65536."),
        ("user_agent", "most of it", "Write hashed, or a whole number up to 512."),
        ("retention_days", "some", "Write a whole number, or leave it empty."),
        ("limits.requests_per_hour", "0", "Choose at least 1, or leave it empty for no limit."),
        ("visibility", "nobody", "Choose one of these."),
    ] {
        let mut form = fields(&open(&mut ann, PAGE));
        set(&mut form, field, value);
        let refused = post(&mut ann, &form);
        assert_eq!(refused.status, 400, "{field}: {refused:?}");
        let wrong = refused.body.split(&format!("id=\"{field}-wrong\">")).nth(1).unwrap();
        let wrong = wrong.split("</p>").next().unwrap();
        assert!(wrong.ends_with(words), "{field}: {wrong}");
        assert!(!wrong.contains('`') && !wrong.contains("&lt;") && !wrong.contains('_'), "{field}: {wrong}");
    }
}

#[test]
fn removing_the_own_sign_in_method_gives_a_warning() {
    let (_server, mut ann) = server_with_admin(Preset::Fabric);
    let mut form = fields(&open(&mut ann, PAGE));
    form.retain(|(name, _)| name != "sign_in.password");
    let shown = post(&mut ann, &form);
    assert!(shown.status == 200 && shown.body.contains("you would be signed out at once"), "{shown:?}");
}

#[test]
fn concurrent_change_is_shown_and_not_overwritten() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let mut form = fields(&open(&mut ann, PAGE));
    set(&mut form, "cache.max_age", "60");
    let shown = post(&mut ann, &form);
    server.advance_ms(5000);
    server.admin().patch("/workspace", &serde_json::json!({"policy": {"code": {"max": 40}}})).expect(200);
    let again = post(&mut ann, &fields(&shown.body));
    assert_eq!(again.status, 200, "{again:?}");
    assert!(
        again.body.contains("Somebody else has changed")
            && again.body.contains("<del>40</del></td><td><ins>64</ins>"),
        "{again:?}"
    );
    assert_eq!(policy(&server).cache.max_age, 0);
}

#[test]
fn workspace_is_renamed() {
    let (server, mut ann) = server_with_admin(Preset::Fabric);
    let done = send(&mut ann, PAGE, "/admin/workspace/name", &[("name", "Our links")]);
    assert_eq!(done.location(), Some("/admin/policy?done=name"), "{done:?}");
    assert!(open(&mut ann, "/admin/policy?done=name").contains("value=\"Our links\""));
    let refused = send(&mut ann, PAGE, "/admin/workspace/name", &[("name", "")]);
    assert!(refused.status == 400 && refused.body.contains("id=\"name-problem\""), "{refused:?}");
    assert!(server.actions().ends_with(&["workspace.update".to_owned()]));
}
