//! What was typed. What it means is the commands' business; only numbers are read here.

mod clicks;
mod links;
pub(crate) mod members;

use std::path::PathBuf;

use clap::{ArgAction, Args as Group, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use self::clicks::{Clicks, ClicksExport, ImportHits, PublishStats};
pub(crate) use self::links::{Explain, ExportLinks, Import, Links, List, Set, Shorten, Stats};
pub(crate) use crate::args::members::{Keys, Users};

/// Short links that outlive every vendor: a redirect server and its command line.
#[derive(Debug, Parser)]
#[command(name = "rmax", version, arg_required_else_help = true, infer_long_args = false)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Debug, Group)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Print data, and errors, as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The environment: a section [env.NAME] of rmax.toml [default: production]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) env: Option<String>,
    /// The workspace [default: main]
    #[arg(long, global = true, value_name = "SLUG")]
    pub(crate) workspace: Option<String>,
    /// The data folder [default: ./rlinks-data]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The configuration file [default: ./rmax.toml, then rmax/rmax.toml in the user's configuration folder]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Send the API key to another machine although the server's address is plain http
    #[arg(long, global = true)]
    pub(crate) insecure: bool,
    /// Say more on stderr; twice for everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Say only what went wrong
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server
    Serve(Serve),
    /// Create, change, look at and remove links
    #[command(subcommand)]
    Links(Links),
    /// Create a link under a generated code and print its short URL
    Shorten(Shorten),
    /// Say what a request would get and why, without counting it
    Explain(Explain),
    /// Workspaces and their policies
    #[command(subcommand)]
    Workspaces(Workspaces),
    /// The hosts a workspace answers on
    #[command(subcommand)]
    Domains(Domains),
    /// Members of a workspace
    #[command(subcommand)]
    Users(Users),
    /// API keys: what programs sign in with
    #[command(subcommand)]
    Keys(Keys),
    /// The log of every change: read, export and verify it
    #[command(subcommand)]
    Audit(Audit),
    /// Recorded clicks: export, recount and prune them
    #[command(subcommand)]
    Clicks(Clicks),
    /// Copy a store's links to Cloudflare, where the Worker serves them
    Publish(Publish),
    /// The daily job by hand: purge expired links where the policy says so, and apply retention, in every workspace
    ///
    /// It also disables links that lead somewhere unsafe, finishes deletions of accounts that were cut off, drops keys 30 days after
    /// their end, and looks at domains. Exit code 6 where targets could not be checked.
    Sweep(Sweep),
    /// Write links, people and the audit log into one file, also while serving
    ///
    /// Clicks are not in it. `rmax clicks export` keeps them, and so does a copy of `clicks.db` made while no server runs.
    Backup(Backup),
    /// Replace links, people and the audit log by what a backup holds
    Restore(Restore),
    /// Look for what is wrong and say what to do
    Doctor,
    /// The schema of the store
    #[command(subcommand)]
    Migrate(Migrate),
    /// For those who work on rmax, or try it out
    #[command(subcommand)]
    Dev(Dev),
    /// Print a completion script for a shell
    Completions {
        /// For this shell
        shell: Shell,
    },
}

#[derive(Clone, Debug, Group)]
pub(crate) struct Serve {
    /// Where to serve redirects [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Where to serve what is not for the public; the public address then serves redirects and health only
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) control_listen: Option<String>,
    /// The store: `sqlite:PATH` or `postgres://USER@HOST/DATABASE`
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Serving threads [default: one per core]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<u32>,
    /// Print the configuration in force and where each value comes from, and serve nothing
    #[arg(long)]
    pub(crate) print_config: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Workspaces {
    /// Make a workspace
    Create {
        /// Its name in addresses: lower-case letters, digits, hyphens inside
        slug: String,
        /// Its rules: fabric, edge, platform or team
        #[arg(long, default_value = "fabric")]
        preset: String,
        /// Its name for people [default: the slug]
        #[arg(long, allow_hyphen_values = true)]
        name: Option<String>,
    },
    /// List workspaces
    List {
        /// Also deleted ones
        #[arg(long)]
        show_deleted: bool,
    },
    /// Show one workspace
    Show {
        /// Which [default: the one of --workspace]
        slug: Option<String>,
    },
    /// Show or change a workspace's policy; a change binds new writes only
    Policy {
        /// Which [default: the one of --workspace]
        slug: Option<String>,
        /// Begin with the rules of a preset: fabric, edge, platform or team
        #[arg(long)]
        preset: Option<String>,
        /// Set one field, like `cache.max_age=60`; may be given several times
        ///
        /// `retention_days` is for how many whole days raw clicks are kept: 0 deletes them when their UTC day is over, `null` keeps
        /// them for ever. What they add up to stays.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Delete a workspace: its links answer 404, nothing is erased
    Delete {
        /// Which
        slug: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Bring a deleted workspace back
    Restore {
        /// Which
        slug: String,
    },
    /// Put every link back as it was at a moment
    ///
    /// Links that were changed or deleted since become what they were; links made since are deleted, and can be restored. It is done in the
    /// audit log like any other change, and going back to the moment before undoes it.
    Rollback {
        /// Which [default: the one of --workspace]
        slug: Option<String>,
        /// The moment, like 2026-01-31T12:00:00Z
        #[arg(long, value_name = "TIME")]
        to: String,
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Domains {
    /// Answer on a host
    Add {
        /// Like rmax.to
        host: String,
    },
    /// List the hosts of the workspace
    List {
        /// Of every workspace
        #[arg(long)]
        all: bool,
    },
    /// Answer no longer on a host
    Remove {
        /// Which
        host: String,
    },
    /// Write short URLs with this host
    Primary {
        /// Which
        host: String,
    },
    /// Look for the proof of a host in DNS now
    Verify {
        /// Which
        host: String,
    },
    /// Look after hosts now, in DNS and at their registries, in every workspace
    Check {
        /// Only this one
        host: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// List changes, newest first
    List {
        /// At most so many, up to 10000
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        /// Only entries before this one
        #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(i64).range(1..))]
        before: Option<i64>,
    },
    /// Write the log as JSON lines
    Export(Export),
    /// Check that no entry was edited, removed, moved or cut off; name the first bad one
    Verify(Verify),
}

#[derive(Debug, Group)]
pub(crate) struct Export {
    /// Into this file
    pub(crate) file: PathBuf,
    /// Of every workspace
    #[arg(long)]
    pub(crate) all: bool,
    /// Also write where each log ends, signed, into this file: keep it elsewhere
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Replace files that exist
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Verify {
    /// Verify an export instead of the store; needs no store
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The log must pass through the ends this file recorded earlier
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,
}

#[derive(Debug, Group)]
pub(crate) struct Publish {
    /// To the Cloudflare of this environment; the word `cloudflare` is the only one there is
    #[arg(long, value_name = "NAME", default_value = "cloudflare")]
    pub(crate) to: String,
    /// Compare everything and repair what differs, rather than follow what changed since the last time
    #[arg(long, conflicts_with = "check")]
    pub(crate) all: bool,
    /// Say what differs, and write nothing; exit code 1 if anything does
    #[arg(long, conflicts_with = "watch")]
    pub(crate) check: bool,
    /// Go on publishing changes as they come
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Sweep {
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Dev {
    /// Make links and clicks to look at, always the same ones for the same seed
    Seed(SeedArgs),
    /// Print the description of the REST API, OpenAPI 3.1
    Openapi,
}

#[derive(Debug, Group)]
pub(crate) struct SeedArgs {
    /// So many links
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) links: u32,
    /// So many clicks
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) clicks: u64,
    /// Over so many days, today included
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3650))]
    pub(crate) days: u32,
    /// Which ones: another number makes others
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Do it though the workspace has links of its own
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Backup {
    /// Into this file
    pub(crate) file: PathBuf,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Restore {
    /// From this file
    pub(crate) file: PathBuf,
    /// Replace what the store holds
    #[arg(long)]
    pub(crate) force: bool,
    /// Restore what another installation signed, whose key has this fingerprint
    #[arg(long, value_name = "FINGERPRINT", conflicts_with = "unsigned")]
    pub(crate) trust: Option<String>,
    /// Restore a backup of an earlier version, which nobody signed: only if it was in your hands all the time
    #[arg(long)]
    pub(crate) unsigned: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Migrate {
    /// Bring the schema up to date
    Up,
    /// Say which schema the store has
    Status,
}
