//! The 64-bit hash of a term. Term filters store hashes, so the function is part of the format.
//!
//! A term is read as big-endian words of eight bytes, padded with zeroes to pairs of words. Nearly all terms fit in one
//! pair, which the term table stores in place of the bytes. Hashing a pair takes three multiplications.

use quarry_stdx::number::{low_u32, low_u64};

use crate::term_dictionary::Namespace;

const FIRST_KEY: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND_KEY: u64 = 0xd6e8_feb8_6659_fd93;
const LENGTH_KEY: u64 = 0xa076_1d64_78bd_642f;
const FINAL_KEY: u64 = 0xe703_7ed1_a0b4_28db;

/// Number of bytes of a pair of words.
pub(crate) const PAIR_BYTES: usize = 16;

/// The 128-bit product of two words, folded to 64 bits.
#[inline(always)]
fn fold_multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    low_u64(product) ^ low_u64(product >> 64)
}

#[inline(always)]
fn initial_hash(namespace: Namespace, len: usize) -> u64 {
    (namespace.code() << 32 | len as u64).wrapping_mul(LENGTH_KEY)
}

#[inline(always)]
fn hash_step(hash: u64, pair: [u64; 2]) -> u64 {
    fold_multiply(pair[0] ^ FIRST_KEY ^ hash, pair[1] ^ SECOND_KEY)
}

/// Hash of a term of at most sixteen bytes, given as its pair of words.
#[inline(always)]
pub(crate) fn hash_pair(namespace: Namespace, pair: [u64; 2], len: usize) -> u64 {
    fold_multiply(hash_step(initial_hash(namespace, len), pair) ^ LENGTH_KEY, FINAL_KEY)
}

/// Hash of any term.
pub(crate) fn hash_term(namespace: Namespace, term: &[u8]) -> u64 {
    let mut hash = initial_hash(namespace, term.len());
    for chunk in term.chunks(PAIR_BYTES) {
        hash = hash_step(hash, load_pair(chunk));
    }
    if term.is_empty() {
        hash = hash_step(hash, [0, 0]);
    }
    fold_multiply(hash ^ LENGTH_KEY, FINAL_KEY)
}

/// The first sixteen bytes of `term` as two big-endian words, which order like the bytes.
#[inline(always)]
pub(crate) fn load_pair(term: &[u8]) -> [u64; 2] {
    if let Some((head, tail)) = term.split_first_chunk::<8>() {
        let first = u64::from_be_bytes(*head);
        if let Some(second) = tail.first_chunk::<8>() {
            return [first, u64::from_be_bytes(*second)];
        }
        // The last eight bytes overlap the first word; the shift drops the overlap.
        let last = term.last_chunk::<8>().map_or(0, |chunk| u64::from_be_bytes(*chunk));
        let shift = low_u32(8 * (PAIR_BYTES - term.len()));
        return [first, last.checked_shl(shift).unwrap_or(0)];
    }
    [load_short(term), 0]
}

/// A term of fewer than eight bytes as one word.
#[inline(always)]
fn load_short(term: &[u8]) -> u64 {
    let len = term.len();
    if let (Some(head), Some(last)) = (term.first_chunk::<4>(), term.last_chunk::<4>()) {
        let head = u64::from(u32::from_be_bytes(*head)) << 32;
        return head | u64::from(u32::from_be_bytes(*last)) << (8 * (8 - len));
    }
    // One to three bytes: first, middle and last cover all of them, with overlap.
    match term {
        [] => 0,
        [first, .., last] => {
            let middle = u64::from(term[len / 2]) << (56 - 8 * (len / 2));
            u64::from(*first) << 56 | middle | u64::from(*last) << (64 - 8 * len)
        }
        [only] => u64::from(*only) << 56,
    }
}
