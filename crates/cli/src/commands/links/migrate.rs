//! `rmax links migrate`: what was found among the objects at Cloudflare.

use rlinks_ops::Mode;
use serde_json::json;

use crate::backend::Place;
use crate::backend::cloudflare::migrate::{Migrated, Unread};
use crate::error::Failure;

pub(super) async fn migrate(place: &Place, dry_run: bool) -> Result<(), Failure> {
    let Place::Cloudflare(cloudflare) = place else {
        return Err(Failure::usage(
            "only links at Cloudflare are objects with a version; a store's schema is brought up to date by `rmax migrate up`",
        ));
    };
    let mode = if dry_run { Mode::DryRun } else { Mode::Write };
    let done = cloudflare.migrate(mode).await?;
    let output = place.output();
    if output.json {
        let Migrated { old, current, unreadable, moved } = &done;
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
    for Unread { key, why } in &done.unreadable {
        output.warning(&format!("{key} is left alone: {why}"));
    }
    if !done.moved.is_empty() {
        return Err(Failure::conflict(format!(
            "changed by somebody else meanwhile, and left alone: {}",
            done.moved.join(", ")
        ))
        .hint("`rmax links migrate` again takes them too"));
    }
    Ok(())
}
