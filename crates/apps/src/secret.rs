//! Encrypts secrets of apps, such as passwords, in conf files with a key of the data directory.
//!
//! The cipher is AES-256-GCM with a random nonce per text. The encrypted form is `$q1$` followed by the hexadecimal
//! nonce, ciphertext and tag. The key is a file readable only by the node's account, created on first use. Not here:
//! who may see decrypted secrets.

use std::path::{Path, PathBuf};

use quarry_stdx::{Fault, hex, private_file, random};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// File with the key, relative to the data directory.
const FILE: &str = "etc/auth/quarry.secret";
/// Prefix of an encrypted text.
const ENCRYPTED_PREFIX: &str = "$q1$";
/// Key size of AES-256.
const KEY_BYTES: usize = 32;

/// The key of a data directory.
pub struct Secret {
    key: LessSafeKey,
    path: PathBuf,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Secret").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Secret {
    /// The key of a data directory, created if missing.
    pub fn of_data_dir(data_dir: &Path) -> Result<Secret, Fault> {
        let path = data_dir.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let mut bytes = [0; KEY_BYTES];
                random::fill(&mut bytes);
                let text = hex::encode(&bytes);
                private_file::write(&path, &text)?;
                text
            }
            Err(error) => return Err(Fault::io(path.display(), error)),
        };
        let wrong = || Fault::corrupt(format!("{}: not a key of {KEY_BYTES} bytes in hexadecimal", path.display()));
        let bytes = hex::decode(text.trim()).filter(|bytes| bytes.len() == KEY_BYTES).ok_or_else(wrong)?;
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| wrong())?;
        Ok(Secret { key: LessSafeKey::new(key), path })
    }

    /// Encrypts a text.
    pub fn encrypt(&self, text: &str) -> Result<String, Fault> {
        let mut nonce = [0; NONCE_LEN];
        random::fill(&mut nonce);
        let mut sealed = text.as_bytes().to_vec();
        let failed = |_| Fault::bug("encryption failed");
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut sealed)
            .map_err(failed)?;
        Ok(format!("{ENCRYPTED_PREFIX}{}{}", hex::encode(&nonce), hex::encode(&sealed)))
    }

    /// Decrypts a text; a text without the prefix was written by hand and is returned unchanged.
    pub fn decrypt(&self, sealed: &str) -> Result<String, Fault> {
        let Some(hidden) = sealed.strip_prefix(ENCRYPTED_PREFIX) else { return Ok(sealed.to_owned()) };
        let wrong = || Fault::corrupt(format!("it was not encrypted with the key in {}", self.path.display()));
        let bytes = hex::decode(hidden).ok_or_else(wrong)?;
        let (nonce, text) = bytes.split_at_checked(NONCE_LEN).ok_or_else(wrong)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| wrong())?;
        let mut text = text.to_vec();
        let opened = self.key.open_in_place(nonce, Aad::empty(), &mut text).map_err(|_| wrong())?;
        String::from_utf8(opened.to_vec()).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn texts_are_decrypted_only_with_the_same_key() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = Secret::of_data_dir(folder.path()).unwrap();
        for text in ["", "changed!", "zwei Wörter\nund \\ mehr"] {
            let sealed = secret.encrypt(text).unwrap();
            assert!(sealed.starts_with(ENCRYPTED_PREFIX) && (text.is_empty() || !sealed.contains(text)));
            assert_ne!(sealed, secret.encrypt(text).unwrap());
            assert_eq!(Secret::of_data_dir(folder.path()).unwrap().decrypt(&sealed).unwrap(), text);
            assert!(Secret::of_data_dir(other.path()).unwrap().decrypt(&sealed).is_err());
            for cut in [sealed.len() - 2, ENCRYPTED_PREFIX.len() + 4, ENCRYPTED_PREFIX.len()] {
                assert!(secret.decrypt(&sealed[..cut]).is_err());
            }
        }
        assert_eq!(secret.decrypt("by hand").unwrap(), "by hand");
        let mode = std::fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(folder.path().join(FILE), "zz").unwrap();
        assert!(Secret::of_data_dir(folder.path()).is_err());
    }
}
