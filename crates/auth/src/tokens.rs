//! Authentication tokens: JSON Web Tokens (RFC 7519), signed with a key of the data directory (HMAC-SHA-256, `HS256`).
//!
//! A token names its user and expiry. The token is accepted only if its record exists and is not disabled; the user's
//! current roles decide what the token permits. The token itself is not stored. Not here: who may create tokens
//! ([`crate::Auth`]), sessions, tokens of the HTTP Event Collector.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use quarry_stdx::{Fault, NodeFiles, hex, log, private_file};
use ring::hmac;
use serde_json::{Value, json};

use crate::AuthError;

/// Maximum number of tokens per user; a further token is refused.
pub const TOKENS_PER_USER_MAX: usize = 100;
/// Maximum number of tokens of all users; a further token is refused.
pub const TOKENS_MAX: usize = 10_000;
/// Maximum length in characters of a token's audience; a longer one is refused.
pub const AUDIENCE_CHARS_MAX: usize = 256;
/// Maximum size of a token; a larger one is refused unexamined.
const TOKEN_BYTES_MAX: usize = 4 << 10;
/// File of records, below the data directory.
const TOKENS_FILE: &str = "etc/auth/tokens.jsonl";
const KEY_FILE: &str = "etc/auth/tokens.key";
const KEY_BYTES: usize = 32;
/// The `kid` and `alg` of a token's header.
const KEY_ID: &str = "quarry.secret";
const ALGORITHM: &str = "HS256";

/// The record of a token, without its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// Id: a random number in hexadecimal.
    pub id: String,
    /// Login name of the user whose permissions the token grants.
    pub user: String,
    /// Audience: a text that states the purpose of the token.
    pub audience: String,
    /// User and node that created the token.
    pub issuer: String,
    /// Creation time; all times are in seconds since 1970.
    pub issued_s: i64,
    /// Expiry.
    pub expires_s: Option<i64>,
    /// Time before which the token is refused.
    pub not_before_s: i64,
    /// Whether the token is enabled.
    pub is_enabled: bool,
}

impl TokenRecord {
    fn is_valid(&self, now_s: i64) -> bool {
        self.is_enabled && now_s >= self.not_before_s && self.expires_s.is_none_or(|end| now_s < end)
    }

    fn line(&self) -> String {
        let TokenRecord { id, user, audience, issuer, issued_s, expires_s, not_before_s, is_enabled } = self;
        json!({
            "id": id, "user": user, "audience": audience, "issuer": issuer, "issued": issued_s, "expires": expires_s,
            "not_before": not_before_s, "enabled": is_enabled,
        })
        .to_string()
    }

    fn parse_line(line: &str) -> Option<TokenRecord> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        Some(TokenRecord {
            id: text("id")?,
            user: text("user")?,
            audience: text("audience")?,
            issuer: text("issuer")?,
            issued_s: value["issued"].as_i64()?,
            expires_s: match &value["expires"] {
                Value::Null => None,
                end => Some(end.as_i64()?),
            },
            not_before_s: value["not_before"].as_i64()?,
            is_enabled: value["enabled"].as_bool()?,
        })
    }
}

/// The token files, readable only by the owner of the data directory.
#[derive(Clone)]
pub struct TokensFile(NodeFiles);

impl TokensFile {
    /// The files of a data directory.
    pub fn of(files: &NodeFiles) -> TokensFile {
        TokensFile(files.clone())
    }

    /// Reads the tokens and their key. If the key is missing, a new key is created, which makes earlier tokens invalid.
    pub fn read_or_create(self, random: &dyn Fn(&mut [u8])) -> Result<Tokens, Fault> {
        let records = self.records()?;
        let key = self.key(random)?;
        Ok(Tokens { key, records, uses: BTreeMap::new(), store: self })
    }

    fn records(&self) -> Result<BTreeMap<String, TokenRecord>, Fault> {
        let path = self.0.data_dir().join(TOKENS_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Fault::io(format_args!("cannot read {}", path.display()), error)),
        };
        let mut records = BTreeMap::new();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match TokenRecord::parse_line(line) {
                Some(record) => drop(records.insert(record.id.clone(), record)),
                None => log::warning(format!("{}:{}: not a token record, ignored", path.display(), at + 1)),
            }
        }
        Ok(records)
    }

    fn key(&self, random: &dyn Fn(&mut [u8])) -> Result<hmac::Key, Fault> {
        let path = self.0.data_dir().join(KEY_FILE);
        let digits = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let mut key = [0; KEY_BYTES];
                random(&mut key);
                let digits = hex::encode(&key);
                private_file::write(&path, &digits)?;
                digits
            }
            Err(error) => return Err(Fault::io(format_args!("cannot read {}", path.display()), error)),
        };
        match hex::decode(digits.trim()).filter(|key| key.len() == KEY_BYTES) {
            Some(key) => Ok(hmac::Key::new(hmac::HMAC_SHA256, &key)),
            None => Err(Fault::corrupt(format!("{}: no key of 64 hexadecimal digits", path.display()))),
        }
    }

    /// Atomically replaces all records.
    fn save(&self, records: &[TokenRecord]) -> Result<(), Fault> {
        let text: String = records.iter().map(|record| record.line() + "\n").collect();
        self.0.write(&self.0.data_dir().join(TOKENS_FILE), &text)
    }

    /// The current records, including other nodes' changes; `None` if no other node shares them.
    fn current(&self) -> Result<Option<BTreeMap<String, TokenRecord>>, Fault> {
        self.0.are_shared().then(|| self.records()).transpose()
    }
}

/// The tokens of a node.
pub struct Tokens {
    key: hmac::Key,
    records: BTreeMap<String, TokenRecord>,
    /// Time and address of each token's last use since the start.
    uses: BTreeMap<String, (i64, IpAddr)>,
    store: TokensFile,
}

/// Changed records that are not effective yet; requests use the current records while the changed ones are written.
pub(crate) struct Draft {
    records: BTreeMap<String, TokenRecord>,
    store: TokensFile,
}

/// A token as shown to users: its record, and time and address of its last use.
pub type TokenInfo = (TokenRecord, Option<(i64, IpAddr)>);

impl Tokens {
    /// All tokens, by user and age.
    pub(crate) fn list(&self) -> Vec<TokenInfo> {
        let used = |record: &TokenRecord| (record.clone(), self.uses.get(&record.id).copied());
        let mut shown: Vec<TokenInfo> = self.records.values().map(used).collect();
        shown.sort_by(|(a, _), (b, _)| (&a.user, a.issued_s, &a.id).cmp(&(&b.user, b.issued_s, &b.id)));
        shown
    }

    pub(crate) fn get(&self, id: &str) -> Option<&TokenRecord> {
        self.records.get(id)
    }

    /// A copy of the records, to be changed.
    pub(crate) fn draft(&self) -> Draft {
        Draft { records: self.records.clone(), store: self.store.clone() }
    }

    /// Makes written records effective; removed tokens are refused from now on.
    pub(crate) fn commit(&mut self, draft: Draft) {
        self.records = draft.records;
        self.uses.retain(|id, _| self.records.contains_key(id));
    }

    /// Loads the records that other nodes have changed.
    pub(crate) fn reload(&mut self) -> Result<(), Fault> {
        if let Some(records) = self.store.current()? {
            self.commit(Draft { records, store: self.store.clone() });
        }
        Ok(())
    }

    /// The signed token of a record, shown once.
    pub(crate) fn sign(&self, record: &TokenRecord) -> String {
        let header = json!({ "kid": KEY_ID, "alg": ALGORITHM, "ver": "v2", "ttyp": "static" });
        let claims = json!({
            "iss": record.issuer, "sub": record.user, "aud": record.audience, "idp": "Splunk", "jti": record.id,
            "iat": record.issued_s, "exp": record.expires_s.unwrap_or(0), "nbr": record.not_before_s,
        });
        let text = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, text.as_bytes()));
        format!("{text}.{signature}")
    }

    /// The record of a token with a correct signature, if the record exists, and whether the token is currently valid.
    pub(crate) fn check(&mut self, token: &str, now_s: i64, client: IpAddr) -> Option<(&TokenRecord, bool)> {
        let (text, signature) = Some(token).filter(|token| token.len() <= TOKEN_BYTES_MAX)?.rsplit_once('.')?;
        let (_, claims) = text.split_once('.')?;
        hmac::verify(&self.key, text.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        let record = self.records.get(claims["jti"].as_str()?)?;
        let is_good = record.is_valid(now_s);
        if is_good {
            self.uses.insert(record.id.clone(), (now_s, client));
        }
        Some((record, is_good))
    }
}

impl Draft {
    /// Adds a token.
    pub(crate) fn add(&mut self, record: TokenRecord) -> Result<(), AuthError> {
        if self.records.len() >= TOKENS_MAX {
            return Err(AuthError::Invalid(format!("there are {TOKENS_MAX} tokens already: remove some first")));
        }
        if self.records.values().filter(|other| other.user == record.user).count() >= TOKENS_PER_USER_MAX {
            let user = &record.user;
            return Err(AuthError::Invalid(format!(
                "user {user} has {TOKENS_PER_USER_MAX} tokens already: remove some first"
            )));
        }
        if record.audience.is_empty() || record.audience.chars().count() > AUDIENCE_CHARS_MAX {
            return Err(AuthError::Invalid(format!(
                "audience: say what the token is for, in at most {AUDIENCE_CHARS_MAX} characters"
            )));
        }
        self.records.insert(record.id.clone(), record);
        Ok(())
    }

    /// Enables or disables a token.
    pub(crate) fn set_enabled(&mut self, id: &str, is_enabled: bool) {
        if let Some(record) = self.records.get_mut(id) {
            record.is_enabled = is_enabled;
        }
    }

    /// Removes the tokens selected by `is_gone`; returns whether any token was removed.
    pub(crate) fn remove(&mut self, is_gone: impl Fn(&TokenRecord) -> bool) -> bool {
        let before = self.records.len();
        self.records.retain(|_, record| !is_gone(record));
        self.records.len() < before
    }

    /// Writes the records. Blocks on the disk.
    pub(crate) fn persist(&self) -> Result<(), AuthError> {
        let kept: Vec<TokenRecord> = self.records.values().cloned().collect();
        self.store.save(&kept).map_err(AuthError::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn record(id: &str, user: &str) -> TokenRecord {
        let (id, user, audience, issuer) = (id.to_owned(), user.to_owned(), "ci".to_owned(), "admin from h".to_owned());
        TokenRecord {
            id,
            user,
            audience,
            issuer,
            issued_s: 100,
            expires_s: Some(200),
            not_before_s: 110,
            is_enabled: true,
        }
    }

    fn change<T>(tokens: &mut Tokens, work: impl FnOnce(&mut Draft) -> T) -> T {
        let mut draft = tokens.draft();
        let done = work(&mut draft);
        draft.persist().unwrap();
        tokens.commit(draft);
        done
    }

    fn issue(tokens: &mut Tokens, record: TokenRecord) -> Result<String, AuthError> {
        let token = tokens.sign(&record);
        change(tokens, |draft| draft.add(record)).map(|()| token)
    }

    #[test]
    fn tokens_survive_restarts_and_records_decide_validity() {
        let folder = tempfile::tempdir().unwrap();
        let open =
            || TokensFile::of(&NodeFiles::of_data_dir(folder.path())).read_or_create(&|bytes| bytes.fill(7)).unwrap();
        let mut tokens = open();
        let token = issue(&mut tokens, record("a1", "eva")).unwrap();
        assert_eq!(token.split('.').count(), 3);
        let mut tokens = open();
        let good = |tokens: &mut Tokens, now_s| {
            tokens.check(&token, now_s, CLIENT).map(|(record, good)| (record.user.clone(), good))
        };
        for (now_s, is_good) in [(109, false), (110, true), (199, true), (200, false)] {
            assert_eq!(good(&mut tokens, now_s), Some(("eva".to_owned(), is_good)), "{now_s}");
        }
        assert_eq!(tokens.list()[0].1, Some((199, CLIENT)));
        change(&mut tokens, |draft| draft.set_enabled("a1", false));
        assert_eq!(good(&mut open(), 150), Some(("eva".to_owned(), false)));
        change(&mut tokens, |draft| draft.set_enabled("a1", true));
        assert_eq!(good(&mut tokens, 150), Some(("eva".to_owned(), true)));
        change(&mut tokens, |draft| assert!(draft.remove(|record| record.user == "eva")));
        assert_eq!((good(&mut tokens, 150), good(&mut open(), 150)), (None, None));
        let kept = std::fs::read_to_string(folder.path().join(KEY_FILE)).unwrap();
        assert_eq!(kept, "07".repeat(32));
    }

    #[test]
    fn tokens_with_other_signatures_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let mut tokens =
            TokensFile::of(&NodeFiles::of_data_dir(folder.path())).read_or_create(&|bytes| bytes.fill(7)).unwrap();
        let token = issue(&mut tokens, record("a1", "eva")).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let claims = String::from_utf8(URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
        let forged = URL_SAFE_NO_PAD.encode(claims.replace("eva", "admin"));
        let none = URL_SAFE_NO_PAD.encode("{\"alg\":\"none\"}");
        let other = Tokens {
            key: hmac::Key::new(hmac::HMAC_SHA256, &[8; KEY_BYTES]),
            records: BTreeMap::new(),
            uses: BTreeMap::new(),
            store: TokensFile::of(&NodeFiles::of_data_dir(folder.path())),
        };
        for wrong in [
            format!("{}.{forged}.{}", parts[0], parts[2]),
            format!("{none}.{}.", parts[1]),
            format!("{}.{}", parts[0], parts[1]),
            format!("{token}x"),
            other.sign(&record("a1", "eva")),
            "..".to_owned(),
            "x".repeat(TOKEN_BYTES_MAX + 1),
            String::new(),
        ] {
            assert!(tokens.check(&wrong, 150, CLIENT).is_none(), "{wrong}");
        }
        assert!(tokens.check(&token, 150, CLIENT).is_some());
        // A token with a valid signature whose record was removed.
        assert!(tokens.check(&tokens.sign(&record("b2", "eva")), 150, CLIENT).is_none());
    }

    #[test]
    fn tokens_are_bounded_in_number() {
        let folder = tempfile::tempdir().unwrap();
        let mut tokens =
            TokensFile::of(&NodeFiles::of_data_dir(folder.path())).read_or_create(&|bytes| bytes.fill(7)).unwrap();
        for number in 0..TOKENS_PER_USER_MAX {
            tokens.records.insert(number.to_string(), record(&number.to_string(), "eva"));
        }
        assert!(matches!(issue(&mut tokens, record("x", "eva")), Err(AuthError::Invalid(_))));
        assert!(issue(&mut tokens, record("x", "tom")).is_ok());
        let long = TokenRecord { audience: "x".repeat(AUDIENCE_CHARS_MAX + 1), ..record("y", "tom") };
        assert!(matches!(issue(&mut tokens, long), Err(AuthError::Invalid(_))));
    }
}
