//! What was typed. What it means is the commands' business; only numbers are read here.

use std::path::PathBuf;

use clap::{ArgAction, Args as Group, Parser, Subcommand};
use clap_complete::Shell;

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
pub(crate) enum Links {
    /// List links, newest first: the active ones, expired or not
    List(List),
    /// Print a link as its v1 route object
    Get {
        /// Its code
        code: String,
        /// As it was at this time
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
    /// Create a link, or change one: what is not named stays
    Set(Box<Set>),
    /// Switch a link off
    Disable {
        /// Its code
        code: String,
    },
    /// Switch a link on again
    Enable {
        /// Its code
        code: String,
    },
    /// Bring a deleted link back as it was
    Restore {
        /// Its code
        code: String,
    },
    /// Delete a link; its code stays taken
    Delete {
        /// Its code
        code: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Clicks and visitors of a link, and where they came from; also of one that was deleted
    Stats(Stats),
    /// Every change of a link: when, who, from what, to what
    History {
        /// Its code
        code: String,
    },
    /// Write objects of older versions at Cloudflare again in the current one
    Migrate {
        /// Say which, and write nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Import links from a file of ours or of another shortener; what is there is left alone
    Import(Import),
    /// Export links: everything they have, or a map for another server
    Export(ExportLinks),
}

#[derive(Debug, Group)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag somebody types")]
pub(crate) struct Import {
    /// The file; `-` reads stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What it is: jsonl, csv, shlink, dub, chhoto, yourls, kutt, sink, golink or bitly [default: recognised by its contents]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Show what would become of each row, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Change links that are there to what the file says; shows the changes first, and asks
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Do not ask
    #[arg(short, long, requires = "overwrite")]
    pub(crate) yes: bool,
    /// Let links lead to http, where the file does not say otherwise
    #[arg(long)]
    pub(crate) no_https: bool,
    /// Keep ids, makers, versions and times too: bring back exactly what was exported
    #[arg(long, conflicts_with = "overwrite")]
    pub(crate) exact: bool,
}

#[derive(Debug, Group)]
pub(crate) struct ExportLinks {
    /// Where to write it; `-` is stdout
    #[arg(value_name = "FILE", default_value = "-")]
    pub(crate) file: PathBuf,
    /// As what: jsonl, csv, nginx, caddy or cloudflare [default: by the name's ending, else jsonl]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Replace a file that exists
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Group)]
pub(crate) struct List {
    /// Only codes that begin so
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// At most so many, up to 10000
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    pub(crate) limit: i64,
    /// Also disabled ones
    #[arg(long)]
    pub(crate) show_disabled: bool,
    /// Also deleted ones
    #[arg(long)]
    pub(crate) show_deleted: bool,
    /// Only links with this tag
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Option<String>,
    /// Only links with these words in code, title, tags, target or notes
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub(crate) search: Option<String>,
}

#[derive(Debug, Group)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag somebody types")]
pub(crate) struct Set {
    /// Its code
    pub(crate) code: String,
    /// Where it leads
    #[arg(value_name = "URL", allow_hyphen_values = true)]
    pub(crate) url: String,
    /// Let it lead to http
    #[arg(long, conflicts_with = "https")]
    pub(crate) no_https: bool,
    /// Let it lead to https only
    #[arg(long)]
    pub(crate) https: bool,
    /// Let it lead to a domain served here
    #[arg(long, conflicts_with = "no_loop")]
    pub(crate) allow_loop: bool,
    /// Never let it lead to a domain served here
    #[arg(long)]
    pub(crate) no_loop: bool,
    /// Until when it answers: 2030-01-31T12:00:00Z, 2030-01-31, or Unix seconds; without a zone it is UTC
    #[arg(long, value_name = "TIME", conflicts_with = "no_expiry", allow_hyphen_values = true)]
    pub(crate) expires: Option<String>,
    /// For ever
    #[arg(long)]
    pub(crate) no_expiry: bool,
    /// Free text; empty clears it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) note: Option<String>,
    /// A name for people; empty clears it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) title: Option<String>,
    /// Add a tag; may be given several times
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// Take a tag away; may be given several times
    #[arg(long, value_name = "TAG")]
    pub(crate) untag: Vec<String>,
    /// The HTTP status: 301, 302, 307 or 308
    #[arg(long, value_name = "CODE", allow_negative_numbers = true)]
    pub(crate) status: Option<i64>,
    /// Make the link anew where its code is a deleted link's
    #[arg(long)]
    pub(crate) recreate: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Stats {
    /// Its code
    pub(crate) code: String,
    /// From this moment on, or from the beginning of this day [default: 30 days before the end]
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Until before this moment, or before this day [default: the end of today]
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    /// How far apart the points are: hour, day, week or month
    #[arg(long, value_name = "INTERVAL", default_value = "day")]
    pub(crate) interval: String,
    /// Whose days these are: an IANA zone like Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(crate) tz: String,
    /// Count the clicks of bots too
    #[arg(long)]
    pub(crate) bots: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Shorten {
    /// Where it leads
    #[arg(value_name = "URL", allow_hyphen_values = true)]
    pub(crate) url: String,
    /// Under this code rather than a generated one
    #[arg(long, value_name = "CODE")]
    pub(crate) code: Option<String>,
    /// Until when it answers
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) expires: Option<String>,
    /// A name for people
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) title: Option<String>,
    /// Add a tag; may be given several times
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    /// Let it lead to http
    #[arg(long)]
    pub(crate) no_https: bool,
    /// Draw a QR code below the short URL
    #[arg(long)]
    pub(crate) qr: bool,
}

#[derive(Debug, Group)]
pub(crate) struct Explain {
    /// A short URL, a path or a code
    #[arg(value_name = "URL OR CODE")]
    pub(crate) question: String,
    /// As it was, or will be, at this time
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
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
}

#[derive(Debug, Subcommand)]
pub(crate) enum Migrate {
    /// Bring the schema up to date
    Up,
    /// Say which schema the store has
    Status,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Users {
    /// Make somebody a member and print their one-time invitation, good for seven days
    Create {
        /// Their e-mail address
        #[arg(long)]
        email: String,
        /// Their name
        #[arg(long, default_value = "")]
        name: String,
        /// viewer, member or admin
        #[arg(long, default_value = "member")]
        role: String,
        /// Read a password from stdin, instead of printing an invitation
        #[arg(long)]
        password_stdin: bool,
    },
    /// Invite a member once more and print the new one-time invitation; an earlier one no longer works
    Invite {
        /// Their e-mail address or id
        user: String,
    },
    /// List members
    List,
    /// Change what a member may do
    Role {
        /// Their e-mail address or id
        user: String,
        /// viewer, member or admin
        role: String,
    },
    /// Lock a member out; their links go on
    Suspend {
        /// Their e-mail address or id
        user: String,
    },
    /// Let a suspended member in again
    Activate {
        /// Their e-mail address or id
        user: String,
    },
    /// Give a member a password, asked for or from stdin; they are signed out everywhere
    Password {
        /// Their e-mail address or id
        user: String,
        /// Read it from stdin
        #[arg(long)]
        password_stdin: bool,
    },
    /// Sign a member out everywhere
    SignOut {
        /// Their e-mail address or id
        user: String,
    },
    /// Delete an account: address and name are forgotten, keys are gone
    Delete {
        /// Their e-mail address or id
        user: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Make a key and print it, this once
    Create {
        /// What it is for
        #[arg(long)]
        name: String,
        /// What it may do: links:read, links:write, links:delete, analytics:read, workspace:admin [default: links:read, links:write]
        #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',')]
        scopes: Vec<String>,
        /// The member it belongs to: it can do no more than they can
        #[arg(long, value_name = "EMAIL")]
        user: Option<String>,
        /// Good up to and including this time
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
    },
    /// List keys
    List,
    /// Take a key back, from the next request on
    Revoke {
        /// Its id
        id: String,
    },
    /// Make a successor of a key; the old one lives 24 hours more
    Rotate {
        /// Its id
        id: String,
    },
}
