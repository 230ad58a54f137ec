//! Spellings of a text that is matched regardless of case.
//!
//! The cases of an ASCII letter are single bytes, so that a byte-wise search can fold them. The cases of other letters
//! are different byte sequences, perhaps of different lengths (`å`, `Å`, and the ångström sign). A search for such a
//! text is a search for each of its spellings in which only ASCII letters are folded. A text with many letters beyond
//! ASCII has too many spellings and is divided into pieces.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Maximum number of spellings of a piece; a letter that would exceed it begins the next piece.
const SPELLINGS_MAX: usize = 16;
/// The second character of the lower-case form of `İ`, the only letter with a form of two characters.
const DOT_ABOVE: char = '\u{307}';

/// For each character, the other characters whose lower-case form contains it, such as `K` and the Kelvin sign for `k`.
/// Only the first two planes of Unicode have letters with cases.
static UPPER_CASE: LazyLock<HashMap<char, Vec<char>>> = LazyLock::new(|| {
    let mut upper: HashMap<char, Vec<char>> = HashMap::new();
    for c in '\0'..'\u{20000}' {
        for lower in c.to_lowercase().filter(|lower| *lower != c) {
            upper.entry(lower).or_default().push(c);
        }
    }
    upper
});

/// The other characters whose lower-case form contains `lower`.
pub(super) fn other_cases(lower: char) -> impl Iterator<Item = char> {
    UPPER_CASE.get(&lower).into_iter().flatten().copied()
}

/// The forms of a letter that are equal regardless of case, in lower case first; for `İ`, only itself.
pub fn cases_of(letter: char) -> impl Iterator<Item = char> {
    let mut lower = letter.to_lowercase();
    let lower = lower.next().filter(|_| lower.next().is_none()).unwrap_or(letter);
    std::iter::once(lower).chain(other_cases(lower).filter(|other| *other != 'İ'))
}

/// The pieces of a text with letters beyond ASCII, each with its spellings; the first spelling is in lower case.
/// Another text contains this text in any case only if it contains one spelling of each piece, with ASCII letters in
/// either case. If there is only one piece, the reverse is true as well. `None` if the text contains `İ` or the second
/// character of its lower-case form.
pub fn spellings(text: &str) -> Option<Vec<Vec<String>>> {
    let mut pieces: Vec<Vec<String>> = vec![vec![String::new()]];
    for letter in text.chars().flat_map(char::to_lowercase) {
        if letter == DOT_ABOVE {
            return None;
        }
        // ASCII letters are folded, and the lower-case form of `İ` is `i` with a second character.
        let others = other_cases(letter).filter(|other| !other.is_ascii() && *other != 'İ');
        let cases: Vec<char> = std::iter::once(letter).chain(others).collect();
        let piece = pieces.last_mut()?;
        if piece.len() * cases.len() > SPELLINGS_MAX {
            pieces.push(cases.iter().map(char::to_string).collect());
            continue;
        }
        *piece = cases.iter().flat_map(|case| piece.iter().map(move |known| format!("{known}{case}"))).collect();
    }
    assert!(pieces.iter().all(|piece| piece.len() <= SPELLINGS_MAX), "a piece has few spellings");
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::is_breaker;

    #[test]
    fn pieces_have_all_spellings_that_ascii_folding_does_not_cover() {
        assert_eq!(spellings("Büro").unwrap(), [["büro", "bÜro"]]);
        assert_eq!(spellings("→ DC").unwrap(), [["→ dc"]]);
        assert_eq!(spellings("日本").unwrap(), [["日本"]]);
        assert_eq!(spellings("ük").unwrap(), [["ük", "Ük", "ü\u{212a}", "Ü\u{212a}"]]);
        assert_eq!(spellings("i ä").unwrap(), [["i ä", "i Ä"]]);
        assert_eq!(spellings("straße").unwrap(), [["straße", "straẞe"]]);
        assert_eq!(spellings("İzmir"), None);
        let long = spellings("Ошибка").unwrap();
        assert_eq!(long.iter().map(Vec::len).collect::<Vec<_>>(), [16, 4]);
        assert_eq!((&*long[0][0], &*long[1][0]), ("ошиб", "ка"));
    }

    #[test]
    fn one_letter_alone_has_a_form_of_two_characters() {
        let several: Vec<char> = ('\0'..=char::MAX).filter(|letter| letter.to_lowercase().count() > 1).collect();
        assert_eq!(several, ['İ']);
        assert_eq!('İ'.to_lowercase().collect::<String>(), format!("i{DOT_ABOVE}"));
        let beyond = ('\u{20000}'..=char::MAX).any(|letter| !letter.to_lowercase().eq([letter]));
        assert!(!beyond, "letters beyond the second plane have no cases");
    }

    #[test]
    fn no_other_case_of_a_letter_is_a_breaker() {
        let is_alone = |letter: &char| u8::try_from(*letter).is_ok_and(|byte| byte.is_ascii() && is_breaker(byte));
        assert!(('\0'..='\u{7f}').filter(is_alone).all(|breaker| other_cases(breaker).next().is_none()));
    }
}
