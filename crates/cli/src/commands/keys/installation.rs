//! `rmax keys rotate-installation`: new keys for what the installation itself signs.

use rlinks_core::{Slug, Timestamp};
use rlinks_ops::shared_keys::{InstallationKey, OldSignatures};
use rlinks_store::audit::signing_key::SigningKeySource;
use serde_json::json;

use crate::args::members::InstallationKeyName;
use crate::backend::Backend;
use crate::backend::local_store::LocalStore;
use crate::error::CliError;

pub(super) async fn rotate(
    backend: &Backend,
    key: InstallationKeyName,
    at_once: bool,
) -> Result<(), CliError> {
    let Backend::Store(local) = backend else {
        return Err(CliError::usage("this needs the store itself: run it where the store is")
            .hint("choose with --env an environment of rmax.toml that has a `store` (or set RMAX_STORE)"));
    };
    let shared = match key {
        InstallationKeyName::Audit if at_once => {
            return Err(CliError::usage("--now is for the keys form, cursor and oidc")
                .hint("what the old audit key signs from now on counts no more anyway"));
        }
        InstallationKeyName::Audit => return rotate_audit(local).await,
        InstallationKeyName::Form => InstallationKey::Form,
        InstallationKeyName::Cursor => InstallationKey::Cursor,
        InstallationKeyName::Oidc => InstallationKey::Oidc,
    };
    let old = if at_once { OldSignatures::Refuse } else { OldSignatures::AcceptForAWhile };
    let caller = local.caller_in(&local.workspace_named(Slug::MAIN).await?);
    let change = async { Ok(local.ops.rotate_shared_key(&caller, shared, old).await?) };
    let until: Option<Timestamp> = local.change(change).await?;
    if local.output.json {
        return local.output.object(&json!({ "key": shared.name(), "previous_accepted_until": until }));
    }
    let name = shared.name();
    local.output.done(&match until {
        Some(until) => format!("rotated the {name} key; what the old one signed is accepted until {until}"),
        None => format!("rotated the {name} key; nothing that the old one signed is accepted"),
    })
}

async fn rotate_audit(local: &LocalStore) -> Result<(), CliError> {
    let caller = local.caller_in(&local.workspace_named(Slug::MAIN).await?);
    let change = async { Ok(local.ops.rotate_audit_key(&caller, &local.signing_key).await?) };
    let rotation = local.change(change).await?;
    if local.output.json {
        return local.output.object(
            &json!({ "key": "audit", "fingerprint": rotation.fingerprint, "former": rotation.former }),
        );
    }
    local.output.done(&format!("rotated the audit key; the new one is {}", rotation.fingerprint))?;
    for former in &rotation.former {
        local.output.note(&format!("what {former} signed until now can still be verified"));
    }
    if matches!(local.signing_key.source(), SigningKeySource::Command(_)) {
        local.output.note("a running server asks the command for its key when it starts: restart it");
    }
    Ok(())
}
