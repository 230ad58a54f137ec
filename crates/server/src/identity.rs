//! The GUID of a data directory, by which clients distinguish nodes: `guid` in `[general]` of `etc/instance.cfg`, as in
//! Splunk, so that a directory taken over from Splunk keeps its GUID.
//!
//! Nodes do not share the file. Not here: the node's name (server.conf).

use std::io::ErrorKind;
use std::path::Path;

use quarry_conf::Conf;
use quarry_conf::edit::with_settings;
use quarry_stdx::{Fault, hex, private_file, random};

/// The file, relative to the data directory.
const FILE: &str = "etc/instance.cfg";
const STANZA: &str = "general";
const KEY: &str = "guid";
/// Maximum length of a GUID that is read.
const GUID_CHARS_MAX: usize = 64;

/// The GUID of a data directory; `None` before a node has created it.
pub(crate) fn read(data_dir: &Path) -> Option<String> {
    guid_in(&std::fs::read_to_string(data_dir.join(FILE)).ok()?)
}

/// Creates the GUID of a data directory unless it has one. Other content of the file is kept.
pub(crate) fn create_if_missing(data_dir: &Path) -> Result<(), Fault> {
    let file = data_dir.join(FILE);
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Fault::io(file.display(), error)),
    };
    if guid_in(&text).is_some() {
        return Ok(());
    }
    private_file::write(&file, &with_settings(&text, STANZA, &[(KEY.to_owned(), new_guid())]))
}

/// The GUID in the text of the file.
fn guid_in(text: &str) -> Option<String> {
    let (conf, _) = Conf::parse(FILE, text);
    let guid = conf.stanza(STANZA)?.get(KEY)?.to_owned();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    Some(guid).filter(|guid| (1..=GUID_CHARS_MAX).contains(&guid.len()) && guid.chars().all(is_plain))
}

/// A random GUID (version 4).
fn new_guid() -> String {
    let mut bytes = [0; 16];
    random::fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex::encode(&bytes).to_ascii_uppercase();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_keeps_its_guid() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()), None);
        create_if_missing(folder.path()).unwrap();
        let guid = read(folder.path()).unwrap();
        let lengths: Vec<usize> = guid.split('-').map(str::len).collect();
        assert_eq!((lengths, guid.as_bytes()[14]), (vec![8, 4, 4, 4, 12], b'4'));
        create_if_missing(folder.path()).unwrap();
        assert_eq!(read(folder.path()), Some(guid.clone()));
        let other = tempfile::tempdir().unwrap();
        create_if_missing(other.path()).unwrap();
        assert_ne!(read(other.path()), Some(guid));
    }

    #[test]
    fn content_of_the_file_is_kept_and_an_unusable_guid_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "# taken over\n[general]\nguid = A1-b2\n").unwrap();
        create_if_missing(folder.path()).unwrap();
        assert_eq!(read(folder.path()).as_deref(), Some("A1-b2"));
        std::fs::write(&file, "# taken over\n[general]\nguid = <none>\n[other]\nx = y\n").unwrap();
        create_if_missing(folder.path()).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("# taken over\n[general]\n") && text.ends_with("[other]\nx = y\n"), "{text}");
        assert!(read(folder.path()).is_some_and(|guid| guid.len() == 36));
    }
}
