//! What the two front ends share: the API and the dashboard both parse, call one operation and render, and neither knows the other.

pub(crate) mod cursor;
pub(crate) mod download;

use std::sync::Arc;

use rlinks_clicks::ClickStore;
use rlinks_ops::Ops;
use rlinks_ops::shared_keys::InstallationKey;
use rlinks_routes::RouteCache;
use rlinks_routes::host_directory::HostDirectory;
use rlinks_store::StoreError;
use tokio::sync::OnceCell;

use self::cursor::Cursors;

pub struct FrontEnd {
    pub ops: Ops,
    routes: Arc<RouteCache>,
    clicks: Arc<OnceCell<ClickStore>>,
    cursors: Cursors,
}

impl FrontEnd {
    /// On the runtime the store was opened on. `clicks` are opened by whoever needs them first.
    pub async fn new(ops: Ops, routes: Arc<RouteCache>, clicks: Arc<OnceCell<ClickStore>>) -> Self {
        let cursors = Cursors::new(ops.shared_key(InstallationKey::Cursor).await);
        Self { ops, routes, clicks, cursors }
    }

    /// The clicks, opened when first asked for.
    pub async fn clicks(&self) -> Result<&ClickStore, StoreError> {
        self.clicks.get_or_try_init(|| ClickStore::open(self.ops.store.location())).await
    }

    /// Hosts and policies as the serving threads know them.
    pub fn directory(&self) -> Arc<HostDirectory> {
        self.routes.directory.load_full()
    }

    pub fn cursors(&self) -> &Cursors {
        &self.cursors
    }
}
