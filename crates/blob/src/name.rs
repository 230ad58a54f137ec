//! Object names: relative paths that are valid on every store.

use crate::BlobError;

/// Maximum length of an object name in bytes.
pub const NAME_BYTES_MAX: usize = 512;

/// Suffix of a file that a put is still writing; no object name may end with it.
pub(crate) const UNFINISHED_SUFFIX: &str = ".unfinished";

/// Checks that a name stays inside its store and is portable.
pub(crate) fn check(name: &str) -> Result<(), BlobError> {
    let refuse = |reason| Err(BlobError::InvalidName { name: name.to_owned(), reason });
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return refuse("it must have 1 to 512 bytes");
    }
    if name.ends_with(UNFINISHED_SUFFIX) {
        return refuse("this ending marks unfinished objects");
    }
    for part in name.split('/') {
        if part.is_empty() || part == "." || part == ".." {
            return refuse("parts between slashes must be names");
        }
        if !part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
            return refuse("only letters, digits, '.', '_', '-' and '/' may occur");
        }
    }
    Ok(())
}
