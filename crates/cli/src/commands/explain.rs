//! `rmax explain`: what a request would get and why.

use rlinks_core::Slug;
use rlinks_ops::Explanation;
use serde::{Deserialize, Serialize};

use super::moment;
use crate::args::Explain;
use crate::backend::Place;
use crate::error::Failure;

/// An explanation as it is shown, whoever gave it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Explained {
    address: String,
    steps: Vec<Step>,
    status: u16,
    location: Option<String>,
    error: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Step {
    step: String,
    result: String,
}

impl From<Explanation> for Explained {
    fn from(Explanation { address, steps, status, location, error }: Explanation) -> Self {
        let step = |known: rlinks_core::redirect::explain::Step| Step {
            step: known.step.to_owned(),
            result: known.result,
        };
        let steps = steps.into_iter().map(step).collect();
        Self { address, steps, status, location, error: error.map(str::to_owned) }
    }
}

pub(super) async fn run(place: &Place, args: &Explain) -> Result<(), Failure> {
    let at = moment(args.at.as_deref())?;
    let explained = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => {
            let workspace = Slug::stored(session.config.workspace.clone());
            session.ops.explain(&workspace, &args.question, at).await?.into()
        }
        Place::Server(remote) => remote.explain(&args.question, at).await?,
    };
    if place.output().json {
        return place.output().object(&explained);
    }
    place.output().line(&explained.address)?;
    let width = explained.steps.iter().map(|step| step.step.len()).max().unwrap_or_default();
    for step in &explained.steps {
        place.output().line(&format!("  {:width$}  {}", step.step, step.result))?;
    }
    Ok(())
}
