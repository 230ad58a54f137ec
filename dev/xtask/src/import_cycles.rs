//! Import cycles inside a crate: files that import one another, directly or through others.
//!
//! Files of a cycle can only be understood, tested and moved together, so its size is limited ([`CYCLE_FILES_MAX`]).
//! Crates over the limit are listed in `dev/xtask/circles.txt` with the size of their largest cycle, which may not
//! grow. Imports are read from the syntax tree. An import of a re-exported name counts as an import of the file that
//! defines the name, and re-exports themselves do not count, so a facade (`lib.rs`, `mod.rs`) creates no cycles. Names
//! in a `macro_rules!`, such as the rows of a table from which a dispatch is generated, are not counted, because the
//! dispatch uses them only through a trait. Not detected: names that macros assemble, and methods called on a value
//! without naming its type.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use crate::root;

/// Maximum number of files of a cycle.
const CYCLE_FILES_MAX: usize = 8;
/// List of crates over the limit with their allowed sizes.
const RATCHET: &str = "dev/xtask/circles.txt";
/// Longest chain of re-exports that is followed.
const REEXPORTS_MAX: usize = 16;

type Segments = Vec<String>;

/// Checks every crate; with `update`, lowers the allowed sizes.
pub(crate) fn run(update: bool) -> Result<(), String> {
    let ratchet = read_ratchet();
    let (mut faults, mut kept, mut largest_of_all) = (Vec::new(), String::new(), 0);
    let folders = std::fs::read_dir(root().join("crates")).map_err(|error| format!("crates: {error}"))?;
    let mut folders: Vec<_> = folders.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    for folder in folders {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(largest) = CrateFiles::read(&folder.join("src"))?.cycles().into_iter().max_by_key(Vec::len) else {
            continue;
        };
        largest_of_all = largest_of_all.max(largest.len());
        let allowed = ratchet.get(&name).copied().unwrap_or(CYCLE_FILES_MAX).max(CYCLE_FILES_MAX);
        if largest.len() > allowed {
            let files = largest.join(", ");
            faults.push(format!("{name}: {} files import one another, but only {allowed} may: {files}", largest.len()));
        } else if largest.len() > CYCLE_FILES_MAX {
            kept.push_str(&format!("{} {name}\n", largest.len()));
        }
    }
    if update && faults.is_empty() {
        std::fs::write(root().join(RATCHET), kept).map_err(|error| format!("{RATCHET}: {error}"))?;
    }
    if faults.is_empty() {
        println!("circles: the largest has {largest_of_all} files");
        return Ok(());
    }
    Err(faults.join("\n"))
}

/// Prints which files of the largest cycle of a crate import which, to help break it.
pub(crate) fn show(name: &str) -> Result<(), String> {
    let files = CrateFiles::read(&root().join("crates").join(name).join("src"))?;
    let largest = files.cycles().into_iter().max_by_key(Vec::len).unwrap_or_default();
    for (from, to) in files.import_edges().into_iter().filter(|(from, _)| largest.iter().any(|file| file == from)) {
        let to: Vec<&str> = to.into_iter().filter(|to| largest.iter().any(|file| file == to)).collect();
        println!("{from}: {}", to.join(" "));
    }
    Ok(())
}

fn read_ratchet() -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(root().join(RATCHET)).unwrap_or_default();
    let rows = text.lines().filter_map(|line| line.split_once(' '));
    rows.filter_map(|(size, name)| Some((name.to_owned(), size.parse().ok()?))).collect()
}

/// Modules of a crate, and the paths that each module uses.
#[derive(Default)]
struct CrateFiles {
    /// File of each module.
    file_of: BTreeMap<Segments, String>,
    /// Paths of the names that a module imports with `use`.
    aliases: BTreeMap<(Segments, String), Segments>,
    /// Pairs of a module and an absolute path that it uses.
    named: Vec<(Segments, Segments)>,
}

impl CrateFiles {
    fn read(source: &Path) -> Result<CrateFiles, String> {
        let mut files = Vec::new();
        list(source, &mut files);
        let mut read = CrateFiles::default();
        let mut trees = Vec::new();
        for path in files {
            let name = path.strip_prefix(source).unwrap_or(&path).display().to_string();
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{name}: {error}"))?;
            let tree = syn::parse_file(&text).map_err(|error| format!("{name}: {error}"))?;
            let module = module_of(&name);
            read.declare(&module, &name, &tree.items);
            trees.push((module, tree));
        }
        for (module, tree) in &trees {
            read.note_items(module, &tree.items);
        }
        Ok(read)
    }

    /// Records the modules of a file, so that paths of modules can be distinguished from other names.
    fn declare(&mut self, module: &[String], file: &str, items: &[syn::Item]) {
        self.file_of.insert(module.to_vec(), file.to_owned());
        for item in items {
            if let syn::Item::Mod(inner) = item
                && let Some((_, items)) = &inner.content
                && !is_for_tests(&inner.attrs)
            {
                self.declare(&joined(module, &inner.ident.to_string()), file, items);
            }
        }
    }

    fn note_items(&mut self, module: &[String], items: &[syn::Item]) {
        for item in items {
            match item {
                syn::Item::Use(used) if !is_for_tests(&used.attrs) => {
                    let facade = !matches!(used.vis, syn::Visibility::Inherited);
                    self.note_use(module, &mut Vec::new(), &used.tree, facade);
                }
                syn::Item::Mod(inner) if !is_for_tests(&inner.attrs) => {
                    if let Some((_, items)) = &inner.content {
                        self.note_items(&joined(module, &inner.ident.to_string()), items);
                    }
                }
                syn::Item::Mod(_) | syn::Item::Use(_) => {}
                other => {
                    let mut paths = Paths::default();
                    paths.visit_item(other);
                    for path in paths.found {
                        if let Some(path) = self.absolute(module, &path) {
                            self.named.push((module.to_vec(), path));
                        }
                    }
                }
            }
        }
    }

    fn note_use(&mut self, module: &[String], prefix: &mut Segments, tree: &syn::UseTree, facade: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.note_use(module, prefix, &path.tree, facade);
                prefix.pop();
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.note_use(module, prefix, tree, facade));
            }
            syn::UseTree::Name(name) => self.note_name(module, prefix, &name.ident, &name.ident, facade),
            syn::UseTree::Rename(name) => self.note_name(module, prefix, &name.ident, &name.rename, facade),
            syn::UseTree::Glob(_) => {
                if let Some(path) = self.absolute(module, prefix).filter(|_| !facade) {
                    self.named.push((module.to_vec(), path));
                }
            }
        }
    }

    fn note_name(&mut self, module: &[String], prefix: &[String], name: &syn::Ident, alias: &syn::Ident, facade: bool) {
        let mut path = prefix.to_vec();
        if name != "self" {
            path.push(name.to_string());
        }
        let Some(path) = self.absolute(module, &path) else { return };
        let alias = if alias == "self" { path.last().cloned().unwrap_or_default() } else { alias.to_string() };
        self.aliases.insert((module.to_vec(), alias), path.clone());
        if !facade {
            self.named.push((module.to_vec(), path));
        }
    }

    /// Path from the crate root, if `path` refers to this crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Segments> {
        let first = path.first()?;
        let (mut base, rest) = match first.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (module.to_vec(), &path[1..]),
            "super" => {
                let ups = path.iter().take_while(|segment| *segment == "super").count();
                (module[..module.len().checked_sub(ups)?].to_vec(), &path[ups..])
            }
            name if self.file_of.contains_key(&joined(module, name)) => (module.to_vec(), path),
            _ => return None,
        };
        base.extend(rest.iter().cloned());
        Some(base)
    }

    /// File that defines the item at a path, following re-exports.
    fn file_defining(&self, path: &[String], depth: usize) -> Option<&String> {
        let mut module = Vec::new();
        for (at, segment) in path.iter().enumerate() {
            let inner = joined(&module, segment);
            if self.file_of.contains_key(&inner) {
                module = inner;
            } else if let Some(target) = self.aliases.get(&(module.clone(), segment.clone()))
                && depth < REEXPORTS_MAX
            {
                let further: Segments = target.iter().chain(&path[at + 1..]).cloned().collect();
                return self.file_defining(&further, depth + 1);
            } else {
                break;
            }
        }
        self.file_of.get(&module)
    }

    /// Files that each file imports.
    fn import_edges(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (module, path) in &self.named {
            let (Some(from), Some(to)) = (self.file_of.get(module), self.file_defining(path, 0)) else { continue };
            if from != to {
                arrows.entry(from.as_str()).or_default().insert(to.as_str());
            }
        }
        arrows
    }

    /// Groups of files that import one another, each sorted by name.
    fn cycles(&self) -> Vec<Vec<String>> {
        let arrows = self.import_edges();
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            arrows.keys().map(|file| (*file, reachable_files(file, &arrows))).collect();
        let (mut circles, mut seen) = (Vec::new(), BTreeSet::new());
        for (file, reaches) in &reached {
            if reaches.contains(file) && seen.insert(*file) {
                let others = reaches.iter().filter(|other| reached.get(*other).is_some_and(|back| back.contains(file)));
                let circle: Vec<String> = others.map(|other| (*other).to_owned()).collect();
                seen.extend(reaches.iter().filter(|other| circle.iter().any(|file| file == *other)));
                circles.push(circle);
            }
        }
        circles
    }
}

fn reachable_files<'a>(from: &'a str, arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        for to in arrows.get(next).into_iter().flatten() {
            if seen.insert(*to) {
                open.push(to);
            }
        }
    }
    seen
}

/// Collects paths of more than one segment in an item, including the arguments of macros.
#[derive(Default)]
struct Paths {
    found: Vec<Segments>,
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            self.found.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    /// The path in `pub(in path)` is not an import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if item.ident.is_none() {
            self.visit_macro(&item.mac);
        }
    }

    fn visit_item_mod(&mut self, inner: &'ast syn::ItemMod) {
        if !is_for_tests(&inner.attrs) {
            syn::visit::visit_item_mod(self, inner);
        }
    }
}

impl Paths {
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Segments::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Ident(name) if colons == 2 || path.is_empty() => {
                    path.push(name.to_string());
                    colons = 0;
                    continue;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() && colons < 2 => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => {
                    self.take(&mut path);
                    self.tokens(group.stream());
                }
                TokenTree::Ident(name) => {
                    self.take(&mut path);
                    path.push(name.to_string());
                }
                _ => self.take(&mut path),
            }
            colons = 0;
        }
        self.take(&mut path);
    }

    fn take(&mut self, path: &mut Segments) {
        if path.len() > 1 {
            self.found.push(std::mem::take(path));
        }
        path.clear();
    }
}

pub(crate) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().contains("test"))
    })
}

fn joined(module: &[String], name: &str) -> Segments {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// Module of a file, from its path below `src`.
fn module_of(file: &str) -> Segments {
    let stem = file.trim_end_matches(".rs");
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    if stem == "lib" || stem == "main" {
        return Vec::new();
    }
    stem.split('/').map(str::to_owned).collect()
}

/// Source files other than tests, below a directory, in order of name.
fn list(folder: &Path, files: &mut Vec<std::path::PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut entries: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() && name != "tests" {
            list(&path, files);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            files.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let mut read = CrateFiles::default();
        let trees: Vec<_> = files.iter().map(|(name, text)| (*name, syn::parse_file(text).unwrap())).collect();
        for (name, tree) in &trees {
            read.declare(&module_of(name), name, &tree.items);
        }
        for (name, tree) in &trees {
            read.note_items(&module_of(name), &tree.items);
        }
        read.cycles()
    }

    #[test]
    fn mutually_importing_files_are_a_cycle() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "type T = super::a::A;"),
        ];
        assert_eq!(circles(&files), [["a.rs", "b.rs"]]);
        let files =
            [("lib.rs", "mod a; mod b;"), ("a.rs", "fn f() { vec![crate::b::g()]; }"), ("b.rs", "use crate::a;")];
        assert_eq!(circles(&files), [["a.rs", "b.rs"]], "paths in macros count");
        let table = "macro_rules! table { ($then:ident) => { $then! { A(crate::a::A) } }; }";
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::T;"), ("b.rs", table)];
        assert!(circles(&files).is_empty(), "rows of a table do not");
    }

    #[test]
    fn facades_do_not_create_cycles() {
        let facade = "mod a; mod b; pub(crate) use a::A; pub use b::B;";
        let files = [("lib.rs", facade), ("a.rs", "pub struct A;"), ("b.rs", "use crate::A; pub struct B;")];
        assert!(circles(&files).is_empty());
        let files =
            [("lib.rs", facade), ("a.rs", "use crate::B; pub struct A;"), ("b.rs", "use crate::A; pub struct B;")];
        assert_eq!(circles(&files), [["a.rs", "b.rs"]], "re-exports lead to where the name is defined");
    }

    #[test]
    fn visibility_paths_are_not_imports() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; pub(crate) use b::B; fn f() { b::g() }"),
            ("a/b.rs", "pub(in crate::a) struct B; pub(in crate::a) fn g() {}"),
        ];
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn tests_and_other_crates_do_not_count() {
        let tested = "#[cfg(test)] mod tests { use crate::b::B; } pub struct A; use std::fmt;";
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", tested), ("b.rs", "use crate::a::A; pub struct B;")];
        assert!(circles(&files).is_empty());
    }
}
