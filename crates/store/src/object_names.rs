//! Names of a bucket's objects in the data directory.

/// Maximum length of the folder, the part of an object's name that is derived from the index; the rest of the index's
/// name is omitted.
const FOLDER_BYTES_MAX: usize = 64;

/// Name of a bucket's objects without extension.
pub(crate) fn object_stem(index: &str, number: u64) -> String {
    format!("{}/{number:010}", object_folder(index))
}

/// A folder name valid in every blob store. The bucket number makes names unique; the folder is for humans.
pub(crate) fn object_folder(index: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    index.bytes().take(FOLDER_BYTES_MAX).map(|byte| if plain(byte) { char::from(byte) } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_a_folder_name() {
        for (index, folder) in [("main", "main"), ("_internal", "_internal"), ("../x", "___x"), ("a b", "a_b")] {
            assert_eq!(object_folder(index), folder);
        }
        assert_eq!(object_folder(&"x".repeat(300)).len(), FOLDER_BYTES_MAX);
    }
}
