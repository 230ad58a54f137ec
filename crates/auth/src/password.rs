//! Password hashes: argon2id in PHC text form.

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};

use crate::{AuthError, UserRecord};

/// Hash of a password for a user record; `salt` must be 16 unpredictable bytes.
pub fn hash_password(password: &str, salt: &[u8; 16]) -> Result<String, AuthError> {
    let bad =
        |reason: argon2::password_hash::Error| AuthError::BadRecord { user: String::new(), reason: reason.to_string() };
    let salt = SaltString::encode_b64(salt).map_err(bad)?;
    let hash = Argon2::default().hash_password(password.as_bytes(), &salt).map_err(bad)?;
    Ok(hash.to_string())
}

/// Whether `password` is the user's.
pub(crate) fn verify(record: &UserRecord, password: &str) -> Result<bool, AuthError> {
    let hash = PasswordHash::new(&record.password_hash)
        .map_err(|reason| AuthError::BadRecord { user: record.name.clone(), reason: reason.to_string() })?;
    Ok(Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}
