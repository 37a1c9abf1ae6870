//! The envelope every error comes in. [`rlinks_core::error_code::to_json`] writes it.

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub struct Envelope {
    pub error: EnvelopeBody,
}

#[derive(Deserialize)]
pub struct EnvelopeBody {
    pub code: String,
    pub message: String,
    #[serde(default)]
    pub details: Value,
}
