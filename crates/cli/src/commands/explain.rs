//! `rmax explain`: what a request would get and why.

use rlinks_core::Slug;

use super::moment;
use crate::args::Explain;
use crate::error::Failure;
use crate::session::Session;

pub(super) async fn run(session: &Session, args: &Explain) -> Result<(), Failure> {
    let at = moment(args.at.as_deref())?;
    let workspace = Slug::stored(session.config.workspace.clone());
    let explanation = session.ops.explain(&workspace, &args.question, at).await?;
    if session.output.json {
        return session.output.object(&explanation);
    }
    session.output.line(&explanation.address)?;
    let width = explanation.steps.iter().map(|step| step.step.len()).max().unwrap_or_default();
    for step in &explanation.steps {
        session.output.line(&format!("  {:width$}  {}", step.step, step.result))?;
    }
    Ok(())
}
