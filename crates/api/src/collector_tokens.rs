//! Management of the tokens of the HTTP Event Collector. Changes are written to `etc/system/local/inputs.conf` and take
//! effect at once.
//!
//! Only the token's stanza is edited, and the file is replaced atomically. A token defined in another file can be
//! overridden by a stanza of the same name in this file, but not removed. Changes made to the file by hand take effect
//! with the next change made through this module.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use quarry_conf::edit::{with_settings, without_stanza};
use quarry_conf::{HttpInputSettings, HttpToken};
use quarry_inputs::hec::Collector;
use quarry_stdx::{Fault, node_files, private_file, random};

use crate::node::{CollectorToken, TokenChange, TokenError};

/// File of the tokens, relative to the data directory.
const FILE: &str = "etc/system/local/inputs.conf";
/// Maximum size of the file in bytes; a larger file is not changed.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of tokens of a node; a further token is refused.
const TOKENS_MAX: usize = 10_000;
/// Maximum bytes of a name and of a token; longer ones are refused.
const NAME_BYTES_MAX: usize = 256;
/// Maximum bytes of other values; longer ones are refused.
const VALUE_BYTES_MAX: usize = 4_096;
/// Settings that clients may write.
const SETTINGS: [&str; 11] = [
    "token",
    "description",
    "disabled",
    "index",
    "indexes",
    "host",
    "source",
    "sourcetype",
    "useACK",
    "allowQueryStringAuth",
    "connection_host",
];
/// Boolean settings.
const BOOLEAN_SETTINGS: [&str; 3] = ["disabled", "useACK", "allowQueryStringAuth"];

/// The tokens of a data directory.
pub struct CollectorTokens {
    data_dir: PathBuf,
    /// The running collector; set by [`CollectorTokens::attach`].
    collector: OnceLock<Arc<Collector>>,
}

impl CollectorTokens {
    /// Tokens of a data directory.
    pub fn new(data_dir: &Path) -> CollectorTokens {
        CollectorTokens { data_dir: data_dir.to_owned(), collector: OnceLock::new() }
    }

    /// Applies changes to `collector` from now on.
    pub fn attach(&self, collector: &Arc<Collector>) {
        // A node has only one collector, so later calls have no effect.
        self.collector.get_or_init(|| Arc::clone(collector));
    }

    /// Whether a collector listens, so that changes take effect at once.
    pub fn is_attached(&self) -> bool {
        self.collector.get().is_some()
    }

    /// All tokens.
    pub fn list(&self) -> Vec<CollectorToken> {
        self.read().into_iter().map(to_collector_token).collect()
    }

    /// Writes a token; `check_index` returns an error if an index accepts no events.
    pub fn write(
        &self,
        change: &TokenChange,
        check_index: &dyn Fn(&str) -> Result<(), Fault>,
    ) -> Result<CollectorToken, TokenError> {
        let _alone = node_files::lock_files();
        let name = &change.name;
        check_name(name)?;
        for (key, value) in &change.settings {
            check_setting(key, value, check_index)?;
        }
        let tokens = self.read();
        let is_known = tokens.iter().any(|token| token.name == *name);
        match (change.is_new, is_known) {
            (true, true) => return Err(TokenError::Exists { what: name.clone() }),
            (false, false) => return Err(TokenError::Unknown { name: name.clone() }),
            _ => {}
        }
        if change.is_new && tokens.len() >= TOKENS_MAX {
            return Err(TokenError::Invalid(format!("a node can have at most {TOKENS_MAX} tokens; remove one first")));
        }
        let mut settings = change.settings.clone();
        // Answers show `default` for a token without an index, and clients send this word back, so it is replaced by an
        // empty index.
        settings.iter_mut().filter(|(key, value)| key == "index" && value == "default").for_each(|(_, value)| {
            value.clear();
        });
        settings.retain(|(key, value)| !(key == "token" && value.is_empty()));
        if change.is_new && !settings.iter().any(|(key, _)| key == "token") {
            settings.insert(0, ("token".to_owned(), new_token()));
        }
        let shown = settings.iter().find(|(key, _)| key == "token").map(|(_, value)| value);
        let is_taken = |token: &HttpToken| {
            token.name != *name && shown.is_some_and(|shown| shown.eq_ignore_ascii_case(&token.token))
        };
        if tokens.iter().any(is_taken) {
            return Err(TokenError::Exists { what: "with this value".to_owned() });
        }
        let text = with_settings(&self.read_text()?, &stanza_name(name), &settings);
        self.replace(&text)?;
        let made = self.apply_tokens().into_iter().find(|token| token.name == *name);
        made.map(to_collector_token)
            .ok_or_else(|| TokenError::Failed(format!("{FILE} was written and has no token {name}")))
    }

    /// Removes a token.
    pub fn remove(&self, name: &str) -> Result<(), TokenError> {
        let _alone = node_files::lock_files();
        if !self.read().iter().any(|token| token.name == name) {
            return Err(TokenError::Unknown { name: name.to_owned() });
        }
        let old = self.read_text()?;
        let new = without_stanza(&old, &stanza_name(name));
        if new == old {
            let text = format!(
                "the token {name} is not defined in {FILE} but in another file: remove it there, or disable it"
            );
            return Err(TokenError::Invalid(text));
        }
        self.replace(&new)?;
        if self.apply_tokens().iter().any(|token| token.name == name) {
            let text =
                format!("the token {name} is also defined in a file other than {FILE}: remove it there, or disable it");
            return Err(TokenError::Invalid(text));
        }
        Ok(())
    }

    fn read(&self) -> Vec<HttpToken> {
        HttpInputSettings::new(&quarry_apps::read_configuration(&self.data_dir)).tokens
    }

    fn apply_tokens(&self) -> Vec<HttpToken> {
        let tokens = self.read();
        // Without a collector, the answer says that the change takes effect later.
        if let Some(collector) = self.collector.get() {
            collector.set_tokens(tokens.clone());
        }
        tokens
    }

    fn read_text(&self) -> Result<String, TokenError> {
        let path = self.data_dir.join(FILE);
        let cannot = |reason: &dyn std::fmt::Display| TokenError::Failed(format!("{FILE}: {reason}"));
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
            Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
                return Err(cannot(&format!("larger than {FILE_BYTES_MAX} bytes, not changed")));
            }
            _ => {}
        }
        std::fs::read_to_string(&path).map_err(|error| cannot(&error))
    }

    fn replace(&self, text: &str) -> Result<(), TokenError> {
        let folder = format!("{}/", self.data_dir.display());
        let failed = |error: Fault| TokenError::Failed(error.to_string().replace(&folder, ""));
        private_file::write(&self.data_dir.join(FILE), text).map_err(failed)
    }
}

fn stanza_name(name: &str) -> String {
    format!("http://{name}")
}

fn to_collector_token(token: HttpToken) -> CollectorToken {
    CollectorToken {
        name: token.name,
        token: token.token,
        description: token.description,
        disabled: token.disabled,
        index: token.index,
        indexes: token.indexes,
        host: token.host,
        source: token.source,
        sourcetype: token.sourcetype,
        use_ack: token.use_ack,
    }
}

/// A random GUID.
pub(crate) fn new_token() -> String {
    let mut bytes = [0; 16];
    random::fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    format!("{a}-{b}-{c}-{d}-{e}")
}

fn check_name(name: &str) -> Result<(), TokenError> {
    let is_good = |letter: char| !letter.is_control() && !matches!(letter, '[' | ']' | '/' | '\\');
    if name.is_empty() || name == "http" || name.len() > NAME_BYTES_MAX || !name.chars().all(is_good) {
        let text = "a name must have 1 to 256 bytes, must not contain control characters or any of \
                    [ ] / \\, and must not be the word http";
        return Err(TokenError::Invalid(format!("name={name:?}: {text}")));
    }
    if name.trim() != name {
        return Err(TokenError::Invalid(format!("name={name:?}: it must not begin or end with a blank")));
    }
    Ok(())
}

fn check_setting(key: &str, value: &str, check_index: &dyn Fn(&str) -> Result<(), Fault>) -> Result<(), TokenError> {
    let bad = |reason: &str| Err(TokenError::Invalid(format!("{key}={value:?}: {reason}")));
    if !SETTINGS.contains(&key) {
        return bad(&format!("a token has no such setting; its settings: {}", SETTINGS.join(", ")));
    }
    if value.len() > VALUE_BYTES_MAX || value.chars().any(char::is_control) || value.ends_with('\\') {
        return bad("a value must be a single line of at most 4096 bytes that does not end with a backslash");
    }
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if key == "token" && (value.len() > NAME_BYTES_MAX || !value.chars().all(is_word)) {
        return bad("a token must consist of at most 256 letters, digits and hyphens, as a GUID does");
    }
    if BOOLEAN_SETTINGS.contains(&key) && !matches!(value.to_ascii_lowercase().as_str(), "0" | "1" | "true" | "false") {
        return bad("give 0 or 1");
    }
    if key == "connection_host" && !matches!(value, "ip" | "dns" | "proxied_ip" | "none") {
        return bad("give ip, dns, proxied_ip or none");
    }
    if matches!(key, "index" | "indexes") {
        let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
        for name in names.filter(|name| *name != "default") {
            if let Err(reason) = check_index(name) {
                return bad(&reason.to_string());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use quarry_stdx::Fault;

    use crate::node::{TokenChange, TokenError};

    use super::CollectorTokens;

    fn settings(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn tokens_are_stored_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = CollectorTokens::new(folder.path());
        let write = |name: &str, is_new: bool, of: &[(&str, &str)]| {
            tokens.write(&TokenChange { name: name.to_owned(), is_new, settings: settings(of) }, &|index| {
                if index == "closed" { Err(Fault::invalid("it is closed")) } else { Ok(()) }
            })
        };
        let made = write("apps", true, &[("index", "web"), ("indexes", "web, os"), ("useACK", "1")]).unwrap();
        assert_eq!((made.token.len(), made.use_ack, made.indexes.len()), (36, true, 2));
        let off = write("apps", false, &[("disabled", "1")]).unwrap();
        assert_eq!((off.disabled, &off.token, off.index.as_deref()), (true, &made.token, Some("web")));
        assert_eq!(tokens.list(), [off]);
        assert!(matches!(write("apps", true, &[]), Err(TokenError::Exists { .. })));
        assert!(matches!(write("other", false, &[]), Err(TokenError::Unknown { .. })));
        assert!(matches!(
            write("other", true, &[("token", &made.token.to_uppercase())]),
            Err(TokenError::Exists { .. })
        ));
        for (name, key, value) in [
            ("a]b", "host", "h"),
            ("http", "host", "h"),
            ("other", "host", "h\n[http]"),
            ("other", "host", "h\\"),
            ("other", "index", "closed"),
            ("other", "useACK", "perhaps"),
            ("other", "colour", "red"),
        ] {
            assert!(matches!(write(name, true, &[(key, value)]), Err(TokenError::Invalid(_))), "{name} {key} {value}");
        }
        assert_eq!(tokens.list().len(), 1);
        tokens.remove("apps").unwrap();
        assert_eq!(tokens.list(), []);
        assert!(matches!(tokens.remove("apps"), Err(TokenError::Unknown { .. })));
    }

    #[test]
    fn tokens_of_other_files_can_only_be_disabled() {
        let folder = tempfile::tempdir().unwrap();
        let local = folder.path().join("etc/apps/splunk_httpinput/local");
        std::fs::create_dir_all(&local).unwrap();
        std::fs::write(local.join("inputs.conf"), "[http://a]\ntoken = 11\n").unwrap();
        let tokens = CollectorTokens::new(folder.path());
        assert!(matches!(tokens.remove("a"), Err(TokenError::Invalid(_))));
        let change = TokenChange { name: "a".to_owned(), is_new: false, settings: settings(&[("disabled", "1")]) };
        assert!(tokens.write(&change, &|_| Ok(())).unwrap().disabled);
        assert_eq!(tokens.list().len(), 1);
    }
}
