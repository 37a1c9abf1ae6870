//! Many new links at once, as if they came one after the other.

use rlinks_core::draft::Input;
use rlinks_core::{ServedHosts, Target, Workspace};
use rlinks_store::StoreError;

use super::create::link_result;
use crate::{LinkResult, OnDeletedCode, Ops, OpsError, Requester, WriteMode};

impl Ops {
    /// Makes several links, each as if those before it were there already; what waits for the disk waits together.
    pub async fn create_in_order(
        &self,
        by: &Requester,
        workspace: &Workspace,
        inputs: &[Input],
    ) -> Vec<Result<LinkResult, OpsError>> {
        let domains = match self.served_hosts_for(workspace).await {
            Ok(domains) => domains,
            Err(error) => {
                let message = error.to_string();
                let unavailable = || StoreError::Unavailable(message.clone()).into();
                return inputs.iter().map(|_| Err(unavailable())).collect();
            }
        };
        let mut results = Vec::with_capacity(inputs.len());
        let mut left = inputs;
        while !left.is_empty() {
            // Whether a link closes a circle is only known when those before it are there.
            let next = left[1..].iter().position(|input| targets_served_host(input, &domains));
            let (these, rest) = left.split_at(next.map_or(left.len(), |next| next + 1));
            results.extend(self.create_together(by, workspace, these, &domains).await);
            left = rest;
        }
        results
    }

    async fn create_together(
        &self,
        by: &Requester,
        workspace: &Workspace,
        inputs: &[Input],
        domains: &ServedHosts,
    ) -> Vec<Result<LinkResult, OpsError>> {
        let mut writes = Vec::with_capacity(inputs.len());
        let mut checked = Vec::with_capacity(inputs.len());
        for input in inputs {
            let prepared =
                self.prepare(by, workspace, input, OnDeletedCode::from_input(input), domains).await;
            checked.push(prepared.map(|prepared| {
                let now = prepared.now;
                writes.push(self.link_write(by, workspace, prepared));
                now
            }));
        }
        let mut written = self.store.write_in_order(writes).await.into_iter();
        let mut results = Vec::with_capacity(inputs.len());
        for (input, checked) in inputs.iter().zip(checked) {
            let now = match checked {
                Ok(now) => now,
                Err(error) => {
                    results.push(Err(error));
                    continue;
                }
            };
            results.push(match written.next().unwrap_or(Err(StoreError::Conflict)) {
                // All candidates for a generated code were taken: it is tried again by itself.
                Err(StoreError::Conflict) if input.code.is_none() => {
                    self.create(by, workspace, input, OnDeletedCode::Refuse, None, WriteMode::Apply).await
                }
                Err(error) => Err(error.into()),
                Ok(written) => link_result(workspace, input, written, now),
            });
        }
        results
    }
}

fn targets_served_host(input: &Input, domains: &ServedHosts) -> bool {
    let target =
        input.target.as_deref().map(|text| Target::parse(text, rlinks_core::link::target::MAX_TARGET_BYTES));
    target.is_some_and(|target| target.is_ok_and(|target| domains.contains(target.host())))
}
