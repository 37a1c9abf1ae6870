//! `rmax links migrate`: what was found among the objects at Cloudflare.

use rlinks_ops::WriteMode;
use serde_json::json;

use crate::backend::Backend;
use crate::backend::cloudflare::migrate::{MigrationReport, UnreadableObject};
use crate::error::CliError;

pub(super) async fn migrate(backend: &Backend, dry_run: bool) -> Result<(), CliError> {
    let Backend::Cloudflare(cloudflare) = backend else {
        return Err(CliError::usage(
            "only links at Cloudflare are objects with a version; a store's schema is brought up to date by `rmax migrate up`",
        ));
    };
    let mode = if dry_run { WriteMode::DryRun } else { WriteMode::Apply };
    let done = cloudflare.migrate(mode).await?;
    let output = backend.output();
    if output.json {
        let MigrationReport { old, current, unreadable, moved } = &done;
        output.object(&json!({
            "dry_run": dry_run, "migrated": old, "current": current, "unreadable": unreadable, "moved": moved,
        }))?;
    } else {
        let verb = if dry_run { "would migrate" } else { "migrated" };
        for code in &done.old {
            output.line(&format!("{verb} {code}"))?;
        }
        output.done(&format!(
            "{verb} {}; {} current, {} unreadable",
            done.old.len(),
            done.current,
            done.unreadable.len()
        ))?;
    }
    for UnreadableObject { key, why } in &done.unreadable {
        output.warning(&format!("{key} is left alone: {why}"));
    }
    if !done.moved.is_empty() {
        return Err(CliError::conflict(format!(
            "changed by somebody else meanwhile, and left alone: {}",
            done.moved.join(", ")
        ))
        .hint("`rmax links migrate` again takes them too"));
    }
    Ok(())
}
