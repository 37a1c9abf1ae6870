//! How links are shown: with which host, and as which URL.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rlinks_core::{Code, Domain, Host, Slug, Workspace};

use rlinks_routes::host_directory::HostDirectory;

/// What the configuration says about addresses.
#[derive(Clone, Debug)]
pub struct ShortUrls {
    /// The first domain of workspace `main`, in the store or about to be.
    pub domain: Option<Host>,
    /// The domain under which every workspace has a name of its own.
    pub base_domain: Option<Host>,
    // `https` or `http`.
    pub public_scheme: String,
    /// Where we are reached while no domain is configured.
    pub public_url: Option<String>,
    /// And where we listen, when nobody said.
    pub listen: SocketAddr,
    /// We speak TLS there ourselves.
    pub tls: bool,
}

impl ShortUrls {
    /// The host that short URLs of a workspace are written with.
    pub fn host(&self, domains: &[Domain], workspace: &Workspace) -> Option<String> {
        let own = || domains.iter().filter(|domain| domain.workspace == workspace.id);
        // The primary one does not answer while it waits for its proof: then the oldest of the others has to do.
        let mine = own().find(|domain| domain.primary);
        let mine = mine.or_else(|| own().min_by_key(|domain| domain.created_at));
        let is_main = workspace.slug.as_str() == Slug::MAIN;
        let configured =
            self.domain.as_ref().filter(|host| is_main && domains.iter().all(|domain| domain.host != **host));
        let host = mine.map(|domain| &domain.host).or(configured).map(ToString::to_string);
        host.or_else(|| self.base_domain.as_ref().map(|base| format!("{}.{base}", workspace.slug)))
    }

    /// The address of a link, as people share it. None where no host leads to its workspace: any other would lead elsewhere.
    pub fn short_url(&self, directory: &HostDirectory, workspace: &Workspace, code: &Code) -> Option<String> {
        if let Some(host) = self.host(directory.domains(), workspace) {
            return Some(format!("{}://{host}/{code}", self.public_scheme));
        }
        // While there is no domain, `main` answers on every host; the others on none.
        let anywhere =
            workspace.slug.as_str() == Slug::MAIN && directory.serves_any_host() && self.domain.is_none();
        anywhere.then(|| format!("{}/{code}", self.base_url()))
    }

    /// Where pages of ours are reached: never from a request's Host.
    pub fn base_url(&self) -> String {
        match (&self.public_url, &self.domain) {
            (Some(url), _) => url.clone(),
            (None, Some(host)) => format!("{}://{host}", self.public_scheme),
            (None, None) => self.listener_url(self.listen),
        }
    }

    /// How somebody on this machine reaches one of our listeners. One that takes every address is reached at this machine's own.
    pub fn listener_url(&self, mut listener: SocketAddr) -> String {
        if listener.ip().is_unspecified() {
            listener.set_ip(match listener.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("{}://{listener}", if self.tls { "https" } else { "http" })
    }
}

#[cfg(test)]
mod tests {
    use super::ShortUrls;

    #[test]
    fn base_url_of_a_listener_is_reachable() {
        for (listen, tls, url) in [
            ("127.0.0.1:80", false, "http://127.0.0.1:80"),
            ("0.0.0.0:443", true, "https://127.0.0.1:443"),
            ("[::]:8080", false, "http://[::1]:8080"),
            ("192.0.2.1:8080", false, "http://192.0.2.1:8080"),
        ] {
            let listen = listen.parse().unwrap();
            let (domain, base_domain, public_url) = (None, None, None);
            let naming =
                ShortUrls { domain, base_domain, public_scheme: "https".to_owned(), public_url, listen, tls };
            assert_eq!(naming.base_url(), url);
        }
    }
}
