//! Files of links as others write them, and stores with links in every state.

use serde_json::Value;

use crate::support::sandbox::Sandbox;

/// A file written by hand in the shape of a format.
pub(crate) fn import_file(name: &str) -> String {
    format!("{}/tests/it/fixtures/import/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A link as an export has it.
pub(crate) fn exported_link(sandbox: &Sandbox, code: &str) -> Value {
    let lines = sandbox.ok("links export").stdout;
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.into_iter().find(|link| link["code"] == code).unwrap_or_else(|| panic!("there is no {code}"))
}

/// Links in every state, with clicks, in a workspace of each preset.
pub(crate) fn varied_store() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ok("dev seed --links 700 --clicks 900 --days 3");
    sandbox.ok(
        "links set off https://example.com/off --title '=1+1' --note 'it is off, \"really\"' --tag b --tag a",
    );
    sandbox.ok("links disable off");
    sandbox.ok("links set gone https://example.com/gone --expires 2099-01-01T00:00:00.123Z --status 308");
    sandbox.ok("links delete gone --yes");
    sandbox.ok("links set plain http://example.com/plain --no-https");
    sandbox.ok("links set plain http://example.com/plainer --no-https");
    sandbox
}
