//! Hash functions; results are lower-case hexadecimal.

use std::borrow::Cow;

use md5::Digest;

use super::call::{Call, FunctionImpl, map_texts, take};
use crate::rows::Value;

pub(super) static BODIES: &[(&str, FunctionImpl)] = &[
    ("md5", hash::<md5::Md5>),
    ("sha1", hash::<sha1::Sha1>),
    ("sha256", hash::<sha2::Sha256>),
    ("sha512", hash::<sha2::Sha512>),
];

/// The hexadecimal digits.
const DIGITS: &[u8; 16] = b"0123456789abcdef";

fn hash<'a, D: Digest>(args: &mut [Value<'a>], _: &Call<'_>) -> Value<'a> {
    map_texts(take(args, 0), |text| {
        let digest = D::digest(text.as_bytes());
        let mut hex = String::with_capacity(digest.len() * 2);
        for byte in digest.iter() {
            hex.extend([byte >> 4, byte & 0xf].map(|digit| char::from(DIGITS[usize::from(digit)])));
        }
        Cow::Owned(hex)
    })
}
