//! A compiled `[monitor://]` or `[batch://]` stanza: matches paths and sets the metadata of their events.
//!
//! `*` matches any part of one segment, `...` any number of folders. If the last segment has no wildcard, it may name a
//! file or a folder, whose files then match. Scanning begins at the longest prefix of the path without wildcards.

use std::path::{Path, PathBuf};

use quarry_conf::{CrcSalt, MonitorSettings};
use quarry_pipeline::Pattern;
use quarry_stdx::Fault;

use crate::InputError;

/// Separates index and salt in the scope of a file's identity; an index name cannot contain it.
const SALT_SEPARATOR: char = '\0';

/// A compiled stanza.
#[derive(Debug)]
pub(crate) struct Stanza {
    pub(crate) settings: MonitorSettings,
    /// Root of the scan: a folder, or the file itself.
    pub(crate) root: PathBuf,
    /// Pattern for the whole path; `None` means everything at and below `root`.
    whole: Option<Pattern>,
    whitelist: Option<Pattern>,
    blacklist: Option<Pattern>,
    host_regex: Option<Pattern>,
    /// Maximum depth below `root` of folders with matching files; `None` means unlimited.
    depth_max: Option<usize>,
    /// Depth below `root` from which on only folders that match `whole`, or are below one that does, have such files.
    whole_depth: Option<usize>,
}

impl Stanza {
    /// Compiles a stanza; the error names the invalid pattern.
    pub(crate) fn new(settings: MonitorSettings) -> Result<Stanza, InputError> {
        let path = settings.path.trim_end_matches('/');
        let segments: Vec<&str> = path.split('/').collect();
        let is_wild = |segment: &&str| segment.contains('*') || segment.contains("...");
        let plain = segments.iter().position(is_wild).unwrap_or(segments.len());
        let root = PathBuf::from(match segments[..plain].join("/") {
            root if root.is_empty() => "/".to_owned(),
            root => root,
        });
        let wild = &segments[plain..];
        let any_depth = wild.iter().any(|segment| segment.contains("..."));
        // The last segment may be the name of a folder.
        let may_be_folder = !wild.last().is_some_and(is_wild);
        let depth_max = match may_be_folder {
            true if settings.recursive || any_depth => None,
            true => Some(wild.len()),
            false => (!any_depth).then(|| wild.len() - 1),
        };
        let whole_depth = (may_be_folder && !any_depth && !wild.is_empty()).then_some(wild.len());
        let below = match may_be_folder {
            true if settings.recursive => "(?:/.*)?$",
            true => "(?:/[^/]*)?$",
            false => "$",
        };
        let compiled =
            |pattern: &Option<String>| pattern.as_ref().map(|pattern| compile(&settings.path, pattern)).transpose();
        let whole = (!wild.is_empty()).then(|| compile(&settings.path, &full_path_pattern(path, below))).transpose()?;
        let (whitelist, blacklist) = (compiled(&settings.whitelist)?, compiled(&settings.blacklist)?);
        let host_regex = compiled(&settings.host_regex)?;
        Ok(Stanza { root, whole, whitelist, blacklist, host_regex, depth_max, whole_depth, settings })
    }

    /// Whether the stanza matches a file with this path.
    pub(crate) fn matches_path(&self, path: &Path) -> bool {
        path.starts_with(&self.root)
            && is_match(self.whole.as_ref(), path, true)
            && is_match(self.whitelist.as_ref(), path, true)
            && !is_match(self.blacklist.as_ref(), path, false)
    }

    /// Whether matching files may be in a folder, which is `depth` levels below the root.
    pub(crate) fn may_descend(&self, folder: &Path, depth: usize) -> bool {
        self.depth_max.is_none_or(|max| depth <= max)
            && (self.whole_depth.is_none_or(|from| depth < from) || is_match(self.whole.as_ref(), folder, true))
    }

    /// `host` of a file's events, if the stanza sets one.
    pub(crate) fn host(&self, path: &Path) -> Option<String> {
        let text = path.to_str()?;
        let of_regex = || {
            let found = self.host_regex.as_ref()?.find_break(text.as_bytes(), 0)?;
            Some(text.get(found.group)?.to_owned()).filter(|host| !host.is_empty())
        };
        let of_segment = || {
            let number = self.settings.host_segment?;
            text.split('/').filter(|segment| !segment.is_empty()).nth(number - 1).map(str::to_owned)
        };
        of_segment().or_else(of_regex).or_else(|| self.settings.host.clone())
    }

    /// Scope of a file's identity: the index and, if `crcSalt` is set, the salt.
    pub(crate) fn scope(&self, path: &str) -> String {
        let index = &self.settings.index;
        match &self.settings.crc_salt {
            CrcSalt::None => index.clone(),
            CrcSalt::Path => format!("{index}{SALT_SEPARATOR}{path}"),
            CrcSalt::Text(salt) => format!("{index}{SALT_SEPARATOR}{salt}"),
        }
    }
}

/// Whether a path matches a pattern; `without` is the answer if there is none.
fn is_match(pattern: Option<&Pattern>, path: &Path, without: bool) -> bool {
    pattern.map_or(without, |pattern| pattern.is_match(path.as_os_str().as_encoded_bytes()))
}

fn compile(path: &str, pattern: &str) -> Result<Pattern, InputError> {
    let bad = |fault: Fault| {
        let pattern = format!("[monitor://{path}] {pattern}");
        InputError::Pattern { pattern, reason: fault.to_string() }
    };
    Pattern::new(pattern).map_err(bad)
}

/// The pattern for the whole path; `below` matches what may follow it.
fn full_path_pattern(path: &str, below: &str) -> String {
    let mut pattern = "^".to_owned();
    let mut rest = path;
    while let Some(char) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix(".../") {
            // `...` also matches zero folders.
            pattern.push_str("(?:.*/)?");
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix("...") {
            pattern.push_str(".*");
            rest = behind;
        } else {
            match char {
                '*' => pattern.push_str("[^/]*"),
                char if char.is_ascii_punctuation() && char != '/' && char != '_' => pattern.extend(['\\', char]),
                char => pattern.push(char),
            }
            rest = &rest[char.len_utf8()..];
        }
    }
    pattern.push_str(below);
    pattern
}

#[cfg(test)]
mod tests {
    use quarry_conf::{ConfSource, Layer, Layers};

    use super::*;

    fn stanza(path: &str, settings: &str) -> Stanza {
        let text = format!("[monitor://{path}]\n{settings}");
        let source = ConfSource { layer: Layer::SystemLocal, app: None, file: "inputs.conf".into(), text };
        let (mut all, wrong) = MonitorSettings::read_all(&Layers::new([source]));
        assert!(wrong.is_empty(), "{wrong:?}");
        Stanza::new(all.remove(0)).unwrap()
    }

    #[test]
    fn stanza_matches_the_expected_paths() {
        let cases: &[(&str, &str, &[&str], &[&str])] = &[
            ("/var/log", "", &["/var/log/a", "/var/log/b/c.log"], &["/var/logs", "/var/lo"]),
            ("/var/log/a.log", "", &["/var/log/a.log"], &["/var/log/a.log1", "/var/log/axlog"]),
            ("/var/log/*.log", "", &["/var/log/a.log", "/var/log/.log"], &["/var/log/b/a.log", "/var/log/a.log.1"]),
            ("/var/.../*.log", "", &["/var/a.log", "/var/x/y/a.log"], &["/var/a.txt", "/other/a.log"]),
            ("/a/*/logs/x+(1).txt", "", &["/a/b/logs/x+(1).txt"], &["/a/b/c/logs/x+(1).txt", "/a/b/logs/xx(1).txt"]),
            (
                "/a/*/logs",
                "",
                &["/a/b/logs", "/a/b/logs/x", "/a/b/logs/c/x"],
                &["/a/logs/x", "/a/b/logs2/x", "/a/b/c/x"],
            ),
            ("/a/*/logs/", "recursive = 0", &["/a/b/logs/x"], &["/a/b/logs/c/x"]),
            ("/a/.../logs", "", &["/a/logs/x", "/a/b/c/logs/d/x"], &["/a/b/x"]),
            ("/a/logs*", "", &["/a/logs1"], &["/a/logs1/x"]),
            (
                "/var/log",
                "whitelist = \\.log$\nblacklist = debug",
                &["/var/log/a.log"],
                &["/var/log/debug.log", "/var/log/a"],
            ),
            ("/var/log", "blacklist = (?<!a)\\.log$", &["/var/log/a.log"], &["/var/log/b.log"]),
        ];
        for (path, settings, taken, left) in cases {
            let stanza = stanza(path, settings);
            taken
                .iter()
                .for_each(|path| assert!(stanza.matches_path(Path::new(path)), "{} {path}", stanza.settings.path));
            left.iter()
                .for_each(|path| assert!(!stanza.matches_path(Path::new(path)), "{} {path}", stanza.settings.path));
        }
        assert_eq!(stanza("/var/log/*/x/*.log", "").root, Path::new("/var/log"));
    }

    #[test]
    fn only_folders_that_may_have_matching_files_are_scanned() {
        let cases: &[(&str, &str, &[&str], &[&str])] = &[
            ("/v", "", &["/v", "/v/a/b"], &[]),
            ("/v", "recursive = 0", &["/v"], &["/v/a"]),
            ("/v/*/*.log", "", &["/v", "/v/a"], &["/v/a/b"]),
            ("/v/*/logs", "", &["/v", "/v/a", "/v/a/logs", "/v/a/logs/b"], &["/v/a/b", "/v/a/b/logs"]),
            ("/v/*/logs", "recursive = 0", &["/v/a/logs"], &["/v/a/logs/b"]),
            ("/v/.../a", "", &["/v/b/c/d/e/f"], &[]),
        ];
        for (path, settings, scanned, left) in cases {
            let stanza = stanza(path, settings);
            let depth = |folder: &Path| folder.strip_prefix("/v").unwrap().components().count();
            for (folders, expected) in [(scanned, true), (left, false)] {
                for folder in folders.iter().map(Path::new) {
                    assert_eq!(stanza.may_descend(folder, depth(folder)), expected, "{path} {settings} {folder:?}");
                }
            }
        }
    }

    #[test]
    fn hosts_are_extracted_from_paths() {
        let path = Path::new("/var/log/web-3/access.log");
        let host = |settings: &str| stanza("/var/log", settings).host(path);
        assert_eq!(host("").as_deref(), None);
        assert_eq!(host("host = x").as_deref(), Some("x"));
        assert_eq!(host("host = x\nhost_segment = 3").as_deref(), Some("web-3"));
        assert_eq!(host("host = x\nhost_regex = /(web-\\d)/").as_deref(), Some("web-3"));
        assert_eq!(host("host = x\nhost_regex = /(db-\\d)/").as_deref(), Some("x"));
    }
}
