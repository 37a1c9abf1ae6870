//! What the two front ends share: the API and the dashboard both parse, call one operation and render, and neither knows the other.

pub(crate) mod cursor;
pub(crate) mod download;
pub(crate) mod spilled_file;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rlinks_clicks::ClickStore;
use rlinks_ops::Ops;
use rlinks_ops::shared_keys::InstallationKey;
use rlinks_routes::RouteCache;
use rlinks_routes::host_directory::HostDirectory;
use rlinks_store::StoreError;
use tokio::sync::OnceCell;

use self::cursor::Cursors;
use self::spilled_file::SpillingFile;

pub struct FrontEnd {
    pub ops: Ops,
    routes: Arc<RouteCache>,
    clicks: Arc<OnceCell<ClickStore>>,
    cursors: Cursors,
    /// Where uploaded files are kept while they are read.
    data: PathBuf,
}

impl FrontEnd {
    /// On the runtime the store was opened on. `clicks` are opened by whoever needs them first.
    pub async fn new(
        ops: Ops,
        routes: Arc<RouteCache>,
        clicks: Arc<OnceCell<ClickStore>>,
        data: &Path,
    ) -> Self {
        let cursors = Cursors::new(ops.shared_key(InstallationKey::Cursor).await);
        Self { ops, routes, clicks, cursors, data: data.to_owned() }
    }

    /// The clicks, opened when first asked for.
    pub async fn clicks(&self) -> Result<&ClickStore, StoreError> {
        self.clicks.get_or_try_init(|| ClickStore::open(self.ops.store.location())).await
    }

    /// Hosts and policies as the serving threads know them.
    pub fn directory(&self) -> Arc<HostDirectory> {
        self.routes.directory.load_full()
    }

    /// An empty file for an upload.
    pub fn receive_file(&self) -> SpillingFile {
        SpillingFile::new(&self.data)
    }

    pub fn cursors(&self) -> &Cursors {
        &self.cursors
    }
}
