use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;

/// A slot's values and what is known of them.
fn traits(values: &[&str]) -> ValueTraits {
    let mut traits = ValueTraits::default();
    for (at, value) in values.iter().enumerate() {
        traits.add(value.as_bytes(), at == 0);
    }
    traits
}

/// A template written down: `<a|b>` is a slot with these values.
struct Sketch {
    template: FlatTemplate,
    /// Values of each part; a literal has one.
    values: Vec<Vec<String>>,
}

fn sketch(parts: Vec<Result<String, Vec<String>>>) -> Sketch {
    let mut joined: Vec<Result<String, Vec<String>>> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (_, Ok(text)) if text.is_empty() => {}
            (Some(Ok(last)), Ok(text)) => last.push_str(&text),
            (_, part) => joined.push(part),
        }
    }
    let flat = joined.iter().zip(1..).map(|(part, column)| match part {
        Ok(text) => FlatPart::Literal(text.as_bytes().into()),
        Err(values) => FlatPart::Slot(column, traits(&values.iter().map(String::as_str).collect::<Vec<_>>())),
    });
    let template = FlatTemplate::new(flat);
    let values = joined.into_iter().map(|part| part.map_or_else(|values| values, |text| vec![text])).collect();
    Sketch { template, values }
}

fn written(text: &str) -> Sketch {
    let mut parts = Vec::new();
    for piece in text.split('<') {
        match piece.split_once('>') {
            Some((values, rest)) => {
                parts.push(Err(values.split('|').map(str::to_owned).collect()));
                parts.push(Ok(rest.to_owned()));
            }
            None => parts.push(Ok(piece.to_owned())),
        }
    }
    sketch(parts)
}

fn planned(pattern: &str, text: &str) -> MatchPlan {
    let regex = Regex::new(pattern).unwrap();
    Planner::new(&regex).unwrap().plan(&written(text).template)
}

fn windows(pattern: &str, text: &str) -> Vec<Window> {
    match planned(pattern, text) {
        MatchPlan::Windows(windows) => windows,
        other => panic!("{pattern} over {text}: {other:?}"),
    }
}

/// What the plan says of the text with these values, places as bytes of the whole text.
fn answer(regex: &Regex, windows: &[Window], sketch: &Sketch, values: &[&str]) -> Option<Vec<Option<(usize, usize)>>> {
    let byte = |place: Place| values[..place.part].iter().map(|value| value.len()).sum::<usize>() + place.offset;
    let (mut text, mut captures) = (String::new(), regex.new_captures());
    for window in windows {
        let chosen = window.slots.iter().map(|part| values[*part]);
        let outcome = window.evaluate(&sketch.template, regex, chosen, &mut text, &mut captures);
        if let Some(groups) = &window.groups {
            assert!(matches!(outcome, Outcome::Match(_)), "{window:?}");
            return Some(groups.iter().map(|group| group.map(|(start, end)| (byte(start), byte(end)))).collect());
        }
        let from = byte(window.context);
        match outcome {
            Outcome::NoMatch => assert!(!window.certain, "{window:?}"),
            Outcome::Match(groups) => {
                let place = |(start, end): (u32, u32)| (from + start as usize, from + end as usize);
                return Some(groups.into_iter().map(|group| group.map(place)).collect());
            }
        }
    }
    None
}

/// Compares the plan with the expression itself on every text, up to a number of them; says whether it was known.
fn check(regex: &Regex, planner: &mut Planner, sketch: &Sketch) -> bool {
    const TEXTS_MAX: usize = 60;
    let windows = match planner.plan(&sketch.template) {
        MatchPlan::Unknown => return false,
        MatchPlan::Never => Vec::new(),
        MatchPlan::Windows(windows) => windows,
    };
    let total: usize = sketch.values.iter().map(Vec::len).product();
    for number in 0..total.min(TEXTS_MAX) {
        let mut rest = number;
        let choose = |values: &Vec<String>| {
            let value = rest % values.len();
            rest /= values.len();
            value
        };
        let chosen: Vec<usize> = sketch.values.iter().map(choose).collect();
        let values: Vec<&str> = sketch.values.iter().zip(chosen).map(|(values, at)| values[at].as_str()).collect();
        let text = values.concat();
        let mut captures = regex.new_captures();
        let wanted = regex
            .captures_into(&text, &mut captures)
            .then(|| (0..regex.group_count()).map(|group| captures.get(group)).collect::<Vec<_>>());
        let found = answer(regex, &windows, sketch, &values);
        assert_eq!(found, wanted, "{regex:?} on {text:?} of {:?}: {windows:?}", sketch.template);
    }
    true
}

const PATTERNS: &[&str] = &[
    r"ab-(?<n>\d+) ",
    r"ab-(?<n>\d+)",
    r"(?<n>\d+)",
    r"(?<n>\d)(\d)?",
    r"^(?<n>[ab]+) ",
    r"^a(b)?",
    r"(?<v>a+)b",
    r"(?<v>[a-z]*)ba",
    r"b(?<v>.*)a",
    r"b(?<v>.*?)a",
    r"\b(?<v>\d+)\b",
    r"\ba",
    r"a\b",
    r"a(?:\b|(b))",
    r"ab?\b",
    r"1$",
    r"^1",
    r"(?m)^a",
    r"(?i)AB(1|-)",
    r"a|ab|(1) ",
    r"(a|ab)(1|b1)",
    r"(?:(a)|(b)|(1))+ ",
    r"[^a]+a",
    r"é(?<v>.)",
    r"(?<v>[^ ]+) (?<w>[^ ]+)",
    r"-(?<v>[^-]*)-",
    r"a.a",
    r"(?s)b.(?<v>..)",
    r"1(?<v>[ab]{2,3})",
    r"\.(?<v>\w+)$",
    r" (?<v>\S+) ",
];

fn piece(longest: usize) -> impl Strategy<Value = String> {
    let characters = prop::sample::select(vec!["a", "b", "1", "2", " ", "-", ".", "é", "\n", "ab-", "ab", "1 "]);
    prop::collection::vec(characters, 0..longest).prop_map(|pieces| pieces.concat())
}

/// Values of one kind, as the shaper makes them, or any.
fn slot() -> impl Strategy<Value = Vec<String>> {
    let digits = prop::collection::vec("[12]{1,3}", 1..4);
    let letters = prop::collection::vec("[ab]{2}", 1..4);
    let any = prop::collection::vec(piece(4), 1..4);
    prop_oneof![digits, letters, any]
}

fn sketches() -> impl Strategy<Value = Sketch> {
    let part = prop_oneof![piece(5).prop_map(Ok), slot().prop_map(Err)];
    prop::collection::vec(part, 0..6).prop_map(sketch)
}

impl std::fmt::Debug for Sketch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:?}", self.values)
    }
}

#[test]
fn a_plan_answers_as_the_whole_text_does() {
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    let compiled = PATTERNS.iter().map(|pattern| {
        let regex = Regex::new(pattern).unwrap();
        let planner = Planner::new(&regex).unwrap();
        (regex, RefCell::new(planner))
    });
    let compiled: Vec<_> = compiled.collect();
    let answers = |sketch| {
        for (regex, planner) in &compiled {
            prop_assert!(check(regex, &mut planner.borrow_mut(), &sketch), "{:?} is not known", regex);
        }
        Ok(())
    };
    TestRunner::new(config).run(&sketches(), answers).unwrap();
}

#[test]
fn one_planner_serves_many_templates() {
    let texts = ["x ab-<1|22> y", "<ab|cd>-<1|x>", "ab-1 <a>", "", "<|a>b-2 ", "é<1|é>ab-<3> "];
    for pattern in PATTERNS {
        let regex = Regex::new(pattern).unwrap();
        let mut planner = Planner::new(&regex).unwrap();
        assert!(texts.iter().all(|text| check(&regex, &mut planner, &written(text))), "{pattern}");
    }
}

#[test]
fn only_the_slots_a_match_reads_are_asked() {
    let shard = r"on shard-(?<shard>\d+) ";
    let found = windows(shard, "id <a1|b2> put <12|99>ms on shard-<1|22> for <ann|bob eve>");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].slots, [5]);
    assert!(found[0].certain);
    let groups = found[0].groups.as_ref().unwrap();
    assert_eq!(groups[1], Some((Place { part: 5, offset: 0 }, Place { part: 6, offset: 0 })));
    // The slot may hold other than digits: its values are asked, and nothing behind it.
    let found = windows(shard, "id <a1|b2> on shard-<1|x> for <ann|bob>");
    assert_eq!(found[0].slots, [3]);
    assert!(!found[0].certain && found[0].groups.is_none());
    // The byte behind a settled match is not needed, although it is a slot.
    let found = windows(shard, "on shard-<1|x> <ann|bob>");
    assert_eq!(found[0].slots, [1]);
}

#[test]
fn templates_without_a_match_are_left_out() {
    let shard = r"on shard-(?<shard>\d+) ";
    for text in ["", "nothing here", "took <1|20>ms for <10.0.0.1|::1>", "on shard-<a|b> ", "on shard-<1|2>"] {
        assert_eq!(planned(shard, text), MatchPlan::Never, "{text}");
    }
}

#[test]
fn a_slot_that_could_hold_the_start_is_asked_first() {
    let found = windows(r"on shard-(?<shard>\d+) ", "<on shard-9 x|free text> on shard-<1|2> ");
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].slots[0], 0);
    assert_eq!(found[1].slots, [2]);
    assert!(found[1].groups.is_some());
}

#[test]
fn expressions_that_cannot_be_planned_are_told() {
    for pattern in [r"a(?=b)", r"(a)\1", r"\d*", r"x?", r"^"] {
        assert!(Planner::new(&Regex::new(pattern).unwrap()).is_none(), "{pattern}");
    }
}
