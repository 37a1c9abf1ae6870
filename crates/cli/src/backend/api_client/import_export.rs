//! Links of a server as files.

use http::Method;
use http::header::AUTHORIZATION;
use rlinks_core::error_code::ErrorCode;
use rlinks_ops::import::ImportReport;
use serde_json::Value;

use super::{ApiClient, MAX_BODY_BYTES, TRANSFER_TIMEOUT_SECONDS, root_cause};
use crate::error::CliError;
use crate::files::OutputFile;

impl ApiClient {
    /// Sends a file, which is read there.
    pub(crate) async fn import(
        &self,
        file: Vec<u8>,
        format: Option<&str>,
        dry_run: bool,
        no_https: bool,
    ) -> Result<ImportReport, CliError> {
        let mut request = self.request(Method::POST, &["import"]).file(file);
        if let Some(format) = format {
            request = request.query("format", format);
        }
        if dry_run {
            request = request.query("dry_run", "true");
        }
        if no_https {
            request = request.query("https_only", "false");
        }
        request.read().await
    }

    /// Fetches a file, piece by piece: it may be longer than anything else that is asked for.
    pub(crate) async fn export(&self, format: &str, to: &mut OutputFile) -> Result<(), CliError> {
        let request = self.get(&["export"]).query("format", format);
        let asked = self.http.get(request.url.clone()).header(AUTHORIZATION, self.key.clone());
        let asked = asked.timeout(std::time::Duration::from_secs(TRANSFER_TIMEOUT_SECONDS));
        let mut response = asked.send().await.map_err(|error| self.unreachable(&error))?;
        if !response.status().is_success() {
            // The same again, for what its error means. Where it goes well now, the answer is the file.
            let answer = request.send().await?;
            debug_assert!(answer.body.len() <= MAX_BODY_BYTES);
            return to.write_chunk(&answer.body);
        }
        loop {
            let chunk = response.chunk().await.map_err(|error| {
                let message =
                    format!("the answer broke off: {}; what was written is not whole", root_cause(&error));
                CliError::from_server(ErrorCode::KvUnavailable, message, Value::Null)
            })?;
            let Some(chunk) = chunk else { return Ok(()) };
            to.write_chunk(&chunk)?;
        }
    }
}
