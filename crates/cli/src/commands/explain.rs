//! `rmax explain`: what a request would get and why.

use super::parse_time;
use crate::args::Explain;
use crate::backend::Backend;
use crate::backend::explanation::ExplanationDetails;
use crate::error::CliError;

pub(crate) async fn run(backend: &Backend, args: &Explain) -> Result<(), CliError> {
    let at = parse_time(args.at.as_deref())?;
    let explained: ExplanationDetails = match backend {
        Backend::Cloudflare(_) => return Err(CliError::needs_store()),
        Backend::Store(local) => {
            let caller = local.caller_in(&local.workspace().await?);
            local.ops.explain(&caller, &args.question, at).await?.into()
        }
        Backend::Server(client) => client.explain(&args.question, at).await?,
    };
    if backend.output().json {
        return backend.output().object(&explained);
    }
    backend.output().line(&explained.address)?;
    let width = explained.steps.iter().map(|step| step.step.len()).max().unwrap_or_default();
    for step in &explained.steps {
        backend.output().line(&format!("  {:width$}  {}", step.step, step.result))?;
    }
    Ok(())
}
