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
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let metadata = metadata()?;
    let package = metadata.packages.iter().find(|package| package.name == "ua-parser");
    let package = package.ok_or("cargo metadata does not list ua-parser")?;
    let folder = package.manifest_path.parent().ok_or("the manifest of ua-parser lies in no folder")?;
    let source = folder.join("uap-core/regexes.yaml");

    let text = fs::read_to_string(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    let tables: Tables = yaml_serde::from_str(&text)?;
    fs::write(Path::new(&variable("OUT_DIR")?).join("agents.json"), serde_json::to_string(&tables)?)?;

    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=migrations"); // a folder that a macro reads
    println!("cargo::rerun-if-changed={}", source.display());
    // Another version of ua-parser lies in another folder; the lock file is what says so.
    println!("cargo::rerun-if-changed={}", metadata.workspace_root.join("Cargo.lock").display());
    Ok(())
}

/// Asks cargo where the packages lie, first in the ways that touch neither the network nor the lock file.
///
/// Cargo downloads what a build needs, while `metadata` also wants the packages that only tests need. They may be
/// missing in a fresh clone, so the last ways let it fetch them.
fn metadata() -> Result<Metadata, Box<dyn Error>> {
    let manifest = Path::new(&variable("CARGO_MANIFEST_DIR")?).join("Cargo.toml");
    let mut complaint = String::new();
    for flags in [&["--offline", "--locked"][..], &["--offline"], &["--locked"], &[]] {
        let output = Command::new(variable("CARGO")?)
            .args(["metadata", "--format-version", "1", "--filter-platform", &variable("TARGET")?])
            .arg("--manifest-path")
            .arg(&manifest)
            .args(flags)
            .output()?;
        if output.status.success() {
            return Ok(serde_json::from_slice(&output.stdout)?);
        }
        complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    Err(format!("cargo metadata cannot say where ua-parser lies: {complaint}").into())
}

/// One of the variables that cargo sets for build scripts.
#[expect(clippy::disallowed_methods, reason = "the environment is how cargo talks to a build script")]
fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    env::var(name).map_err(|error| format!("{name}: {error}").into())
}
