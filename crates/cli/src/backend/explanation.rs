//! What a request would get and why, from any backend.

use rlinks_ops::Explanation;
use serde::{Deserialize, Serialize};

/// An explanation as it is shown, from any backend.
#[derive(Serialize, Deserialize)]
pub(crate) struct ExplanationDetails {
    pub(crate) address: String,
    pub(crate) steps: Vec<ExplainStep>,
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    pub(crate) error: Option<String>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ExplainStep {
    pub(crate) step: String,
    pub(crate) result: String,
}

impl From<Explanation> for ExplanationDetails {
    fn from(Explanation { address, steps, status, location, error }: Explanation) -> Self {
        let step = |known: rlinks_core::redirect::explain::ExplainStep| ExplainStep {
            step: known.step.to_owned(),
            result: known.result,
        };
        let steps = steps.into_iter().map(step).collect();
        Self { address, steps, status, location, error: error.map(str::to_owned) }
    }
}
