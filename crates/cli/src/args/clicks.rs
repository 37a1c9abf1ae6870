//! `rmax clicks`.

use clap::{Args as Group, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Clicks {
    /// Write recorded clicks to a file, a folder or an S3 bucket
    Export(ClicksExport),
    /// Count again what statistics are made of, for the days whose clicks are all still kept
    ///
    /// This is about every workspace, unless --workspace names one.
    Recompute,
    /// Delete what is older than the policies keep, after a copy went to `retention.archive` where that is configured
    ///
    /// This is about every workspace, unless --workspace names one.
    Prune {
        /// Say what would go, and delete nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Bring the hits the Worker at Cloudflare has recorded into the store, or into a file
    ImportHits(ImportHits),
    /// Write what links have counted into their objects at Cloudflare, and nothing else of them
    ///
    /// With --env of a store, what the store has counted; with --env of Cloudflare, how many hits there are.
    PublishStats(PublishStats),
    /// What was asked for in vain in the last 30 days, most often first: codes that are unknown, disabled or deleted
    Misses {
        /// At most so many, up to 1000
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1000))]
        limit: i64,
    },
}

#[derive(Debug, Group)]
pub(crate) struct ClicksExport {
    /// A file, a folder (ending in /), - for stdout, or `s3://BUCKET/NAME` with the usual AWS_ variables
    #[arg(value_name = "PATH OR URL")]
    pub(crate) place: String,
    /// What it looks like: jsonl or parquet [default: by the name's ending, else jsonl]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Write every field of a click, not only the seven of the log format; Parquet always has all
    #[arg(long)]
    pub(crate) full: bool,
    /// Only clicks from this moment on
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Only clicks before this moment
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    /// Only clicks of this link
    #[arg(long, value_name = "CODE")]
    pub(crate) code: Option<String>,
    /// Only clicks that no export with this flag has written yet, of this workspace or of this --code; one such export at a time
    #[arg(long, conflicts_with_all = ["from", "to"])]
    pub(crate) since_last: bool,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Group)]
pub(crate) struct ImportHits {
    /// Into a file, a folder (ending in /), - for stdout, or `s3://BUCKET/NAME`, rather than into the store; whole UTC days only
    #[arg(value_name = "PATH OR URL")]
    pub(crate) place: Option<String>,
    /// From the Cloudflare of this environment [default: that of --env, else the only one there is]
    #[arg(long, value_name = "NAME")]
    pub(crate) from: Option<String>,
    /// What files look like: jsonl or parquet [default: by the name's ending, else jsonl]
    #[arg(long, value_name = "FORMAT", requires = "place")]
    pub(crate) format: Option<String>,
    /// Replace a file that exists
    #[arg(long, requires = "place")]
    pub(crate) force: bool,
}

#[derive(Debug, Group)]
pub(crate) struct PublishStats {
    /// To the Cloudflare of this environment [default: that of --env, else the only one there is]
    #[arg(long, value_name = "NAME")]
    pub(crate) to: Option<String>,
}
