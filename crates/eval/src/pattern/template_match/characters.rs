//! Steps of an automaton over the bytes of values that consist of whole UTF-8 characters.
//!
//! The traits of a column only say which bytes occur. An automaton of characters fails on most sequences of these
//! bytes, so that a value beyond ASCII would never be known to match `[^"]*`. The *phase* within a character restricts
//! the bytes that may follow to those of well-formed UTF-8 (The Unicode Standard, table 3-7).
//!
//! Not here: literals, which are known bytes.

use quarry_event::template::ByteSet;

/// Position within a character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    /// Between characters.
    #[default]
    Boundary,
    /// Before the last byte of a character; the next two phases are before its last two bytes and its last three.
    One,
    Two,
    Three,
    /// After a first byte that restricts the second one.
    AfterE0,
    AfterEd,
    AfterF0,
    AfterF4,
}

impl Phase {
    /// The ranges of bytes that may follow, each with the phase after them.
    fn successors(self) -> &'static [(u8, u8, Phase)] {
        match self {
            Phase::Boundary => &[
                (0x00, 0x7f, Phase::Boundary),
                (0xc2, 0xdf, Phase::One),
                (0xe0, 0xe0, Phase::AfterE0),
                (0xe1, 0xec, Phase::Two),
                (0xed, 0xed, Phase::AfterEd),
                (0xee, 0xef, Phase::Two),
                (0xf0, 0xf0, Phase::AfterF0),
                (0xf1, 0xf3, Phase::Three),
                (0xf4, 0xf4, Phase::AfterF4),
            ],
            Phase::One => &[(0x80, 0xbf, Phase::Boundary)],
            Phase::Two => &[(0x80, 0xbf, Phase::One)],
            Phase::Three => &[(0x80, 0xbf, Phase::Two)],
            Phase::AfterE0 => &[(0xa0, 0xbf, Phase::One)],
            Phase::AfterEd => &[(0x80, 0x9f, Phase::One)],
            Phase::AfterF0 => &[(0x90, 0xbf, Phase::Two)],
            Phase::AfterF4 => &[(0x80, 0x8f, Phase::Two)],
        }
    }
}

/// One byte of each class of the automaton that a value may contain, by phase, each with the phase after it.
#[derive(Clone, Debug, Default)]
pub(super) struct ByteSteps {
    by_phase: [Vec<(u8, Phase)>; 8],
}

impl ByteSteps {
    /// The steps over bytes of this set; `classes` returns one byte of each class of a set.
    pub(super) fn new(bytes: ByteSet, classes: impl Fn(ByteSet) -> Vec<u8>) -> ByteSteps {
        const PHASES: [Phase; 8] = [
            Phase::Boundary,
            Phase::One,
            Phase::Two,
            Phase::Three,
            Phase::AfterE0,
            Phase::AfterEd,
            Phase::AfterF0,
            Phase::AfterF4,
        ];
        let [low, high, ..] = bytes.words();
        let is_ascii = ByteSet::from_words([low, high, 0, 0]) == bytes;
        let mut steps = ByteSteps::default();
        for phase in PHASES.into_iter().take(if is_ascii { 1 } else { PHASES.len() }) {
            for (first, last, next) in phase.successors() {
                let mut range = ByteSet::EMPTY;
                (*first..=*last).filter(|byte| bytes.contains(*byte)).for_each(|byte| range.insert(byte));
                steps.by_phase[phase as usize].extend(classes(range).into_iter().map(|byte| (byte, *next)));
            }
        }
        steps
    }

    /// The bytes that may follow in this phase.
    pub(super) fn of(&self, phase: Phase) -> &[(u8, Phase)] {
        &self.by_phase[phase as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_accept_exactly_the_characters() {
        let accepts = |bytes: &[u8]| {
            let step = |phase: Phase, byte: &u8| {
                let successors = phase.successors().iter();
                successors.clone().find(|(first, last, _)| (first..=last).contains(&byte)).map(|(.., next)| *next)
            };
            bytes.iter().try_fold(Phase::Boundary, step) == Some(Phase::Boundary)
        };
        for code in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            assert!(accepts(code.encode_utf8(&mut [0; 4]).as_bytes()), "{code:?}");
        }
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                for bytes in [&[first, second][..], &[first, second, 0x80], &[first, second, 0xbf, 0xbf]] {
                    assert_eq!(accepts(bytes), std::str::from_utf8(bytes).is_ok(), "{bytes:x?}");
                }
            }
        }
    }
}
