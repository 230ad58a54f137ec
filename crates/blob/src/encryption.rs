//! Client-side encryption: a store that encrypts objects with AES-256-GCM before it passes them to another store.
//!
//! Every object has its own random data key, which is stored with it, encrypted with a key of the volume's key file.
//! New objects use the first key of this file; the other keys only decrypt existing objects. To rotate keys, an
//! operator adds a key at the top of the file. An object is encrypted in blocks that can be read one by one:
//!
//! ```text
//! ciphertext   blocks of 16 KiB, at the offsets of the plaintext
//! tags         16 bytes for each block
//! data key     48 bytes: the key and a tag, under a key of the key file
//! nonce        12 bytes, of the data key's encryption
//! key id       32 bytes, padded with zeros
//! length       of the plaintext, 8 bytes
//! magic        "QRYENC01"
//! ```
//!
//! The nonce of a block is its number. This is safe, because a data key encrypts only one object, once. Because of
//! these nonces, reordered blocks are detected; blocks of other objects are detected because their data keys differ.
//! The encryption of the data key also authenticates the object's name, length and key id, so that renamed, exchanged
//! and truncated objects are detected.
//!
//! Not here: server-side encryption (S3), names and sizes of objects, which stay visible, and the block cache on the
//! local disk, which holds plaintext.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use quarry_bucket::{ReadAt, ReadError};
use quarry_stdx::{ErrorKind, random};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::{BlobError, BlobStore, ListedObject};

/// Size of an encrypted block; a multiple of the size of the blocks in which remote objects are cached.
const BLOCK_BYTES: u64 = 16 << 10;
const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
const ID_BYTES_MAX: usize = 32;
const MAGIC: &[u8; 8] = b"QRYENC01";
const TRAILER_BYTES: usize = KEY_BYTES + TAG_BYTES + NONCE_LEN + ID_BYTES_MAX + 8 + MAGIC.len();
/// Maximum number of keys in a key file.
const KEYS_MAX: usize = 1_000;

/// The keys of a key file.
#[derive(Clone)]
pub struct EncryptionKeys(Arc<[(String, LessSafeKey)]>);

impl fmt::Debug for EncryptionKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.0.iter().map(|(id, _)| id)).finish()
    }
}

impl EncryptionKeys {
    /// Parses a key file: one key per line, its id and 64 hexadecimal digits, with a space in between; the first is
    /// used for new objects. Empty lines and lines that begin with `#` are skipped. Messages never quote a key.
    pub fn parse(text: &str) -> Result<EncryptionKeys, BlobError> {
        let wrong = |line: usize, why: &str| BlobError::Settings { reason: format!("line {line} of its keys {why}") };
        let mut keys: Vec<(String, LessSafeKey)> = Vec::new();
        let lines = (1..).zip(text.lines().map(str::trim));
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let wrong = |why: &str| wrong(number, why);
            let (id, digits) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
            if id.len() > ID_BYTES_MAX || !id.bytes().all(is_plain) {
                return Err(wrong("needs an id of up to 32 letters, digits, '.', '_' and '-'"));
            }
            if keys.iter().any(|(known, _)| known == id) {
                return Err(wrong("repeats an id"));
            }
            let key = key_of_digits(digits.trim()).ok_or_else(|| wrong("needs 64 hexadecimal digits after the id"))?;
            keys.push((id.to_owned(), cipher(&key)?));
        }
        if keys.is_empty() || keys.len() > KEYS_MAX {
            return Err(BlobError::Settings {
                reason: format!("its key file has {} keys; 1 to {KEYS_MAX} are allowed", keys.len()),
            });
        }
        Ok(EncryptionKeys(keys.into()))
    }

    fn get(&self, id: &str) -> Option<&LessSafeKey> {
        self.0.iter().find(|(known, _)| known == id).map(|(_, key)| key)
    }
}

fn key_of_digits(digits: &str) -> Option<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if pairs.len() != KEY_BYTES || !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    for (byte, [high, low]) in key.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(key)
}

fn cipher(key: &[u8; KEY_BYTES]) -> Result<LessSafeKey, BlobError> {
    let key = UnboundKey::new(&AES_256_GCM, key);
    let key = key.map_err(|_| BlobError::Settings {
        reason: "AES-256-GCM did not accept a key of 32 bytes; please report this".to_owned(),
    })?;
    Ok(LessSafeKey::new(key))
}

/// The nonce of a block.
fn nonce_of(block: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&block.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// Additional authenticated data of an object's data key.
fn associated_data(name: &str, id: &str, len: u64) -> Vec<u8> {
    [name.as_bytes(), &[0], id.as_bytes(), &[0], &len.to_le_bytes()].concat()
}

/// A store that encrypts its objects before it passes them to an inner store.
#[derive(Debug)]
pub struct EncryptedStore {
    store: Arc<dyn BlobStore>,
    keys: EncryptionKeys,
}

impl EncryptedStore {
    /// Encrypts objects of `store`. Objects that are not encrypted cannot be read through it.
    pub fn new(store: Arc<dyn BlobStore>, keys: EncryptionKeys) -> EncryptedStore {
        EncryptedStore { store, keys }
    }

    fn encrypt(&self, name: &str, plain: &[u8]) -> Result<Vec<u8>, BlobError> {
        let failed = || BlobError::Settings { reason: format!("{name} cannot be encrypted") };
        let (id, key) = self.keys.0.first().ok_or_else(failed)?;
        let mut data_key = [0; KEY_BYTES];
        random::fill(&mut data_key);
        let mut nonce = [0; NONCE_LEN];
        random::fill(&mut nonce);
        let cipher = cipher(&data_key)?;
        let mut object = Vec::with_capacity(stored_bytes(plain.len() as u64) as usize);
        object.extend_from_slice(plain);
        let mut tags = Vec::new();
        for (number, block) in (0..).zip(object.chunks_mut(BLOCK_BYTES as usize)) {
            let tag = cipher.seal_in_place_separate_tag(nonce_of(number), Aad::empty(), block);
            tags.extend_from_slice(tag.map_err(|_| failed())?.as_ref());
        }
        object.extend_from_slice(&tags);
        let len = plain.len() as u64;
        let bound = Aad::from(associated_data(name, id, len));
        let tag = key.seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), bound, &mut data_key);
        object.extend_from_slice(&data_key);
        object.extend_from_slice(tag.map_err(|_| failed())?.as_ref());
        object.extend_from_slice(&nonce);
        let mut padded = [0; ID_BYTES_MAX];
        padded[..id.len()].copy_from_slice(id.as_bytes());
        object.extend_from_slice(&padded);
        object.extend_from_slice(&len.to_le_bytes());
        object.extend_from_slice(MAGIC);
        assert_eq!(object.len() as u64, stored_bytes(len), "an encrypted object has the size of its layout");
        Ok(object)
    }

    /// Reads the trailer and tags of an opened object.
    fn decrypted(&self, name: &str, object: Arc<dyn ReadAt>) -> Result<Arc<dyn ReadAt>, BlobError> {
        let damaged = |reason: String| BlobError::Damaged { name: name.to_owned(), reason };
        let failed = |error| BlobError::Read { name: name.to_owned(), part: "the key", error };
        let no_trailer = || {
            let reason = format!(
                "object {name} is not encrypted, but its volume is; read it through a volume without encryption, and move \
                 its index with quarry index migrate"
            );
            BlobError::Settings { reason }
        };
        let stored = object.len();
        let at = stored.checked_sub(TRAILER_BYTES as u64).ok_or_else(no_trailer)?;
        let trailer = object.read_at(at, TRAILER_BYTES).map_err(failed)?;
        let trailer = Trailer::read(&trailer).ok_or_else(no_trailer)?;
        if stored_bytes(trailer.len) != stored {
            return Err(damaged(format!("it has {stored} bytes for a plaintext of {}", trailer.len)));
        }
        let Some(key) = self.keys.get(&trailer.id) else {
            let reason = format!(
                "object {name} is encrypted with key {}, which the key file of its volume lacks; add the key to the file again",
                trailer.id
            );
            return Err(BlobError::Settings { reason });
        };
        let mut data_key = trailer.data_key;
        let bound = Aad::from(associated_data(name, &trailer.id, trailer.len));
        let opened = key.open_in_place(Nonce::assume_unique_for_key(trailer.nonce), bound, &mut data_key);
        let opened = opened.ok().and_then(|opened| <&[u8; KEY_BYTES]>::try_from(&*opened).ok());
        let no_key = || {
            damaged(format!(
                "its data key cannot be decrypted with key {}: the object was changed or renamed, or the key file has \
                 another key under this id",
                trailer.id
            ))
        };
        let cipher = cipher(opened.ok_or_else(no_key)?)?;
        let tags = object.read_at(trailer.len, (at - trailer.len) as usize).map_err(failed)?;
        Ok(Arc::new(EncryptedObject { object, cipher, tags, len: trailer.len }))
    }
}

/// Size of an encrypted object.
fn stored_bytes(len: u64) -> u64 {
    len + len.div_ceil(BLOCK_BYTES) * TAG_BYTES as u64 + TRAILER_BYTES as u64
}

struct Trailer {
    data_key: [u8; KEY_BYTES + TAG_BYTES],
    nonce: [u8; NONCE_LEN],
    id: String,
    len: u64,
}

impl Trailer {
    /// Parses a trailer; `None` if the bytes are not one.
    fn read(bytes: &[u8]) -> Option<Trailer> {
        let (data_key, rest) = bytes.split_first_chunk()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let (id, rest) = rest.split_first_chunk::<ID_BYTES_MAX>()?;
        let (len, magic) = rest.split_first_chunk()?;
        let (id, padding) = id.split_at(id.iter().position(|byte| *byte == 0).unwrap_or(ID_BYTES_MAX));
        let id = std::str::from_utf8(id).ok().filter(|_| padding.iter().all(|byte| *byte == 0))?;
        let len = u64::from_le_bytes(*len);
        // Bounded, so that computing the stored size cannot overflow.
        let is_sane = len < u64::MAX / 2;
        (magic == MAGIC && is_sane).then(|| Trailer { data_key: *data_key, nonce: *nonce, id: id.to_owned(), len })
    }
}

impl BlobStore for EncryptedStore {
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
        self.store.put(name, &self.encrypt(name, bytes)?)
    }

    fn put_all(&self, objects: &[(&str, &[u8])]) -> Result<(), BlobError> {
        let encrypted = objects.iter().map(|(name, bytes)| Ok((*name, self.encrypt(name, bytes)?)));
        let encrypted = encrypted.collect::<Result<Vec<_>, BlobError>>()?;
        let parts: Vec<(&str, &[u8])> = encrypted.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        self.store.put_all(&parts)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>, BlobError> {
        self.decrypted(name, self.store.open(name)?)
    }

    fn open_with_tail(&self, name: &str, end_bytes: u64) -> Result<Arc<dyn ReadAt>, BlobError> {
        // The end of an encrypted object also contains the tags, which are a thousandth of the object. Callers request
        // about a two-hundredth of the object, so a quarter more is enough.
        let end_bytes = end_bytes + end_bytes / 4 + TRAILER_BYTES as u64;
        self.decrypted(name, self.store.open_with_tail(name, end_bytes)?)
    }

    fn verifies_checksums(&self) -> bool {
        true
    }

    fn delete(&self, name: &str) -> Result<(), BlobError> {
        self.store.delete(name)
    }

    fn exists(&self, name: &str) -> Result<bool, BlobError> {
        self.store.exists(name)
    }

    fn delete_unfinished(&self, before_ns: i64, is_own: &dyn Fn(&str) -> bool) -> Result<u64, BlobError> {
        self.store.delete_unfinished(before_ns, is_own)
    }

    fn now_ns(&self) -> Option<i64> {
        self.store.now_ns()
    }

    fn list(&self) -> Result<Vec<String>, BlobError> {
        self.store.list()
    }

    fn list_each(&self, visit: &mut dyn FnMut(ListedObject)) -> Result<(), BlobError> {
        self.store.list_each(visit)
    }
}

/// An open object with its data key.
struct EncryptedObject {
    object: Arc<dyn ReadAt>,
    cipher: LessSafeKey,
    tags: Bytes,
    len: u64,
}

impl EncryptedObject {
    /// The whole blocks around a range.
    fn enclosing_blocks(&self, range: &Range<u64>) -> Range<u64> {
        let start = range.start / BLOCK_BYTES * BLOCK_BYTES;
        if range.is_empty() { start..start } else { start..range.end.next_multiple_of(BLOCK_BYTES).min(self.len) }
    }

    /// Decrypts whole blocks from `start` on.
    fn decrypt(&self, start: u64, encrypted: &[u8]) -> Result<Bytes, ReadError> {
        let mut plain = BytesMut::with_capacity(encrypted.len());
        let mut buffer = Vec::with_capacity(BLOCK_BYTES as usize + TAG_BYTES);
        for (number, block) in (start / BLOCK_BYTES..).zip(encrypted.chunks(BLOCK_BYTES as usize)) {
            let at = usize::try_from(number).ok().and_then(|number| number.checked_mul(TAG_BYTES));
            let tag = at.and_then(|at| self.tags.get(at..at.checked_add(TAG_BYTES)?));
            buffer.clear();
            buffer.extend_from_slice(block);
            buffer.extend_from_slice(tag.unwrap_or_default());
            let opened = self.cipher.open_in_place(nonce_of(number), Aad::empty(), &mut buffer);
            let failed = |_| ReadError::Failed {
                offset: number * BLOCK_BYTES,
                len: block.len(),
                kind: ErrorKind::Corrupt,
                reason: "it does not match its authentication tag".to_owned(),
            };
            plain.extend_from_slice(opened.map_err(failed)?);
        }
        Ok(plain.freeze())
    }
}

impl ReadAt for EncryptedObject {
    fn len(&self) -> u64 {
        self.len
    }

    fn request_count(&self) -> u64 {
        self.object.request_count()
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
        let past_end = ReadError::PastEnd { offset, len, size: self.len };
        let end = offset.checked_add(len as u64).ok_or(past_end)?;
        let mut read = self.read_ranges(std::slice::from_ref(&(offset..end)))?;
        Ok(read.pop().unwrap_or_default())
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, ReadError> {
        for range in ranges {
            if range.start > range.end || range.end > self.len {
                let len = range.end.saturating_sub(range.start) as usize;
                return Err(ReadError::PastEnd { offset: range.start, len, size: self.len });
            }
        }
        let around: Vec<Range<u64>> = ranges.iter().map(|range| self.enclosing_blocks(range)).collect();
        let encrypted = self.object.read_ranges(&around)?;
        let plain = |((range, around), encrypted): ((&Range<u64>, &Range<u64>), &Bytes)| {
            let from = (range.start - around.start) as usize;
            if range.is_empty() {
                return Ok(Bytes::new());
            }
            Ok(self.decrypt(around.start, encrypted)?.slice(from..from + (range.end - range.start) as usize))
        };
        ranges.iter().zip(&around).zip(&encrypted).map(plain).collect()
    }

    fn take_tail(&self) -> Option<(u64, Bytes)> {
        let (first, bytes) = self.object.take_tail()?;
        // The bytes may begin inside an encrypted block, because checksum blocks are smaller.
        let start = first.next_multiple_of(BLOCK_BYTES);
        let (from, to) = (start - first, self.len.checked_sub(first)?);
        if from >= to {
            return None;
        }
        let end = bytes.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)?;
        // A block that fails authentication is read again; a second failure is reported.
        Some((start, self.decrypt(start, end).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use quarry_s3world::{CONTAINER, Gateway, KEY_ID, SECRET};
    use quarry_stdx::{HasKind, SystemClock};

    use super::*;
    use crate::tests::conformance;
    use crate::{MemoryBlobStore, S3Credentials, S3Settings, S3Store};

    const OLD: &str = "2025 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const NEW: &str = "2026 f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff000102030405060708090A0B0C0D0E0F";

    fn keys(lines: &[&str]) -> EncryptionKeys {
        EncryptionKeys::parse(&lines.join("\n")).unwrap()
    }

    fn noise(size: usize) -> Vec<u8> {
        (0..size as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8).collect()
    }

    fn read_whole(store: &dyn BlobStore, name: &str) -> Bytes {
        let object = store.open(name).unwrap();
        object.read_at(0, object.len() as usize).unwrap()
    }

    #[test]
    fn encrypted_store_conforms() {
        conformance(&EncryptedStore::new(Arc::new(MemoryBlobStore::default()), keys(&[NEW])));
    }

    #[test]
    fn encrypted_s3_store_conforms_and_returns_the_tail() {
        let Some(gateway) = Gateway::start() else { return };
        let key = S3Credentials::Key { id: KEY_ID.to_owned(), secret: SECRET.to_owned(), token: None };
        let s3 = S3Store::open(S3Settings::new(CONTAINER, &[&gateway.url()], key), SystemClock::shared()).unwrap();
        let store = EncryptedStore::new(Arc::new(s3), keys(&[NEW]));
        conformance(&store);
        let plain = noise(1_000_003);
        store.put("a", &plain).unwrap();
        let object = store.open_with_tail("a", 100_000).unwrap();
        let (start, end) = object.take_tail().unwrap();
        assert!(start % BLOCK_BYTES == 0 && end.len() >= 50_000);
        assert_eq!(end, plain[start as usize..]);
        assert_eq!(object.read_at(0, plain.len()).unwrap(), plain);
        assert!(object.take_tail().is_none());
    }

    #[test]
    fn any_range_is_readable_and_no_plaintext_is_stored() {
        let memory = Arc::new(MemoryBlobStore::default());
        let store = EncryptedStore::new(memory.clone(), keys(&[NEW]));
        for size in [0, 1, 100, 16_383, 16_384, 16_385, 50_000] {
            let plain = noise(size);
            store.put("a", &plain).unwrap();
            let stored = read_whole(&*memory, "a");
            assert_eq!(stored.len() as u64, stored_bytes(size as u64));
            let looked_for = plain.get(..16.min(size)).filter(|some| some.len() == 16);
            assert!(looked_for.is_none_or(|some| !stored.windows(16).any(|window| window == some)));
            let object = store.open("a").unwrap();
            assert_eq!(object.len(), size as u64);
            for from in [0, 1, 16_000, 16_384, 40_000] {
                for to in [0, 1, 16_384, 16_385, 32_768, 50_000] {
                    if from <= to && to <= size {
                        assert_eq!(
                            object.read_at(from as u64, to - from).unwrap(),
                            plain[from..to],
                            "{from} {to} {size}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn keys_can_be_rotated_and_missing_keys_are_reported() {
        let memory = Arc::new(MemoryBlobStore::default());
        let of = |lines: &[&str]| EncryptedStore::new(memory.clone(), keys(lines));
        of(&[OLD]).put("old", b"text of last year").unwrap();
        let rotated = of(&["# newest first", NEW, "", OLD]);
        rotated.put("new", b"text").unwrap();
        assert_eq!(
            (&read_whole(&rotated, "old")[..], &read_whole(&rotated, "new")[..]),
            (&b"text of last year"[..], &b"text"[..])
        );
        let failure = |store: &EncryptedStore, name: &str| store.open(name).err().unwrap().to_string();
        assert!(
            failure(&of(&[OLD]), "new").contains("encrypted with key 2026, which the key file of its volume lacks")
        );
        memory.put("plain", &noise(500)).unwrap();
        memory.put("short", b"x").unwrap();
        for name in ["plain", "short"] {
            assert!(failure(&rotated, name).contains("is not encrypted, but its volume is"));
        }
        let other = format!("2026 {}", "ab".repeat(32));
        assert!(failure(&of(&[&other]), "new").contains("cannot be decrypted with key 2026"));
    }

    /// An object that cannot be read.
    struct Unreachable(u64);

    impl ReadAt for Unreachable {
        fn len(&self) -> u64 {
            self.0
        }

        fn read_at(&self, offset: u64, len: usize) -> Result<Bytes, ReadError> {
            Err(ReadError::Failed { offset, len, kind: ErrorKind::Unavailable, reason: "timed out".to_owned() })
        }
    }

    #[test]
    fn only_wrong_bytes_are_damage() {
        let memory = Arc::new(MemoryBlobStore::default());
        let store = EncryptedStore::new(memory.clone(), keys(&[NEW]));
        store.put("a", &noise(40_000)).unwrap();
        let unread = store.decrypted("a", Arc::new(Unreachable(50_000))).err().unwrap();
        let text = unread.clone().into_read_error(0, 0).to_string();
        assert_eq!((unread.kind(), text.matches("try again").count()), (ErrorKind::Unavailable, 1), "{text}");
        let lacking = EncryptedStore::new(memory.clone(), keys(&[OLD])).open("a").err().unwrap();
        assert_eq!(lacking.into_read_error(0, 0).kind(), ErrorKind::Invalid);
        assert_eq!(store.open("b").err().unwrap().into_read_error(0, 0).kind(), ErrorKind::Corrupt);
        let mut changed = read_whole(&*memory, "a").to_vec();
        changed[5] ^= 1;
        memory.put("a", &changed).unwrap();
        assert_eq!(store.open("a").unwrap().read_at(0, 10).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn changed_swapped_and_truncated_objects_are_detected() {
        let memory = Arc::new(MemoryBlobStore::default());
        let store = EncryptedStore::new(memory.clone(), keys(&[NEW]));
        let plain = noise(40_000);
        store.put("a", &plain).unwrap();
        store.put("b", &noise(40_000)).unwrap();
        let stored = read_whole(&*memory, "a");
        let is_noticed = |bytes: &[u8]| {
            memory.put("a", bytes).unwrap();
            store.open("a").map_or(true, |object| object.read_at(0, object.len() as usize).is_err())
        };
        for at in (0..stored.len()).step_by(997).chain(stored.len() - TRAILER_BYTES..stored.len()) {
            let mut changed = stored.to_vec();
            changed[at] ^= 4;
            assert!(is_noticed(&changed), "byte {at}");
        }
        assert!(is_noticed(&read_whole(&*memory, "b")), "the content of another object");
        assert!(is_noticed(&stored[..stored.len() - 1]) && is_noticed(&stored[1..]));
        let mut swapped = stored.to_vec();
        swapped[..16_384].copy_from_slice(&stored[16_384..32_768]);
        swapped[16_384..32_768].copy_from_slice(&stored[..16_384]);
        assert!(is_noticed(&swapped));
        memory.put("a", &stored).unwrap();
        assert_eq!(read_whole(&store, "a"), plain);
    }

    #[test]
    fn invalid_keys_are_refused_without_displaying_them() {
        let secret = "00112233445566778899aabbccddeeff00112233445566778899aabbccddee";
        for (text, why) in [
            (String::new(), "its key file has 0 keys"),
            (format!("a {secret}"), "line 1 of its keys needs 64 hexadecimal digits"),
            (format!("# x\na {secret}zz"), "line 2 of its keys needs 64 hexadecimal digits"),
            (format!("a/b {secret}ff"), "needs an id"),
            (format!("a {secret}ff\na {secret}fe"), "line 2 of its keys repeats an id"),
        ] {
            let error = EncryptionKeys::parse(&text).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("0011223344"), "{error}");
        }
        assert_eq!(format!("{:?}", keys(&[NEW, OLD])), "[\"2026\", \"2025\"]");
    }
}
