//! Many new links at once, as if they came one after the other.

use rlinks_core::draft::Input;
use rlinks_core::link::target::MAX_TARGET_BYTES;
use rlinks_core::{Scope, ServedHosts, Target};
use rlinks_store::StoreError;

use super::create::link_result;
use crate::{Caller, LinkResult, OnDeletedCode, Ops, OpsError};

impl Ops {
    /// Makes several links within the limit of the caller, each as if those before it were there already. What does not count in the end
    /// makes room for those after it.
    pub async fn create_many(&self, caller: &Caller, inputs: &[Input]) -> Vec<Result<LinkResult, OpsError>> {
        if let Err(OpsError::MissingScope(scope)) = caller.require(Scope::LinksWrite) {
            return inputs.iter().map(|_| Err(OpsError::MissingScope(scope))).collect();
        }
        self.check_targets_together(inputs).await;
        let limit = self.creation_limit(caller);
        let mut results = Vec::with_capacity(inputs.len());
        while results.len() < inputs.len() {
            let left = &inputs[results.len()..];
            let permitted = match limit.take_up_to(left.len()) {
                Ok(permitted) => permitted,
                Err(status) => {
                    results.extend(left.iter().map(|_| Err(OpsError::CreationLimit(status))));
                    break;
                }
            };
            let made = self.create_in_order(caller, &left[..permitted]).await;
            limit
                .refund(made.iter().filter(|made| !made.as_ref().is_ok_and(LinkResult::is_creation)).count());
            results.extend(made);
        }
        results
    }

    /// Asked about together, targets are known when each link is made.
    async fn check_targets_together(&self, inputs: &[Input]) {
        let parse = |input: &Input| Target::parse(input.target.as_deref()?, MAX_TARGET_BYTES).ok();
        let targets: Vec<Target> = inputs.iter().filter_map(parse).collect();
        self.safety.check_all(&targets.iter().collect::<Vec<_>>()).await;
    }

    /// Each as if those before it were there already; what waits for the disk waits together.
    async fn create_in_order(&self, caller: &Caller, inputs: &[Input]) -> Vec<Result<LinkResult, OpsError>> {
        let domains = match self.served_hosts_for(&caller.workspace).await {
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
            results.extend(self.create_together(caller, these, &domains).await);
            left = rest;
        }
        results
    }

    async fn create_together(
        &self,
        caller: &Caller,
        inputs: &[Input],
        domains: &ServedHosts,
    ) -> Vec<Result<LinkResult, OpsError>> {
        let mut writes = Vec::with_capacity(inputs.len());
        let mut checked = Vec::with_capacity(inputs.len());
        for input in inputs {
            let prepared = self.prepare(caller, input, OnDeletedCode::from_input(input), domains).await;
            checked.push(prepared.map(|prepared| {
                let now = prepared.now;
                writes.push(self.link_write(caller, prepared));
                now
            }));
        }
        let mut written = self.writer.write_in_order(writes).await.into_iter();
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
                    self.create_unlimited(caller, input, OnDeletedCode::Refuse, None).await
                }
                Err(error) => Err(error.into()),
                Ok(written) => {
                    self.publish(written.link());
                    link_result(&caller.workspace, input, written, now)
                }
            });
        }
        results
    }
}

fn targets_served_host(input: &Input, domains: &ServedHosts) -> bool {
    let target = input.target.as_deref().map(|text| Target::parse(text, MAX_TARGET_BYTES));
    target.is_some_and(|target| target.is_ok_and(|target| domains.contains(target.host())))
}
