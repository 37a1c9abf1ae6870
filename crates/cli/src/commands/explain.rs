//! `rmax explain`: what a request would get and why.

use rlinks_core::Slug;

use super::moment;
use crate::args::Explain;
use crate::backend::Place;
use crate::backend::explanation::Explained;
use crate::error::Failure;

pub(crate) async fn run(place: &Place, args: &Explain) -> Result<(), Failure> {
    let at = moment(args.at.as_deref())?;
    let explained: Explained = match place {
        Place::Cloudflare(_) => return Err(Failure::needs_store()),
        Place::Store(session) => {
            let workspace = Slug::from_stored(session.config.workspace.clone());
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
