//! `rmax migrate`: the schema of the store. Opening a store brings it up to date, so both commands find it so; `up` is for
//! whoever wants it done before the next start.

use serde_json::json;

use crate::args::Migrate;
use crate::backend::local_store::LocalStore;
use crate::error::CliError;

pub(crate) async fn run(local: &LocalStore, command: &Migrate) -> Result<(), CliError> {
    let schema = local.store().schema().await?;
    if local.output.json {
        return local.output.object(&json!({ "known": schema.known, "applied": schema.applied }));
    }
    let newest = schema.applied.last().copied().unwrap_or_default();
    match command {
        Migrate::Up => local.output.line(&format!("the schema is up to date: {newest}")),
        Migrate::Status => {
            let waiting = schema.known.iter().filter(|version| !schema.applied.contains(version)).count();
            local
                .output
                .line(&format!("schema {newest}; {} applied, {waiting} waiting", schema.applied.len()))
        }
    }
}
