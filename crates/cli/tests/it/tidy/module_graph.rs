//! Which modules of a crate use which others, read from its source text.
//!
//! Between modules with the same parent, each with everything below it, the arrows must point one way. A parent and its children
//! may use each other. Tests may reach anywhere and are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The names from the crate's root to a module; empty for the root itself.
type ModulePath = Vec<String>;

/// The modules of one crate.
pub(super) struct ModuleGraph {
    modules: BTreeMap<ModulePath, Module>,
}

struct Module {
    file: PathBuf,
    paths: Vec<UsedPath>,
}

/// A path that begins at `crate`, `super`, `self` or, in a `use`, at a child module.
struct UsedPath {
    segments: Vec<String>,
    /// The name it has afterwards, if it is imported.
    imported_as: Option<String>,
    line: usize,
}

/// That one module uses another beside it, and where.
#[derive(Clone, Debug)]
pub(super) struct Dependency {
    pub(super) parent: ModulePath,
    pub(super) from: String,
    pub(super) to: String,
    // `file:line: path`
    pub(super) because: String,
}

impl ModuleGraph {
    /// Reads the modules below a crate's `src`.
    pub(super) fn read(src: &Path) -> Self {
        let root = ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().find(|path| path.is_file());
        let mut modules = BTreeMap::new();
        read_module(root.expect("a crate has a root"), src, Vec::new(), &mut modules);
        Self { modules }
    }

    /// The modules the crate's root declares.
    pub(super) fn top_modules(&self) -> BTreeSet<String> {
        self.modules.keys().filter(|path| path.len() == 1).map(|path| path[0].clone()).collect()
    }

    /// Every dependency between modules with the same parent.
    pub(super) fn dependencies(&self) -> Vec<Dependency> {
        let mut found = Vec::new();
        for (from, module) in &self.modules {
            for path in &module.paths {
                let Some(to) = self.resolve(from, &path.segments, 0) else { continue };
                let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
                if common == from.len() || common == to.len() {
                    continue;
                }
                found.push(Dependency {
                    parent: from[..common].to_vec(),
                    from: from[common].clone(),
                    to: to[common].clone(),
                    because: format!("{}:{}: {}", module.file.display(), path.line, path.segments.join("::")),
                });
            }
        }
        found
    }

    /// The module in which a path ends. Names that another module imports are followed to where they come from.
    fn resolve(&self, from: &[String], segments: &[String], depth: usize) -> Option<ModulePath> {
        // Two modules that import each other's names by `*` would lead in circles.
        if depth > 8 {
            return None;
        }
        let mut at = from.to_vec();
        for (index, segment) in segments.iter().enumerate() {
            match segment.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => {
                    at.pop()?;
                }
                name => {
                    let mut child = at.clone();
                    child.push(name.to_owned());
                    if self.modules.contains_key(&child) {
                        at = child;
                        continue;
                    }
                    let imported = self.modules.get(&at)?.paths.iter();
                    let mut imported = imported.filter(|path| path.imported_as.as_deref() == Some(name));
                    // The path itself is an import of its name, when it is relative to the module it stands in.
                    let imported = imported.find(|path| path.segments != segments);
                    if let Some(path) = imported {
                        let mut rest = path.segments.clone();
                        rest.extend_from_slice(&segments[index + 1..]);
                        return self.resolve(&at, &rest, depth + 1);
                    }
                    return Some(at);
                }
            }
        }
        Some(at)
    }
}

fn read_module(file: PathBuf, folder: &Path, path: ModulePath, modules: &mut BTreeMap<ModulePath, Module>) {
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let tokens = without_tests(tokens(&text));
    let children: Vec<String> = tokens
        .windows(3)
        .filter(|three| three[0].text == "mod" && three[2].text == ";")
        .map(|three| three[1].text.clone())
        .collect();
    for child in &children {
        let (beside, inside) = (folder.join(format!("{child}.rs")), folder.join(child).join("mod.rs"));
        let mut child_path = path.clone();
        child_path.push(child.clone());
        let child_file = if beside.is_file() { beside } else { inside };
        read_module(child_file, &folder.join(child), child_path, modules);
    }
    modules.insert(path, Module { file, paths: used_paths(&tokens, &children) });
}

struct Token {
    text: String,
    line: usize,
}

/// Identifiers, `::` and single punctuation; no comments, no text between quotes.
fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let rest = &text[at..];
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = literal_length(rest) {
            length
        } else if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        let token = &rest[..length];
        let is_code = !token.trim().is_empty() && !token.starts_with("//") && !token.starts_with("/*");
        if is_code && literal_length(token).is_none() {
            tokens.push(Token { text: token.to_owned(), line });
        }
        line += token.matches('\n').count();
        at += length;
    }
    tokens
}

/// The length of the string or character literal a text begins with.
fn literal_length(text: &str) -> Option<usize> {
    let prefix = text.find(|c: char| !matches!(c, 'b' | 'r' | 'c')).filter(|length| *length <= 2)?;
    let body = &text[prefix..];
    let is_raw = text[..prefix].contains('r');
    let hashes = body.len() - body.trim_start_matches('#').len();
    if is_raw && body[hashes..].starts_with('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let inner = prefix + hashes + 1;
        return Some(inner + text[inner..].find(&end).map_or(text.len() - inner, |at| at + end.len()));
    }
    let quote = body.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    for (index, c) in body.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return Some(prefix + index + 1),
            // A lifetime, not a character.
            _ if quote == '\'' && index > 1 && !body.starts_with("'\\") => return None,
            _ => {}
        }
    }
    (quote == '"').then_some(text.len())
}

/// Without what only tests compile.
fn without_tests(tokens: Vec<Token>) -> Vec<Token> {
    let is = |index: usize, words: &[&str]| {
        words
            .iter()
            .enumerate()
            .all(|(offset, word)| tokens.get(index + offset).is_some_and(|token: &Token| token.text == *word))
    };
    let mut kept = vec![true; tokens.len()];
    let mut index = 0;
    while index < tokens.len() {
        if !is(index, &["#", "[", "cfg", "(", "test", ")", "]"]) {
            index += 1;
            continue;
        }
        let (mut end, mut depth) = (index + 7, 0);
        while end < tokens.len() {
            match tokens[end].text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            end += 1;
            if depth == 0 && matches!(tokens[end - 1].text.as_str(), "}" | ";") {
                break;
            }
        }
        kept[index..end].fill(false);
        index = end;
    }
    tokens.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(token, _)| token).collect()
}

fn used_paths(tokens: &[Token], children: &[String]) -> Vec<UsedPath> {
    let mut paths = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let text = tokens[index].text.as_str();
        let follows = |offset: usize| tokens.get(index + offset).map_or("", |token| token.text.as_str());
        let before = |offset: usize| index.checked_sub(offset).map_or("", |at| tokens[at].text.as_str());
        let imports = before(1) == "use";
        let is_start = matches!(text, "crate" | "super" | "self")
            || imports && children.iter().any(|child| child == text);
        // Visibility such as `pub(in crate::x)` is not a use, and `a::self::b` is not a start.
        if is_start && matches!(follows(1), "::" | "as") && before(1) != "in" && before(1) != "::" {
            index = used_tree(tokens, index, &[], imports, &mut paths);
        } else {
            index += 1;
        }
    }
    paths
}

/// Reads `a::b`, `a::{b, c::d}` or `a as b`, and gives the index behind it.
fn used_tree(
    tokens: &[Token],
    mut index: usize,
    prefix: &[String],
    imports: bool,
    paths: &mut Vec<UsedPath>,
) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let mut segments = prefix.to_vec();
    let line = tokens.get(index).map_or(0, |token| token.line);
    loop {
        match text(index) {
            "{" => {
                index += 1;
                while !matches!(text(index), "}" | "") {
                    if text(index) == "," {
                        index += 1;
                    } else {
                        index = used_tree(tokens, index, &segments, imports, paths);
                    }
                }
                return index + 1;
            }
            // `use a::{self, b}` imports `a` itself.
            "self" if !segments.is_empty() => index += 1,
            segment => {
                segments.push(segment.to_owned());
                index += 1;
            }
        }
        let continues = text(index) == "::" && (text(index + 1) == "{" || is_name(text(index + 1)));
        if !continues {
            break;
        }
        index += 1;
    }
    let mut imported_as = segments.last().cloned();
    if imports && text(index) == "as" {
        imported_as = Some(text(index + 1).to_owned());
        index += 2;
    }
    paths.push(UsedPath { segments, imported_as: imported_as.filter(|_| imports), line });
    index.max(1)
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Groups of modules with the same parent that use each other in a circle.
pub(super) fn cycles(dependencies: &[Dependency]) -> Vec<(ModulePath, BTreeSet<String>)> {
    let mut arrows: BTreeMap<&ModulePath, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for dependency in dependencies {
        let level = arrows.entry(&dependency.parent).or_default();
        level.entry(&dependency.from).or_default().insert(&dependency.to);
    }
    let mut found = BTreeSet::new();
    for (parent, level) in arrows {
        for &module in level.keys() {
            let reached = reachable(level.get(module), &level);
            let circle: BTreeSet<String> = reached
                .iter()
                .filter(|other| reachable(level.get(**other), &level).contains(module))
                .map(|&other| other.to_owned())
                .collect();
            if circle.contains(module) {
                found.insert((parent.clone(), circle));
            }
        }
    }
    found.into_iter().collect()
}

fn reachable<'a>(
    from: Option<&BTreeSet<&'a str>>,
    level: &BTreeMap<&'a str, BTreeSet<&'a str>>,
) -> BTreeSet<&'a str> {
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut waiting: Vec<&str> = from.into_iter().flatten().copied().collect();
    while let Some(module) = waiting.pop() {
        if reached.insert(module) {
            waiting.extend(level.get(module).into_iter().flatten());
        }
    }
    reached
}
