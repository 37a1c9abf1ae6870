//! How many connections a listener may have: in all, from one address, and busy with anything but redirects.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// What was configured; what wasn't follows from the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// `connections.max`: as many as the limit of open files allows.
    pub max: Option<usize>,
    /// `connections.per_address`: an eighth of them.
    pub per_address: Option<usize>,
    /// `connections.reserved_for_redirects`: half of them.
    pub reserved_for_redirects: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub max: usize,
    /// From one IPv4 address or IPv6 /64. Trusted proxies are exempt: they hold connections for others.
    pub per_address: usize,
    /// How many may wait for the API or the dashboard at once. The others are there for redirects, whatever pages do.
    pub for_control_plane: usize,
}

impl ConnectionLimits {
    /// `open_files` is how many connections the limit of open files allows.
    pub fn new(settings: &ConnectionSettings, open_files: usize) -> Self {
        let max = settings.max.unwrap_or(open_files).clamp(1, open_files);
        let reserved = settings.reserved_for_redirects.unwrap_or(max / 2);
        Self {
            max,
            per_address: settings.per_address.unwrap_or(max / 8).max(1),
            for_control_plane: max.saturating_sub(reserved).max(1),
        }
    }

    /// The limits of a public and a control listener that share these: an eighth is for the control listener, which serves no redirects.
    pub fn split(self) -> (Self, Self) {
        let for_control = (self.max / 8).max(1);
        let public = Self { max: self.max.saturating_sub(for_control).max(1), ..self };
        (public, Self { max: for_control, for_control_plane: for_control, ..self })
    }
}

/// The connections of a listener, and how many of them are with the API or the dashboard.
pub struct ConnectionSlots {
    connections: Arc<Semaphore>,
    control: Arc<Semaphore>,
    reserved_for_redirects: usize,
}

impl ConnectionSlots {
    pub fn new(limits: ConnectionLimits) -> Self {
        Self {
            connections: Arc::new(Semaphore::new(limits.max)),
            control: Arc::new(Semaphore::new(limits.for_control_plane)),
            reserved_for_redirects: limits.max.saturating_sub(limits.for_control_plane),
        }
    }

    /// Waits until one more connection may be open.
    pub async fn connection(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        Arc::clone(&self.connections).acquire_owned().await
    }

    /// Lets one more request be with the API or the dashboard, unless too many are.
    pub fn try_control(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.control).try_acquire_owned().ok()
    }

    /// Whether fewer connections are free than are reserved for redirects. Then responses of the API and the dashboard close theirs.
    pub fn are_scarce(&self) -> bool {
        self.connections.available_permits() < self.reserved_for_redirects
    }
}

/// What counts as one address: an IPv4 address; of IPv6 the /64 that one machine has to itself.
pub fn address_group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionLimits, ConnectionSettings, address_group};

    #[test]
    fn limits_that_are_not_configured_follow_from_the_rest() {
        let limits = |settings| {
            let ConnectionLimits { max, per_address, for_control_plane } =
                ConnectionLimits::new(&settings, 1000);
            (max, per_address, for_control_plane)
        };
        let settings = ConnectionSettings::default();
        assert_eq!(limits(settings), (1000, 125, 500));
        assert_eq!(limits(ConnectionSettings { max: Some(80), ..settings }), (80, 10, 40));
        assert_eq!(limits(ConnectionSettings { max: Some(5000), ..settings }), (1000, 125, 500));
        let tight = ConnectionSettings { max: Some(4), per_address: None, reserved_for_redirects: Some(9) };
        assert_eq!(limits(tight), (4, 1, 1), "nothing is shut out altogether");
    }

    #[test]
    fn two_listeners_together_have_no_more_than_one() {
        for max in [2, 16, 20_000] {
            let limits = ConnectionLimits::new(&ConnectionSettings::default(), max);
            let (public, control) = limits.split();
            assert_eq!(public.max + control.max, max);
            assert_eq!(control.for_control_plane, control.max);
        }
    }

    #[test]
    fn ipv6_addresses_of_one_network_count_together() {
        let group = |text: &str| address_group(text.parse().unwrap()).to_string();
        assert_eq!(group("203.0.113.77"), "203.0.113.77");
        assert_eq!(group("::ffff:203.0.113.77"), "203.0.113.77");
        assert_eq!(group("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}
