//! Rules of the repository that no compiler checks. Each test reads files, changes none, and says what to do.

mod builds;
mod module_graph;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::module_graph::ModuleGraph;

/// Folders whose paths ARCHITECTURE.md may name, and must name truly.
const MAPPED: [&str; 7] = ["crates/", "tests/", "scripts/", "docs/", "bench/", "conformance/", "deploy/"];

const ARCHITECTURE_LINES: usize = 200;
const DECISION_LINES: usize = 10;

// ---- the crates ----

#[test]
fn crates_depend_only_as_architecture_allows() {
    let manifests: BTreeMap<String, toml::Table> =
        crate_folders().into_iter().map(|name| (name.clone(), manifest(&name))).collect();
    let folder_of_package: BTreeMap<&str, &str> =
        manifests.iter().map(|(folder, manifest)| (package_name(manifest), folder.as_str())).collect();
    let allowed = allowed_crates();

    let mut faults = Vec::new();
    for (folder, manifest) in &manifests {
        let Some(allowed) = allowed.get(folder) else {
            faults.push(format!("ARCHITECTURE.md does not say what crates/{folder} may use"));
            continue;
        };
        for dependency in dependencies(manifest) {
            let Some(used) = folder_of_package.get(dependency.as_str()) else { continue };
            if !allowed.contains(*used) {
                faults.push(format!(
                    "crates/{folder} depends on crates/{used}, which ARCHITECTURE.md does not allow: move the shared code to the right"
                ));
            }
        }
    }
    report(&faults);
}

/// For each crate, those it may use: what stands to its right in a line of the block `crates`.
fn allowed_crates() -> BTreeMap<String, BTreeSet<String>> {
    let mut allowed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in architecture_block("crates").lines() {
        let names: Vec<&str> = line.split("->").map(str::trim).collect();
        for (index, name) in names.iter().enumerate() {
            let right = names[index + 1..].iter().map(|name| (*name).to_owned());
            allowed.entry((*name).to_owned()).or_default().extend(right);
        }
    }
    allowed
}

/// The lines of a block in ARCHITECTURE.md that begins with this word.
fn architecture_block(word: &str) -> String {
    let text = read("ARCHITECTURE.md");
    let start = format!("```text\n{word}\n");
    let block = text.split_once(&start).unwrap_or_else(|| panic!("ARCHITECTURE.md has no block `{word}`")).1;
    block.split_once("```").expect("the block ends").0.to_owned()
}

#[test]
fn modules_use_each_other_in_one_direction() {
    let mut faults = Vec::new();
    for name in crate_folders() {
        let dependencies = ModuleGraph::read(&root().join("crates").join(&name).join("src")).dependencies();
        for (parent, circle) in module_graph::cycles(&dependencies) {
            let parent = [vec![name.clone()], parent].concat().join("::");
            let names: Vec<&str> = circle.iter().map(String::as_str).collect();
            faults.push(format!("in {parent}, {} use each other in a circle:", names.join(", ")));
            for dependency in &dependencies {
                if circle.contains(&dependency.from)
                    && circle.contains(&dependency.to)
                    && parent.ends_with(&dependency.parent.join("::"))
                {
                    faults.push(format!(
                        "    {} -> {}  {}",
                        dependency.from, dependency.to, dependency.because
                    ));
                }
            }
        }
    }
    report(&faults);
}

#[test]
fn modules_depend_only_as_architecture_allows() {
    let layers = layers();
    let mut faults = Vec::new();
    for name in crate_folders() {
        let graph = ModuleGraph::read(&root().join("crates").join(&name).join("src"));
        let Some(layer_of) = layers.get(&name) else {
            faults.push(format!("ARCHITECTURE.md has no line for the modules of {name}"));
            continue;
        };
        for module in graph.top_modules() {
            if !layer_of.contains_key(&module) {
                faults.push(format!("ARCHITECTURE.md: the line of {name} does not name its module {module}"));
            }
        }
        for module in layer_of.keys().filter(|module| !graph.top_modules().contains(*module)) {
            faults.push(format!("ARCHITECTURE.md: {name} has no module {module}"));
        }
        for dependency in graph.dependencies().iter().filter(|dependency| dependency.parent.is_empty()) {
            let (from, to) = (layer_of.get(&dependency.from), layer_of.get(&dependency.to));
            if from.zip(to).is_some_and(|(from, to)| from >= to) {
                faults.push(format!(
                    "{name}: {} may not use {}: {}",
                    dependency.from, dependency.to, dependency.because
                ));
            }
        }
    }
    report(&faults);
}

/// For each crate, how far to the right each of its modules stands in ARCHITECTURE.md: a module may use those further to the right.
fn layers() -> BTreeMap<String, BTreeMap<String, usize>> {
    let mut layers: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    let mut name = String::new();
    let mut layer = 0;
    for line in architecture_block("modules").lines() {
        // A line that begins with blanks goes on with the crate before it.
        let (crate_name, rest) = line.split_once(' ').unwrap_or((line, ""));
        if !crate_name.is_empty() {
            crate_name.clone_into(&mut name);
            layer = 0;
        }
        for word in rest.split_whitespace() {
            if word == "->" {
                layer += 1;
            } else {
                layers.entry(name.clone()).or_default().insert(word.trim_end_matches(',').to_owned(), layer);
            }
        }
    }
    layers
}

/// What only some crates may name, so that there is one way to change a store. Tests may: they make what no operation would.
#[test]
fn only_operations_change_the_store() {
    let rules = [
        ("StoreWriter", ["store", "ops"], "call an operation of crates/ops, or add one"),
        ("database::pool", ["store", "clicks"], "add a method to crates/store or crates/clicks"),
    ];
    let mut faults = Vec::new();
    for path in project_files() {
        let Ok(below) = path.strip_prefix("crates") else { continue };
        let mut parts = below.components().map(|part| part.as_os_str().to_string_lossy());
        let (Some(name), Some(folder)) = (parts.next(), parts.next()) else { continue };
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        for (word, allowed, advice) in rules {
            if folder == "src" && !allowed.contains(&&*name) && text.contains(word) {
                faults.push(format!("{}: names `{word}`: {advice}", path.display()));
            }
        }
    }
    report(&faults);
}

#[test]
fn every_shared_dependency_says_what_it_is_for() {
    let manifest = read("Cargo.toml");
    let lines = manifest
        .lines()
        .skip_while(|line| line.trim() != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    let faults: Vec<String> = lines
        .filter(|line| line.contains(" = ") && !line.starts_with('#'))
        // Our own crates say it in their first lines of documentation.
        .filter(|line| !line.contains("path = \"crates/"))
        .filter(|line| line.split_once(" # ").is_none_or(|(_, reason)| reason.trim().is_empty()))
        .map(|line| {
            format!("Cargo.toml: add a comment to the end of this line that says what it is for: {line}")
        })
        .collect();
    report(&faults);
}

#[test]
fn every_crate_has_one_integration_test_binary() {
    let mut faults = Vec::new();
    for name in crate_folders() {
        let folder = format!("crates/{name}/tests");
        if !root().join(&folder).is_dir() {
            continue;
        }
        for entry in names_in(&folder) {
            if entry != "it" {
                faults.push(format!(
                    "{folder}/{entry}: move it to {folder}/it/ and name it in {folder}/it/main.rs, \
                     because each file here is linked as a binary of its own"
                ));
            }
        }
        if !root().join(&folder).join("it/main.rs").is_file() {
            faults.push(format!("{folder}/it/main.rs is missing: it names the modules of the test binary"));
        }
    }
    report(&faults);
}

#[test]
fn both_databases_have_the_same_migrations() {
    has_the_same_migrations("crates/store/migrations", "crates/store/src/database/migrations.rs");
    has_the_same_migrations("crates/clicks/migrations", "crates/clicks/src/database.rs");
}

fn has_the_same_migrations(folder: &str, list: &str) {
    let sqlite: BTreeSet<String> = names_in(&format!("{folder}/sqlite")).into_iter().collect();
    let postgres: BTreeSet<String> = names_in(&format!("{folder}/postgres")).into_iter().collect();
    let only_sqlite = sqlite.difference(&postgres).map(|name| (name, "sqlite", "postgres"));
    let only_postgres = postgres.difference(&sqlite).map(|name| (name, "postgres", "sqlite"));
    let faults: Vec<String> = only_sqlite
        .chain(only_postgres)
        .map(|(name, here, there)| {
            format!("{folder}/{here}/{name}: add a file of the same name to {folder}/{there}")
        })
        .collect();
    let listed = read(list);
    let unlisted =
        sqlite.iter().filter(|name| !listed.contains(&format!("\"{}\"", name.trim_end_matches(".sql"))));
    let faults: Vec<String> = faults
        .into_iter()
        .chain(unlisted.map(|name| format!("{list} does not name {name}: without it the file is never run")))
        .collect();
    report(&faults);
    assert!(!sqlite.is_empty(), "{folder}/sqlite is empty: a store without tables?");
}

// ---- the documents ----

#[test]
fn architecture_names_every_crate() {
    let text = read("ARCHITECTURE.md");
    let faults: Vec<String> = crate_folders()
        .into_iter()
        .filter(|name| !names_path(&text, &format!("crates/{name}")))
        .map(|name| format!("ARCHITECTURE.md does not name crates/{name}: say what lives there"))
        .collect();
    report(&faults);
}

#[test]
fn architecture_names_only_what_exists() {
    let faults: Vec<String> = code_spans(&read("ARCHITECTURE.md"))
        .into_iter()
        .filter(|(_, span)| MAPPED.iter().any(|folder| span.starts_with(folder)))
        .filter(|(_, span)| !root().join(checkable_path(span)).exists())
        .map(|(line, span)| format!("ARCHITECTURE.md:{line}: `{span}` does not exist: correct or remove it"))
        .collect();
    report(&faults);
}

#[test]
fn architecture_stays_short() {
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(
        lines < ARCHITECTURE_LINES,
        "ARCHITECTURE.md has {lines} lines and must stay under {ARCHITECTURE_LINES}: move detail to where it is about"
    );
}

#[test]
fn every_promise_has_its_test() {
    let promises: Vec<(usize, String)> = code_spans(&read("PROMISES.md"))
        .into_iter()
        .filter(|(_, span)| span.contains(".rs::") || span.contains(".mjs::"))
        .collect();
    assert!(!promises.is_empty(), "PROMISES.md names no test: write each as `path/to/file.rs::test_name`");

    let mut faults = Vec::new();
    for (line, span) in promises {
        let (path, test) = span.split_once("::").expect("the filter saw `::`");
        let test = test.rsplit("::").next().unwrap_or(test);
        match fs::read_to_string(root().join(path)) {
            Err(_) => faults.push(format!("PROMISES.md:{line}: there is no file {path}: correct `{span}`")),
            // What runs in workerd or in a browser is named by sentences.
            Ok(source)
                if Path::new(path).extension().is_some_and(|end| end == "mjs")
                    && source.contains(&format!("test(\"{test}\"")) => {}
            Ok(source) if !defines_function(&source, test) => faults.push(format!(
                "PROMISES.md:{line}: {path} has no test `{test}`: name the test that proves the promise now"
            )),
            Ok(_) => {}
        }
    }
    report(&faults);
}

#[test]
fn decisions_stay_short() {
    let mut entries: Vec<(String, usize)> = Vec::new();
    for line in read("DECISIONS.md").lines() {
        if let Some(title) = line.strip_prefix("## ") {
            entries.push((title.to_owned(), 0));
        } else if let Some((_, lines)) = entries.last_mut()
            && !line.trim().is_empty()
        {
            *lines += 1;
        }
    }
    assert!(!entries.is_empty(), "DECISIONS.md has no entry: each begins with a line `## title`");
    let faults: Vec<String> = entries
        .into_iter()
        .filter(|(_, lines)| *lines > DECISION_LINES)
        .map(|(title, lines)| {
            format!("DECISIONS.md: \"{title}\" has {lines} lines: say it in {DECISION_LINES} or fewer")
        })
        .collect();
    report(&faults);
}

// ---- every file ----

#[test]
fn no_file_holds_what_must_not_be_committed() {
    // Written in two halves, so that this file does not find itself.
    let banned = [
        (concat!("../", "shared"), "the project must not need a file outside of it"),
        (concat!("TO", "DO"), "do it, or open an issue"),
        (concat!("FIX", "ME"), "fix it, or open an issue"),
        (concat!("#[", "ignore"), "a test that does not run proves nothing: run it or remove it"),
    ];
    let mut faults = Vec::new();
    for path in project_files() {
        // What is not text, or was removed from the work tree and not yet from git, has nothing to read.
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            for (mark, advice) in banned {
                if line.contains(mark) {
                    faults.push(format!("{}:{}: `{mark}`: {advice}", path.display(), number + 1));
                }
            }
        }
    }
    report(&faults);
}

// ---- how the rules read the repository ----

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}: the project needs this file"))
}

/// Fails with every fault at once, one per line.
fn report(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// The names in a folder, sorted.
fn names_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder))
        .unwrap_or_else(|error| panic!("{folder}: {error}: the project needs this folder"));
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry.expect("the folder can be read to its end").file_name().to_string_lossy().into_owned()
        })
        .collect();
    names.sort();
    names
}

fn crate_folders() -> Vec<String> {
    names_in("crates").into_iter().filter(|name| root().join("crates").join(name).is_dir()).collect()
}

fn manifest(folder: &str) -> toml::Table {
    let path = format!("crates/{folder}/Cargo.toml");
    read(&path).parse().unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn package_name(manifest: &toml::Table) -> &str {
    manifest["package"]["name"].as_str().expect("cargo accepts only a string")
}

/// The packages a manifest depends on, for whatever purpose and on whatever target.
fn dependencies(manifest: &toml::Table) -> BTreeSet<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let places = std::iter::once(manifest)
        .chain(targets.into_iter().flat_map(toml::Table::values).filter_map(toml::Value::as_table));
    let mut packages = BTreeSet::new();
    for sandbox in places {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(table) = sandbox.get(kind).and_then(toml::Value::as_table) else { continue };
            for (key, value) in table {
                let renamed = value.get("package").and_then(toml::Value::as_str);
                packages.insert(renamed.unwrap_or(key).to_owned());
            }
        }
    }
    packages
}

/// The text between single backticks, with its line number; fenced blocks are drawings, not statements.
fn code_spans(markdown: &str) -> Vec<(usize, String)> {
    let mut spans = Vec::new();
    let mut fenced = false;
    for (index, line) in markdown.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            spans.extend(line.split('`').skip(1).step_by(2).map(|span| (index + 1, span.to_owned())));
        }
    }
    spans
}

/// The part of a code span that names a file or folder: `scripts/test --quick` and `crates/core/src/id.rs::Id`
/// name one too, and of `crates/*/tests` the part before the star can be checked.
fn checkable_path(span: &str) -> &str {
    let path = span.split(|c: char| c.is_whitespace() || c == ':' || c == '#').next().unwrap_or(span);
    match path.find(['*', '{', '<']) {
        Some(end) => &path[..path[..end].rfind('/').unwrap_or(0)],
        None => path,
    }
}

/// Whether the text names this path itself and not only a longer name that begins alike.
fn names_path(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(start, _)| !continues_a_name(&text[start + path.len()..]))
}

fn defines_function(source: &str, name: &str) -> bool {
    let definition = format!("fn {name}");
    source.match_indices(&definition).any(|(start, _)| !continues_a_name(&source[start + definition.len()..]))
}

fn continues_a_name(rest: &str) -> bool {
    rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-')
}

/// The files git tracks; outside of a git work tree, for example in an unpacked archive, every file that is
/// not ignored.
fn project_files() -> Vec<PathBuf> {
    let listed = Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output();
    if let Ok(output) = listed
        && output.status.success()
        && !output.stdout.is_empty()
    {
        let names = String::from_utf8_lossy(&output.stdout);
        return names.split_terminator('\0').map(PathBuf::from).collect();
    }
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    let ignored = read(".gitignore");
    while let Some(folder) = folders.pop() {
        for name in names_in(&folder.to_string_lossy()) {
            let path = folder.join(&name);
            let skipped = name == ".git"
                || name == "node_modules"
                || ignored
                    .lines()
                    .any(|line| line.strip_prefix('/').is_some_and(|entry| Path::new(entry) == path));
            if skipped {
                continue;
            }
            if root().join(&path).is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}
