//! Which workspace answers on which host. Small, replaced whole when it changes, read by every redirect without a lock.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rlinks_core::error_code::ErrorCode;
use rlinks_core::redirect::decide::CacheControl;
use rlinks_core::workspace::policy::CacheScope;
use rlinks_core::{Domain, Host, Id, Policy, ServedHosts, Slug, Workspace};
use rlinks_store::{Store, StoreError};

/// A living workspace as a redirect sees it.
#[derive(Clone, Debug)]
pub struct ServedWorkspace {
    pub id: Id,
    /// Its name in addresses.
    pub slug: Slug,
    pub policy: Policy,
    /// The hosts its links must not lead back to.
    pub served_hosts: ServedHosts,
    /// The `Cache-Control` of a redirect that no expiry cuts short, ready to be sent.
    cache: (CacheControl, String),
}

impl ServedWorkspace {
    fn new(id: Id, slug: Slug, policy: Policy, served: ServedHosts) -> Self {
        let cache = match policy.cache.scope {
            CacheScope::Private => CacheControl::Private(policy.cache.max_age),
            CacheScope::Public => CacheControl::Public(policy.cache.max_age),
            CacheScope::NoStore => CacheControl::NoStore,
        };
        Self { id, slug, policy, served_hosts: served, cache: (cache, cache.to_string()) }
    }

    /// A decision's `Cache-Control` as a header.
    pub fn cache_header(&self, cache: CacheControl) -> Cow<'_, str> {
        if cache == self.cache.0 { Cow::Borrowed(&self.cache.1) } else { Cow::Owned(cache.to_string()) }
    }
}

/// Who says that a host is its workspace's. For hosts in none of the sets only the workspace says so.
#[derive(Clone, Debug, Default)]
pub struct TrustedHosts {
    /// The operator stands behind it.
    pub operator: HashSet<Host>,
    /// DNS says so.
    pub verified: HashSet<Host>,
    /// DNS should say so and doesn't: the host is taken and doesn't answer.
    pub unverified: HashSet<Host>,
}

/// Hosts, workspaces and policies as of one moment.
#[derive(Debug)]
pub struct HostDirectory {
    by_host: HashMap<String, Option<Arc<ServedWorkspace>>>,
    by_slug: HashMap<String, Arc<ServedWorkspace>>,
    base: Option<String>,
    main: Option<Arc<ServedWorkspace>>,
    domains: Vec<Domain>,
    serves_any_host: bool,
    loaded: bool,
}

impl HostDirectory {
    /// What the store holds now.
    pub async fn load(store: &Store, base: Option<&Host>) -> Result<Self, StoreError> {
        // Who vouches is asked last: a host that came in between counts for its own workspace until the next look.
        let (workspaces, domains) = (store.workspaces().await?, store.domains().await?);
        let trusted = TrustedHosts {
            operator: store.operator_hosts().await?,
            verified: store.verified_hosts().await?,
            unverified: store.unverified_hosts().await?,
        };
        Ok(Self::new(&workspaces, &domains, &trusted, base))
    }

    pub fn new(
        workspaces: &[Workspace],
        domains: &[Domain],
        trusted: &TrustedHosts,
        base: Option<&Host>,
    ) -> Self {
        let TrustedHosts { operator: operator_hosts, verified, unverified: unverified_hosts } = trusted;
        let common = ServedHosts::new(operator_hosts.union(verified).cloned(), base);
        let mut own: HashMap<Id, Vec<Host>> = HashMap::new();
        let answers = |domain: &&Domain| !unverified_hosts.contains(&domain.host);
        for domain in domains.iter().filter(answers).filter(|domain| !operator_hosts.contains(&domain.host)) {
            own.entry(domain.workspace).or_default().push(domain.host.clone());
        }
        let living: HashMap<Id, Arc<ServedWorkspace>> = workspaces
            .iter()
            .filter(|workspace| workspace.deleted_at.is_none())
            .map(|workspace| {
                let Workspace { id, slug, policy, .. } = workspace;
                let served = common.with_workspace_hosts(own.remove(id).unwrap_or_default());
                (*id, Arc::new(ServedWorkspace::new(*id, slug.clone(), policy.clone(), served)))
            })
            .collect();
        let view = |id: Id| living.get(&id).cloned();
        let by_slug = workspaces
            .iter()
            .filter_map(|workspace| Some((workspace.slug.to_string(), view(workspace.id)?)))
            .collect();
        let main = workspaces.iter().find(|workspace| workspace.slug.as_str() == Slug::MAIN);
        Self {
            by_host: domains
                .iter()
                .map(|domain| (domain.host.to_string(), view(domain.workspace).filter(|_| answers(&domain))))
                .collect(),
            by_slug,
            base: base.map(Host::to_string),
            main: main.and_then(|main| view(main.id)),
            domains: domains.iter().filter(answers).cloned().collect(),
            serves_any_host: operator_hosts.is_empty(),
            loaded: true,
        }
    }

    /// Nothing known yet: no host answers.
    pub fn empty() -> Self {
        Self {
            by_host: HashMap::new(),
            by_slug: HashMap::new(),
            base: None,
            main: None,
            domains: Vec::new(),
            serves_any_host: false,
            loaded: false,
        }
    }

    /// The workspace a normalised host names. While no domain is configured, `main` answers on every host nobody has; once one is, a
    /// host nobody configured names none, and never another tenant's. What a tenant says of itself configures nothing for `main`.
    pub fn workspace_of(&self, host: &str) -> Option<&Arc<ServedWorkspace>> {
        if let Some(view) = self.by_host.get(host) {
            return view.as_ref();
        }
        if let Some(slug) = self.base_subdomain(host) {
            return self.by_slug.get(slug);
        }
        if self.serves_any_host { self.main.as_ref() } else { None }
    }

    /// The same, or the error that a host without a workspace is answered with.
    pub fn resolve(&self, host: &str) -> Result<&Arc<ServedWorkspace>, ErrorCode> {
        // Until the directory is loaded no host is known, which doesn't mean that the link doesn't exist.
        let error = if self.loaded { ErrorCode::NotFound } else { ErrorCode::KvUnavailable };
        self.workspace_of(host).ok_or(error)
    }

    /// The workspace that has this host to itself.
    pub fn dedicated_workspace(&self, host: &str) -> Option<&Arc<ServedWorkspace>> {
        match self.by_host.get(host) {
            Some(view) => view.as_ref(),
            None => self.by_slug.get(self.base_subdomain(host)?),
        }
    }

    fn base_subdomain<'a>(&self, host: &'a str) -> Option<&'a str> {
        host.strip_suffix(self.base.as_deref()?)?.strip_suffix('.')
    }

    /// Whether it was ever loaded.
    pub const fn is_loaded(&self) -> bool {
        self.loaded
    }

    /// Whether `main` answers on every host nobody has.
    pub const fn serves_any_host(&self) -> bool {
        self.serves_any_host
    }

    /// Whether `main` answers on every unclaimed host although it isn't the only workspace.
    pub fn lacks_a_domain(&self) -> bool {
        self.serves_any_host && self.by_slug.len() > 1
    }

    /// Every domain that answers, for showing short URLs.
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// The hosts that the links of a living workspace must not lead back to.
    pub fn served_hosts(&self, slug: &Slug) -> Option<&ServedHosts> {
        self.by_slug.get(slug.as_str()).map(|view| &view.served_hosts)
    }
}
