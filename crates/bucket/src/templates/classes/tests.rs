use proptest::prelude::*;

use super::*;

/// Texts of bytes that the rules treat differently, mixed with arbitrary bytes.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let close = prop::sample::select(b"aZ09_-./:@+#%, =\"&;|\\\t\x7f\x80\xb0\xb9\xff".to_vec());
    prop::collection::vec(prop_oneof![4 => close, 1 => any::<u8>()], 0..40)
}

#[test]
fn every_byte_is_marked_as_its_class_says() {
    let mut marks = ByteMarks::default();
    for byte in 0..=u8::MAX {
        // As the first and as the last of 17 bytes, so that it is marked in a wide register and by itself.
        for at in [0, 16] {
            let mut text = [b'a'; 17];
            text[at] = byte;
            marks.compute(&text);
            assert_eq!(marks.chunk_end(at) == at, BYTE_CLASSES[usize::from(byte)] & DELIMITER != 0, "{byte}");
            assert_eq!(marks.has_digit(at, at + 1), byte.is_ascii_digit(), "{byte}");
        }
    }
}

proptest! {
    #[test]
    fn marks_and_classes_end_chunks_at_the_same_byte(text in texts()) {
        let mut marks = ByteMarks::default();
        // Earlier marks are cleared.
        marks.compute(b"some longer text, which had 2 numbers: 17");
        marks.compute(&text);
        for at in 0..=text.len() {
            prop_assert_eq!(marks.chunk_end(at), run_end(&text, at, DELIMITER));
            prop_assert_eq!(marks.chunk_end(at), run_end_bytewise(&text, at, DELIMITER));
            prop_assert_eq!(word_run_end(&text, at), run_end_bytewise(&text, at, BREAKER));
        }
    }

    #[test]
    fn the_first_quote_or_escape_is_found(text in texts(), before in 0_usize..50) {
        let text = [&vec![b'a'; before][..], &text].concat();
        for at in 0..=text.len() + 1 {
            let expected = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)).map(|len| at + len);
            prop_assert_eq!(quote_or_escape(&text, at), expected);
        }
    }

    #[test]
    fn digits_are_found_in_any_range(text in texts()) {
        let mut marks = ByteMarks::default();
        marks.compute(&text);
        for start in 0..=text.len() {
            for end in start..=text.len() {
                let expected = text[start..end].iter().any(u8::is_ascii_digit);
                prop_assert_eq!(has_digit(&text, start, end), expected);
                prop_assert_eq!(marks.has_digit(start, end), expected);
            }
        }
    }

    #[test]
    fn texts_equal_compares_bytes(text in texts(), place in any::<prop::sample::Index>(), bit in 0u32..8) {
        prop_assert!(texts_equal(&text, &text));
        if !text.is_empty() {
            let mut other = text.clone();
            other[place.index(text.len())] ^= 1u8 << bit;
            prop_assert!(!texts_equal(&text, &other));
            prop_assert!(!texts_equal(&text, &text[1..]));
        }
    }
}
