//! Password hashes: argon2id in PHC text form, computed in memory supplied by the caller.

use argon2::password_hash::{Output, ParamsString, PasswordHash, Salt, SaltString};
use argon2::{ARGON2ID_IDENT, Algorithm, Argon2, Block, Params, Version};

use crate::{AuthError, UserRecord};

/// Maximum memory that a stored hash may require, in KiB. The file may be edited by hand, so hashes that require more
/// are refused.
const MEMORY_KIB_MAX: u32 = 64 << 10;
/// Maximum number of passes over its memory that a stored hash may require; hashes that require more are refused.
const PASSES_MAX: u32 = 16;
/// Length of new hashes in bytes.
const OUTPUT_BYTES: usize = 32;

/// Working memory of one computation, reused.
pub(crate) type Memory = Vec<Block>;

/// Hash of a password for a user record; `salt` must be 16 unpredictable bytes.
pub fn hash_password(password: &str, salt: &[u8; 16]) -> Result<String, AuthError> {
    hash_in(password, salt, &mut Memory::new())
}

/// Like [`hash_password`], computed in the given memory.
pub(crate) fn hash_in(password: &str, salt: &[u8; 16], memory: &mut Memory) -> Result<String, AuthError> {
    let mut output = [0; OUTPUT_BYTES];
    compute(Algorithm::Argon2id, Version::default(), Params::default(), password, salt, &mut output, memory)
        .map_err(|reason| bad_record("", reason))?;
    phc_text(salt, &output).map_err(|reason| bad_record("", reason))
}

/// A hash that matches no password and is as costly to check as a real one; used for unknown users.
pub(crate) fn unknown_user_hash(salt: &[u8; 16], output: &[u8; OUTPUT_BYTES]) -> Result<String, AuthError> {
    phc_text(salt, output).map_err(|reason| bad_record("", reason))
}

fn phc_text(salt: &[u8; 16], output: &[u8]) -> argon2::password_hash::Result<String> {
    let salt = SaltString::encode_b64(salt)?;
    let hash = PasswordHash {
        algorithm: ARGON2ID_IDENT,
        version: Some(Version::default().into()),
        params: ParamsString::try_from(&Params::default())?,
        salt: Some(salt.as_salt()),
        hash: Some(Output::new(output)?),
    };
    Ok(hash.to_string())
}

/// Whether `password` is the password of the record's user.
pub(crate) fn verify(record: &UserRecord, password: &str, memory: &mut Memory) -> Result<bool, AuthError> {
    let bad = |reason: argon2::password_hash::Error| bad_record(&record.name, reason);
    let stored = PasswordHash::new(&record.password_hash).map_err(bad)?;
    let algorithm = Algorithm::try_from(stored.algorithm).map_err(bad)?;
    let version = stored.version.map_or(Ok(Version::default()), Version::try_from);
    let version = version.map_err(|reason| bad_record(&record.name, reason))?;
    let params = Params::try_from(&stored).map_err(bad)?;
    if params.m_cost() > MEMORY_KIB_MAX || params.t_cost() > PASSES_MAX {
        let reason = format!("it asks for more than {MEMORY_KIB_MAX} KiB of memory or {PASSES_MAX} passes");
        return Err(bad_record(&record.name, reason));
    }
    let (Some(salt), Some(expected)) = (stored.salt, stored.hash) else {
        return Err(bad_record(&record.name, "it has no salt or no hash"));
    };
    let mut salt_bytes = [0; Salt::MAX_LENGTH];
    let salt = salt.decode_b64(&mut salt_bytes).map_err(bad)?;
    let mut output = vec![0; expected.len()];
    compute(algorithm, version, params, password, salt, &mut output, memory)
        .map_err(|reason| bad_record(&record.name, reason))?;
    // Constant-time comparison.
    Ok(Output::new(&output).map_err(bad)? == expected)
}

fn compute(
    algorithm: Algorithm,
    version: Version,
    params: Params,
    password: &str,
    salt: &[u8],
    output: &mut [u8],
    memory: &mut Memory,
) -> argon2::Result<()> {
    memory.resize(params.block_count().max(memory.len()), Block::new());
    Argon2::new(algorithm, version, params).hash_password_into_with_memory(password.as_bytes(), salt, output, memory)
}

fn bad_record(user: &str, reason: impl ToString) -> AuthError {
    AuthError::BadRecord { user: user.to_owned(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(password_hash: String) -> UserRecord {
        UserRecord { name: "eva".into(), password_hash, roles: vec![] }
    }

    #[test]
    fn hashes_match_one_password_and_memory_is_reused() {
        let record = record(hash_password("secret", &[7; 16]).unwrap());
        assert!(record.password_hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", record.password_hash);
        let mut memory = Memory::new();
        assert!(verify(&record, "secret", &mut memory).unwrap());
        let blocks = memory.len();
        assert!(!verify(&record, "Secret", &mut memory).unwrap());
        assert!(
            verify(&record, "secret", &mut memory).unwrap(),
            "the result does not depend on an earlier hash in the same memory"
        );
        assert_eq!(memory.len(), blocks);
    }

    #[test]
    fn excessive_or_invalid_records_are_refused() {
        let good = hash_password("secret", &[7; 16]).unwrap();
        for bad in [
            good.replace("m=19456", "m=4000000"),
            good.replace("t=2", "t=4000000"),
            good.replace("argon2id", "md5"),
            "$argon2id$v=19$m=19456,t=2,p=1".to_owned(),
            String::new(),
        ] {
            let verdict = verify(&record(bad.clone()), "secret", &mut Memory::new());
            assert!(matches!(verdict, Err(AuthError::BadRecord { .. })), "{bad}: {verdict:?}");
        }
    }
}
