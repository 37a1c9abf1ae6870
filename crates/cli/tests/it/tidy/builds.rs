//! What a build may get from elsewhere: nothing; and what a script may install: what a lock file or a version says, and nothing newer.

use std::fs;

use super::{crate_folders, names_in, project_files, read, report, root};

/// Words in a build script that would be a way to the network.
const NETWORK_WORDS: [&str; 9] =
    ["curl", "wget", "npm", "pip", "\"fetch\"", "\"install\"", "http://", "https://", "TcpStream"];

/// Without the lines that only a reader sees, and with lines that go on in the next one joined.
fn commands(script: &str) -> Vec<String> {
    let joined = script.replace("\\\n", " ");
    joined.lines().map(str::trim).filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn build_scripts_download_nothing() {
    let mut faults = Vec::new();
    for name in crate_folders() {
        let path = format!("crates/{name}/build.rs");
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let code = code.join("\n");
        for word in NETWORK_WORDS {
            if code.contains(word) {
                faults.push(format!("{path}: `{word}`: a build script downloads nothing"));
            }
        }
        if code.matches("Command::new(").count() != code.matches("[\"--offline\", \"--locked\"").count() {
            faults.push(format!("{path}: it may only run cargo, and that with --offline --locked"));
        }
    }
    report(&faults);
}

#[test]
fn worker_is_built_without_a_download() {
    let mut faults = Vec::new();
    for name in names_in("deploy/cloudflare") {
        let path = format!("deploy/cloudflare/{name}/wrangler.toml");
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        let config: toml::Table = text.parse().expect("wrangler's configuration is TOML");
        let command =
            config.get("build").and_then(|build| build.get("command")).and_then(toml::Value::as_str);
        if command != Some("../../../scripts/edge-build") {
            faults.push(format!("{path}: wrangler builds with scripts/edge-build, not with {command:?}"));
        }
    }
    let script = commands(&read("scripts/edge-build"));
    // What comes before is `--fetch`, which is asked for.
    let build = script.split(|line| line.starts_with("built=")).next_back().unwrap_or_default();
    for needed in ["require_edge_tools", "export CARGO_NET_OFFLINE=true", "use_wasm_toolchain --offline"] {
        if !build.iter().any(|line| line == needed) {
            faults.push(format!("scripts/edge-build: `{needed}` is missing"));
        }
    }
    for line in build {
        if ["fetch_", "npm ", "pip", "curl ", "wget ", " install"].iter().any(|word| line.contains(word)) {
            faults.push(format!("scripts/edge-build: `{line}`: a build downloads nothing"));
        }
    }
    report(&faults);
}

#[test]
fn scripts_install_only_what_a_lock_file_or_a_version_says() {
    let mut faults = Vec::new();
    for path in project_files() {
        let is_script = ["scripts", ".ci", ".github", "bench"].iter().any(|folder| path.starts_with(folder));
        let Some(text) = is_script.then(|| fs::read_to_string(root().join(&path)).ok()).flatten() else {
            continue;
        };
        for line in commands(&text) {
            let is_fixed = |needed: &[&str]| needed.iter().all(|word| line.contains(word));
            let wrong = (line.contains("npm install") && !line.contains("@$"))
                || (line.contains("pip\" install") && !line.contains("=="))
                || (line.contains("cargo install") && !is_fixed(&["--locked", "--version"]))
                || ["cargo build", "cargo test", "cargo run", "cargo clippy", "cargo doc", "cargo fetch"]
                    .iter()
                    .any(|command| {
                        line.starts_with(command) && !line.contains("--locked") && !line.contains("\"$@\"")
                    });
            if wrong {
                faults.push(format!("{}: `{line}`: name a version, or use the lock file", path.display()));
            }
        }
    }
    report(&faults);
}

/// A release ends where it is not known whether its packages are safe.
#[test]
fn release_compares_packages_with_advisories_and_publishes_what_is_in_it() {
    let workflow = commands(&read(".github/workflows/release.yml")).join("\n");
    for (needed, why) in [
        ("run: scripts/advisories\n", "it doesn't look for advisories"),
        ("cargo cyclonedx", "it makes no bill of materials"),
        ("rmax.cdx.json SHA256SUMS", "it doesn't publish the bill of materials"),
    ] {
        assert!(workflow.contains(needed), "release.yml: {why}");
    }
    assert!(!workflow.contains("continue-on-error") && !workflow.contains("|| true"));
    for line in workflow.lines().filter(|line| line.contains("uses:")) {
        let revision =
            line.split_once('@').map(|(_, revision)| revision.split(' ').next().unwrap_or_default());
        assert!(revision.is_some_and(|revision| revision.len() == 40), "release.yml: {line}: name a commit");
    }
}
