//! `audit.*`: the key that signs audit heads, and where they are sent.

use rlinks_ops::audit_push::PushDestination;
use rlinks_store::audit::signing_key::SigningKeySource;

use super::layers::Layers;
use crate::error::CliError;

const COMMAND_PREFIX: &str = "command:";

/// In the data folder, unless it is somewhere else.
pub(super) fn key(layers: &mut Layers) -> Result<SigningKeySource, CliError> {
    let source = layers.parsed("audit.key", |text| match text.strip_prefix(COMMAND_PREFIX) {
        Some(command) if command.trim().is_empty() => {
            Err("must be a file, or `command:` and the command that prints the key".to_owned())
        }
        Some(command) => Ok(SigningKeySource::Command(command.trim().to_owned())),
        None if text.trim().is_empty() => Err("is empty".to_owned()),
        None => Ok(SigningKeySource::File(text.into())),
    })?;
    Ok(source.unwrap_or(SigningKeySource::DataFolder))
}

pub(super) fn push(layers: &mut Layers) -> Result<Vec<PushDestination>, CliError> {
    layers.list_shown_as("audit.push", PushDestination::parse, PushDestination::describe)
}
