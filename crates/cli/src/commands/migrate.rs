//! `rmax migrate`: the schema of the store. Opening a store brings it up to date, so both commands find it so; `up` is for
//! whoever wants it done before the next start.

use serde_json::json;

use crate::args::Migrate;
use crate::backend::local_store::Session;
use crate::error::Failure;

pub(crate) async fn run(session: &Session, command: &Migrate) -> Result<(), Failure> {
    let schema = session.store().schema().await?;
    if session.output.json {
        return session.output.object(&json!({ "known": schema.known, "applied": schema.applied }));
    }
    let newest = schema.applied.last().copied().unwrap_or_default();
    match command {
        Migrate::Up => session.output.line(&format!("the schema is up to date: {newest}")),
        Migrate::Status => {
            let waiting = schema.known.iter().filter(|version| !schema.applied.contains(version)).count();
            session
                .output
                .line(&format!("schema {newest}; {} applied, {waiting} waiting", schema.applied.len()))
        }
    }
}
