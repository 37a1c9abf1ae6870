//! `rmax links`, `shorten` and `explain`.

use std::path::PathBuf;

use clap::{Args as Group, Subcommand};

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
