//! Turns the User-Agent tables that ship inside the `ua-parser` package into the JSON this crate embeds.
//!
//! The package carries the tables as a YAML file that no function of it hands out, and we keep no copies of other
//! projects' data. So this asks cargo where the package lies, and keeps of the file only what `agent.rs` reads.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The two tables we use. The third, of devices, is by far the largest and slowest.
#[derive(Deserialize, Serialize)]
struct Tables {
    user_agent_parsers: Vec<Browser>,
    os_parsers: Vec<System>,
}

/// One pattern for a browser. Minor versions are left out, here and below.
#[derive(Deserialize, Serialize)]
struct Browser {
    regex: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    family_replacement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    v1_replacement: Option<String>,
}

/// One pattern for a system.
#[derive(Deserialize, Serialize)]
struct System {
    regex: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_replacement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_v1_replacement: Option<String>,
}

/// What we read of `cargo metadata`.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let manifest_folder = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let lock = manifest_folder.ancestors().map(|folder| folder.join("Cargo.lock")).find(|lock| lock.exists());
    let lock = lock.ok_or("there is no Cargo.lock above this package")?;
    let folder = match listed_folder(&manifest_folder)? {
        Some(folder) => folder,
        None => unpacked_folder(&lock)?,
    };
    let source = folder.join("uap-core/regexes.yaml");

    let text = fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    let tables: Tables = yaml_serde::from_str(&text)?;
    fs::write(Path::new(&variable("OUT_DIR")?).join("agents.json"), serde_json::to_string(&tables)?)?;

    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=migrations"); // a folder that a macro reads
    println!("cargo::rerun-if-changed={}", source.display());
    // Another version of ua-parser lies in another folder; the lock file is what says so.
    println!("cargo::rerun-if-changed={}", lock.display());
    Ok(())
}

/// Where cargo says that the package lies; nothing if it can't say without downloading.
///
/// Cargo downloads what a build needs, while `metadata` also wants the packages that only tests need. In a fresh clone they may be
/// missing, and a build script downloads nothing.
fn listed_folder(manifest_folder: &Path) -> Result<Option<PathBuf>, Box<dyn Error>> {
    let output = Command::new(variable("CARGO")?)
        .args(["--offline", "--locked", "metadata", "--format-version", "1"])
        .args(["--filter-platform", &variable("TARGET")?])
        .arg("--manifest-path")
        .arg(manifest_folder.join("Cargo.toml"))
        .output()?;
    if !output.status.success() {
        return Ok(None);
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
    let package = metadata.packages.into_iter().find(|package| package.name == "ua-parser");
    Ok(package.and_then(|package| package.manifest_path.parent().map(Path::to_owned)))
}

/// Where cargo unpacked the package of the version in the lock file, after it had compared its checksum.
fn unpacked_folder(lock: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let text = fs::read_to_string(lock)?;
    let package =
        text.split_once("\nname = \"ua-parser\"\nversion = \"").ok_or("Cargo.lock has no ua-parser")?.1;
    let version = package.split('"').next().unwrap_or_default();
    let home = variable("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|_| variable("HOME").map(|home| Path::new(&home).join(".cargo")))?;
    for registry in fs::read_dir(home.join("registry/src"))? {
        let folder = registry?.path().join(format!("ua-parser-{version}"));
        if folder.exists() {
            return Ok(folder);
        }
    }
    Err(format!("ua-parser {version} is not on this machine: run `cargo fetch --locked` first").into())
}

/// One of the variables that cargo sets for build scripts.
#[expect(clippy::disallowed_methods, reason = "the environment is how cargo talks to a build script")]
fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    env::var(name).map_err(|error| format!("{name}: {error}").into())
}
