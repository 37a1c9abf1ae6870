//! What `domain_checks` says.

use std::net::{IpAddr, SocketAddr};

use rlinks_core::Host;
use rlinks_ops::domain_checks::{DomainCheckConfig, ExpectedAddress};

use super::layers::Layers;
use super::server_url;
use crate::error::CliError;

const DNS_PORT: u16 = 53;

pub(super) fn options(layers: &mut Layers) -> Result<DomainCheckConfig, CliError> {
    let options = DomainCheckConfig {
        enabled: layers.boolean("domain_checks.enabled")?.unwrap_or(false),
        require_proof: layers.boolean("domain_checks.proof")?.unwrap_or(false),
        resolver: layers.parsed("domain_checks.resolver", resolver)?,
        rdap: layers.parsed("domain_checks.rdap", |text| {
            server_url(text).ok_or_else(|| "must be an address like https://rdap.org/".to_owned())
        })?,
        points_to: layers.list("domain_checks.points_to", destination)?,
    };
    if options.require_proof && !options.enabled {
        return Err(CliError::usage(
            "`domain_checks.proof` is on and `domain_checks.enabled` is not: nobody would look for a proof",
        )
        .hint("set `domain_checks.enabled = true` as well"));
    }
    Ok(options)
}

fn resolver(text: &str) -> Result<SocketAddr, String> {
    let alone = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, DNS_PORT));
    text.parse()
        .or_else(|_| alone())
        .map_err(|_| "must be an address, like 192.0.2.53 or 192.0.2.53:53".to_owned())
}

fn destination(text: &str) -> Result<ExpectedAddress, String> {
    if let Ok(address) = text.parse() {
        return Ok(ExpectedAddress::Address(address));
    }
    Host::parse(text).map(ExpectedAddress::Name).map_err(|error| error.message)
}
