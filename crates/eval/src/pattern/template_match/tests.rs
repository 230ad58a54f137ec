use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use quarry_event::template::{FormPart, ValueForm};
use quarry_stdx::number::u32_of;

use super::*;

/// The traits of a variable with these values.
fn traits(values: &[&str]) -> ValueTraits {
    let mut traits = ValueTraits::default();
    for (at, value) in values.iter().enumerate() {
        traits.add(value.as_bytes(), at == 0);
    }
    traits
}

/// A template in text form: `<a|b>` is a variable with the values `a` and `b`.
struct Sketch {
    template: FlatTemplate,
    /// Values of each part; a literal has one value.
    values: Vec<Vec<String>>,
}

impl Sketch {
    /// The same template, with variables whose traits list their values.
    fn with_value_sets(&self) -> Sketch {
        let parts = self.template.parts().iter().zip(&self.values).map(|(part, values)| match part {
            FlatPart::Literal(_) => part.clone(),
            FlatPart::Variable(column, traits) => {
                let values: BTreeSet<Box<str>> = values.iter().map(|value| value.as_str().into()).collect();
                let value_set = Some(values.into_iter().collect());
                FlatPart::Variable(*column, ValueTraits { value_set, ..traits.clone() })
            }
        });
        Sketch { template: FlatTemplate::new(parts), values: self.values.clone() }
    }

    /// The same template, with variables whose traits list the forms of their values. In a form, each word of the value
    /// may also be one of `others`.
    fn with_forms(&self, others: &[&str]) -> Sketch {
        let parts = self.template.parts().iter().zip(&self.values).map(|(part, values)| match part {
            FlatPart::Literal(_) => part.clone(),
            FlatPart::Variable(column, traits) => {
                let forms = values.iter().map(|value| form_of(value, others)).collect();
                let mut traits = ValueTraits { forms, min_len: traits.min_len.min(1), ..traits.clone() };
                traits.max_len += u32_of(others.len()) * traits.max_len;
                for other in others.iter().map(|other| other.as_bytes()) {
                    traits.bytes.insert_all(other);
                    traits.firsts.insert_all(other);
                    traits.lasts.insert_all(other);
                }
                FlatPart::Variable(*column, traits)
            }
        });
        Sketch { template: FlatTemplate::new(parts), values: self.values.clone() }
    }
}

/// The form of a value: runs of letters and digits are variables, everything else is literal.
fn form_of(value: &str, others: &[&str]) -> Option<ValueForm> {
    let mut parts: Vec<FormPart> = Vec::new();
    let mut left = value;
    while let Some(first) = left.chars().next() {
        let is_word = first.is_ascii_alphanumeric();
        let end = left.find(|letter: char| letter.is_ascii_alphanumeric() != is_word).unwrap_or(left.len());
        let (run, rest) = left.split_at(end);
        parts.push(match is_word {
            true => FormPart::Variable(traits(&[&[run], others].concat())),
            false => FormPart::Literal(run.as_bytes().into()),
        });
        left = rest;
    }
    (!parts.is_empty()).then_some(ValueForm { parts })
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
        Err(values) => FlatPart::Variable(column, traits(&values.iter().map(String::as_str).collect::<Vec<_>>())),
    });
    let template = FlatTemplate::new(flat);
    let values = joined.into_iter().map(|part| part.map_or_else(|values| values, |text| vec![text])).collect();
    Sketch { template, values }
}

fn parse_sketch(text: &str) -> Sketch {
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

fn plan_for(pattern: &str, text: &str) -> MatchPlan {
    let regex = Regex::new(pattern).unwrap();
    planner_of(&regex).plan(&parse_sketch(text).template)
}

fn windows(pattern: &str, text: &str) -> Vec<Window> {
    match plan_for(pattern, text) {
        MatchPlan::Windows(windows) => windows,
        other => panic!("{pattern} over {text}: {other:?}"),
    }
}

/// The wanted groups of the text with these values, according to the plan; all are `None` if there is no match.
fn answer(
    regex: &Regex,
    windows: &[Window],
    sketch: &Sketch,
    values: &[&str],
    wanted: &[usize],
) -> Option<Vec<Option<String>>> {
    let byte = |position: TemplatePosition| {
        values[..position.part].iter().map(|value| value.len()).sum::<usize>() + position.offset
    };
    let whole = values.concat();
    let (mut text, mut captures) = (Vec::new(), regex.new_captures());
    for window in windows {
        let mut read = Vec::new();
        let value = |part: usize, text: &mut Vec<u8>| {
            read.push(part);
            text.extend_from_slice(values[part].as_bytes());
        };
        let found = window.evaluate(&sketch.template, regex, value, &mut text, &mut captures).unwrap();
        assert_eq!(read, window.read, "{window:?}");
        if let Some(groups) = &window.groups {
            assert!(found.is_some(), "{window:?}");
            let text_of = |group: &usize| groups[*group].map(|(start, end)| whole[byte(start)..byte(end)].to_owned());
            return Some(wanted.iter().map(text_of).collect());
        }
        match found {
            None => assert!(!window.certain, "{window:?}"),
            Some(text) => {
                let text_of = |group: &usize| captures.text(text, *group).map(str::to_owned);
                return Some(wanted.iter().map(text_of).collect());
            }
        }
    }
    None
}

/// Compares the decisions for windows with the result of the expression itself: whether there is a match, and the
/// positions of its groups.
fn check_decisions(regex: &Regex, planner: &mut Planner, windows: &[Window], sketch: &Sketch, values: &[&str]) {
    let byte = |position: TemplatePosition| {
        values[..position.part].iter().map(|value| value.len()).sum::<usize>() + position.offset
    };
    let whole = values.concat();
    let (mut text, mut captures) = (Vec::new(), regex.new_captures());
    for window in windows {
        let Some(decision) = &window.decision else { continue };
        let append = |part: usize, text: &mut Vec<u8>| text.extend_from_slice(values[part].as_bytes());
        let found = window.evaluate(&sketch.template, regex, append, &mut text, &mut captures).unwrap();
        let wanted = planner.requested_groups.iter().map(|group| {
            let reported = decision.positions[*group].map(|(start, end)| whole[byte(start)..byte(end)].to_owned());
            (found.and_then(|text| captures.text(text, *group)).map(str::to_owned), reported)
        });
        let wanted: Vec<_> = wanted.collect();
        let is_match = found.is_some();
        if is_match {
            wanted.iter().for_each(|(found, reported)| assert_eq!(found, reported, "{window:?} {whole}"));
        }
        let mut other = regex.new_captures();
        let mut window_text = Vec::new();
        let decided =
            window.has_match(decision, &sketch.template, regex, append, &mut window_text, &mut other).unwrap();
        assert_eq!(decided, is_match, "{window:?} {whole}");
        if let Some(mut test) = window.value_test(decision, &sketch.template) {
            for _ in 0..2 {
                let tested = test.is_match(planner, values[decision.read[0]].as_bytes());
                assert!(tested.is_none_or(|tested| tested == is_match), "{window:?} {whole} {tested:?}");
            }
        }
    }
}

/// Checks that texts with the same values in the parts on which the match or a group depends have the same match or
/// group; `seen` holds the results of earlier texts.
fn check_apart(
    regex: &Regex,
    wanted: &[usize],
    windows: &[Window],
    sketch: &Sketch,
    values: &[&str],
    seen: &mut HashMap<String, String>,
) {
    let (mut text, mut captures) = (Vec::new(), regex.new_captures());
    for (number, window) in windows.iter().enumerate() {
        let Some(apart) = &window.group_dependence else { continue };
        let append = |part: usize, text: &mut Vec<u8>| text.extend_from_slice(values[part].as_bytes());
        let found = window.evaluate(&sketch.template, regex, append, &mut text, &mut captures).unwrap();
        let mut tell = |what: String, parts: &[usize], answer: String| {
            let of_parts: Vec<&str> = parts.iter().map(|part| values[*part]).collect();
            let key = format!("{number} {what} {of_parts:?}");
            let known = seen.entry(key.clone()).or_insert_with(|| answer.clone());
            assert_eq!(known, &answer, "{regex:?} over {:?}: {key} of {window:?}", sketch.template);
        };
        tell("match".to_owned(), &apart.matched, found.is_some().to_string());
        let Some(found) = found else { continue };
        for (group, parts) in wanted.iter().zip(&apart.groups) {
            tell(format!("group {group}"), parts, format!("{:?}", captures.text(found, *group)));
        }
    }
}

/// Compares the plans with the result of the expression itself, with and without listed values or forms of variables;
/// returns whether the plans were cached.
fn check(regex: &Regex, planner: &mut Planner, sketch: &Sketch) -> bool {
    check_texts(regex, planner, sketch)
        && check_texts(regex, planner, &sketch.with_value_sets())
        && check_texts(regex, planner, &sketch.with_forms(&["x", "7q"]))
}

/// Compares the plan with the result of the expression itself on every text, up to a maximum number; returns whether
/// there is a plan.
fn check_texts(regex: &Regex, planner: &mut Planner, sketch: &Sketch) -> bool {
    const TEXTS_MAX: usize = 60;
    let windows = match planner.plan(&sketch.template) {
        MatchPlan::Unknown => return false,
        MatchPlan::Never => Vec::new(),
        MatchPlan::Windows(windows) => windows,
    };
    let wanted = planner.requested_groups.clone();
    let mut seen = HashMap::new();
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
        check_decisions(regex, planner, &windows, sketch, &values);
        check_apart(regex, &wanted, &windows, sketch, &values, &mut seen);
        let text = values.concat();
        let mut captures = regex.new_captures();
        let text_of = |(start, end): (usize, usize)| text[start..end].to_owned();
        let expected = regex
            .captures_into(&text, &mut captures)
            .then(|| wanted.iter().map(|group| captures.get(*group).map(text_of)).collect::<Vec<_>>());
        let found = answer(regex, &windows, sketch, &values, &wanted);
        assert_eq!(found, expected, "{regex:?} on {text:?} of {:?}: {windows:?}", sketch.template);
    }
    true
}

/// A planner for all groups, including the whole match.
fn planner_of(regex: &Regex) -> Planner {
    Planner::new(regex, 0..regex.group_count()).unwrap_or_else(|| panic!("{regex:?} has no plan"))
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
    r"(?m)^(?<v>\S+) (?<w>[^.]*)",
    r"(?m)(?<v>[^ ]+)$",
    r"^(?<a>\S+)(?: (?<b>\S+))? (?<c>[^-]*)-(?<d>\d)",
    r"^(?<a>[^ ]+) (?:(?<b>a+)|(?<c>[^a ]+)) ?(?<d>.*)",
    r"\b(?<v>[ab]+)\b-(?<w>\w)",
    r"(?<v>\w+)\.$",
    r"^(?<v>[ab])\S* (?<w>[^-\s]+)-(?<x>\d+) (?<y>.+)",
    r"(?<v>[ab]+)(?<w> \d+)*(?:-|(?<x>b))*",
    r"(?<v>\d)(?: |(?<w>a+?))+?(?<x>.*?)",
    r"(?m)^(?<v>a+)-?(?<w>\d*)(?<x>(?s:.)*)",
    r"a(?<v>\d+)?(?: (?<w>b{2,3}))?\.*",
    r"(?<v>[ab]+?)(?:1(?<w>.)|2){1,2}\b.*",
];

fn piece(longest: usize) -> impl Strategy<Value = String> {
    let characters = prop::sample::select(vec!["a", "b", "1", "2", " ", "-", ".", "é", "\n", "ab-", "ab", "1 "]);
    prop::collection::vec(characters, 0..longest).prop_map(|pieces| pieces.concat())
}

/// Values of one kind, such as the splitter would put into one column, or arbitrary values.
fn variable() -> impl Strategy<Value = Vec<String>> {
    let digits = prop::collection::vec("[12]{1,3}", 1..4);
    let letters = prop::collection::vec("[ab]{2}", 1..4);
    let any = prop::collection::vec(piece(4), 1..4);
    prop_oneof![digits, letters, any]
}

fn sketches() -> impl Strategy<Value = Sketch> {
    let part = prop_oneof![piece(5).prop_map(Ok), variable().prop_map(Err)];
    prop::collection::vec(part, 0..6).prop_map(sketch)
}

impl std::fmt::Debug for Sketch {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:?}", self.values)
    }
}

#[test]
fn plans_give_the_same_groups_as_whole_texts() {
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    let compiled = PATTERNS.iter().flat_map(|pattern| {
        let regex = Regex::new(pattern).unwrap();
        let groups = 1..regex.group_count();
        let each = groups.map(|group| RefCell::new(Planner::new(&regex, [group]).unwrap()));
        let planners = each.chain([RefCell::new(planner_of(&regex))]).collect::<Vec<_>>();
        planners.into_iter().map(move |planner| (regex.clone(), planner))
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
        let mut planner = planner_of(&regex);
        assert!(texts.iter().all(|text| check(&regex, &mut planner, &parse_sketch(text))), "{pattern}");
    }
}

/// Two templates with a common beginning.
fn forks() -> impl Strategy<Value = [Sketch; 2]> {
    let part = || prop_oneof![piece(5).prop_map(Ok), variable().prop_map(Err)];
    let parts = move |longest: usize| prop::collection::vec(part(), 0..longest);
    let fork = (parts(5), parts(3), parts(3));
    fork.prop_map(|(stem, one, other)| [one, other].map(|tail| sketch([stem.clone(), tail].concat())))
}

#[test]
fn cached_plans_do_not_affect_similar_templates() {
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    let regexes: Vec<Regex> = PATTERNS.iter().map(|pattern| Regex::new(pattern).unwrap()).collect();
    let plans = |[one, other]: [Sketch; 2]| {
        for regex in &regexes {
            let mut planner = planner_of(regex);
            for sketch in [&one, &other, &one] {
                let alone = planner_of(regex).plan(&sketch.template);
                prop_assert_eq!(planner.plan(&sketch.template), alone, "{:?} over {:?}", regex, sketch);
                prop_assert!(check(regex, &mut planner, sketch));
            }
        }
        Ok(())
    };
    TestRunner::new(config).run(&forks(), plans).unwrap();
}

/// If the analysis of a window fails at the part after the window, the window is analysed anew in a template that has
/// another part there.
#[test]
fn failures_after_a_window_are_not_cached() {
    let regex = Regex::new(r"\b(?<v>\d+)\b").unwrap();
    let of = |second: &str| {
        FlatTemplate::new([FlatPart::Variable(0, traits(&["1 ab-"])), FlatPart::Variable(1, traits(&[second]))])
    };
    let mut planner = planner_of(&regex);
    planner.plan(&of("é"));
    assert_eq!(planner.plan(&of("a")), planner_of(&regex).plan(&of("a")));
}

#[test]
fn text_after_a_certain_match_is_not_planned() {
    let regex = Regex::new(r"<id>(?<id>\d+)</id>").unwrap();
    let literal = |text: &str| FlatPart::Literal(text.as_bytes().into());
    let numbers = |column: u32| FlatPart::Variable(column, traits(&["1", "22"]));
    let template = |rest: &[FlatPart]| {
        let first = [literal("<event><id>"), numbers(1), literal("</id><user>"), numbers(2)];
        FlatTemplate::new(first.into_iter().chain(rest.iter().cloned()))
    };
    let mut planner = planner_of(&regex);
    let plan = planner.plan(&template(&[literal("</user>")]));
    assert!(matches!(&plan, MatchPlan::Windows(windows) if windows[0].groups.is_some()));
    let spent = planner.steps_spent();
    for rest in [&[][..], &[literal("</user><from>"), numbers(3)], &[literal("<id>"), numbers(4), literal("</id>")]] {
        assert_eq!(planner.plan(&template(rest)), plan);
    }
    assert_eq!(planner.steps_spent(), spent);
    // If there is no match, the plan depends on the whole template.
    let other = Regex::new(r"<of>(?<of>\d+)</of>").unwrap();
    let mut planner = planner_of(&other);
    assert_eq!(planner.plan(&template(&[literal("</user>")])), MatchPlan::Never);
    let has_match = template(&[literal("</user><of>"), numbers(3), literal("</of>")]);
    assert!(matches!(planner.plan(&has_match), MatchPlan::Windows(_)));
}

#[test]
fn windows_read_only_the_variables_that_matter() {
    let shard = r"on shard-(?<shard>\d+) ";
    let found = windows(shard, "id <a1|b2> put <12|99>ms on shard-<1|22> for <ann|bob eve>");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].variables, [5]);
    assert!(found[0].certain);
    let groups = found[0].groups.as_ref().unwrap();
    assert_eq!(groups[1], Some((TemplatePosition { part: 5, offset: 0 }, TemplatePosition { part: 6, offset: 0 })));
    // The variable may contain more than digits: only its values are tested, nothing after it.
    let found = windows(shard, "id <a1|b2> on shard-<1|x> for <ann|bob>");
    assert_eq!(found[0].variables, [3]);
    assert!(!found[0].certain && found[0].groups.is_none());
    // The byte after a settled match is not needed, although it is a variable.
    let found = windows(shard, "on shard-<1|x> <ann|bob>");
    assert_eq!(found[0].variables, [1]);
}

#[test]
fn forms_show_that_a_value_does_not_decide() {
    let regex =
        Regex::new(r"client (?<ip>[^#\s]+)#(?<port>\d+) \((?<asked>[^)]*)\): query: (?<name>\S+) IN (\w+)").unwrap();
    let sketch = parse_sketch("client <10.0.0.1#53|fd00::1#977> (<a.b|c>): query: <a.b|c> IN <A|TXT> +");
    let planned = |sketch: &Sketch| match Planner::new(&regex, [4]).unwrap().plan(&sketch.template) {
        MatchPlan::Windows(windows) => windows,
        other => panic!("{other:?}"),
    };
    let position = |part| TemplatePosition { part, offset: 0 };
    let known = planned(&sketch.with_forms(&[]));
    assert_eq!(known[0].groups.as_ref().map(|groups| groups[4]), Some(Some((position(5), position(6)))));
    // Without forms, the first value may lack a number sign.
    assert!(planned(&sketch)[0].groups.is_none());
    assert!(check(&regex, &mut Planner::new(&regex, [1, 2, 4]).unwrap(), &sketch));
}

#[test]
fn listed_values_that_all_match_decide_early() {
    let regex = Regex::new(r"^[^\r\n]*?\b(?<level>DEBUG|INFO|WARN)\b").unwrap();
    let sketch = parse_sketch("2026-11-25 <INFO|WARN> [exec-<1|22>] <a.b.C|x.WARN.Codec> - it <user=ann|b>");
    let planned = |sketch: &Sketch| match Planner::new(&regex, [1]).unwrap().plan(&sketch.template) {
        MatchPlan::Windows(windows) => windows,
        other => panic!("{other:?}"),
    };
    let listed = planned(&sketch.with_value_sets());
    assert_eq!(listed.len(), 1);
    let position = |part| TemplatePosition { part, offset: 0 };
    assert_eq!(listed[0].groups.as_ref().unwrap()[1], Some((position(1), position(2))));
    assert!(listed[0].certain && listed[0].read == [1] && listed[0].end.part == 2, "{listed:?}");
    // Without listed values, the level may also be another word of four letters.
    assert!(planned(&sketch)[0].groups.is_none());
    assert!(check(&regex, &mut Planner::new(&regex, [1]).unwrap(), &sketch));
}

#[test]
fn values_that_may_contain_the_match_start_are_not_tested_alone() {
    for pattern in PATTERNS {
        let regex = Regex::new(pattern).unwrap();
        for group in 1..regex.group_count() {
            let mut planner = Planner::new(&regex, [group]).unwrap();
            for text in ["<1><a\né> ", "<1|2><a\né|b>", "1<a\nb|b\na> ", "<1>\n<a|b> "] {
                assert!(check(&regex, &mut planner, &parse_sketch(text)), "{pattern}");
            }
        }
    }
}

#[test]
fn templates_without_a_match_are_left_out() {
    let shard = r"on shard-(?<shard>\d+) ";
    for text in ["", "nothing here", "took <1|20>ms for <10.0.0.1|::1>", "on shard-<a|b> ", "on shard-<1|2>"] {
        assert_eq!(plan_for(shard, text), MatchPlan::Never, "{text}");
    }
}

#[test]
fn variables_that_may_contain_the_start_are_read_first() {
    let found = windows(r"on shard-(?<shard>\d+) ", "<on shard-9 x|free text> on shard-<1|2> ");
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].variables[0], 0);
    assert_eq!(found[1].variables, [2]);
    assert!(found[1].groups.is_some());
}

#[test]
fn expressions_that_cannot_be_planned_are_reported() {
    for pattern in [r"a(?=b)", r"(a)\1", r"\d*", r"x?", r"^"] {
        assert!(Planner::new(&Regex::new(pattern).unwrap(), [0]).is_none(), "{pattern}");
    }
}

#[test]
fn undecided_groups_do_not_affect_others() {
    let access = r#"^(?<ip>\S+) \[(?<time>[^\]]+)\] "(?:(?<method>\S+) (?<path>[^?\s]+)(?:\?(?<query>\S*))?)?[^"]*" (?<status>\d{3})"#;
    let text = r#"<10.1.1.1|::1> [<1/2|22/3>] "<GET /|POST /a?b=c|PUT /x?y z|->" <200|404> <-|"a b">"#;
    let regex = Regex::new(access).unwrap();
    let sketch = parse_sketch(text);
    let planned = |group| match Planner::new(&regex, [group]).unwrap().plan(&sketch.template) {
        MatchPlan::Windows(windows) => windows,
        other => panic!("{other:?}"),
    };
    // These groups are determined by the template, whatever the request contains.
    for (group, part) in [(1, 0), (2, 2), (6, 6)] {
        let found = planned(group);
        let position = found[0].groups.as_ref().unwrap()[group];
        assert_eq!(
            position,
            Some((TemplatePosition { part, offset: 0 }, TemplatePosition { part: part + 1, offset: 0 })),
            "{group}"
        );
    }
    // Groups inside the request depend on the request only.
    for group in [3, 4, 5] {
        let found = planned(group);
        assert!(found[0].groups.is_none());
        assert_eq!(found[0].read, [4], "{group}: {found:?}");
    }
    for group in 1..=6 {
        assert!(check(&regex, &mut Planner::new(&regex, [group]).unwrap(), &sketch));
    }
}

#[test]
fn groups_ending_inside_a_value_depend_on_what_distinguishes_threads() {
    let regex = Regex::new("(?<g>a+)(?:aab|ac)").unwrap();
    let mut planner = Planner::new(&regex, [1]).unwrap();
    assert!(check(&regex, &mut planner, &parse_sketch("<aaaa|aaaaa><b|c>")));
    let MatchPlan::Windows(windows) = planner.plan(&parse_sketch("<aaaa|aaaaa><b|c>").template) else { panic!() };
    assert_eq!(windows[0].read, [0, 1]);
}

#[test]
fn groups_depend_on_values_of_their_own() {
    let regex = Regex::new(r"^\S+\s+(?<n>\d+) (?<file>[^:\s]+):(?<line>\d+)\]").unwrap();
    let mut planner = Planner::new(&regex, [1, 2]).unwrap();
    let sketch = parse_sketch("I  <1|22|333> <a.go:1|b_c.go:22|none|d:e:3>] <x|y z>");
    assert!(check(&regex, &mut planner, &sketch));
    let MatchPlan::Windows(windows) = planner.plan(&sketch.template) else { panic!() };
    let apart = windows[0].group_dependence.as_ref().unwrap();
    assert_eq!((apart.matched.as_slice(), apart.groups.as_slice()), (&[3][..], &[vec![1], vec![3]][..]));
}

/// The only window of a pattern over a template in text form, planned with its values listed.
fn window_with_values(pattern: &str, text: &str) -> Window {
    let mut planner = planner_of(&Regex::new(pattern).unwrap());
    planner.requested_groups.retain(|group| *group > 0);
    let sketch = parse_sketch(text);
    let mut lists = HashMap::new();
    for (part, values) in sketch.template.parts().iter().zip(&sketch.values) {
        if let FlatPart::Variable(column, _) = part {
            let values: BTreeSet<Box<str>> = values.iter().map(|value| value.as_str().into()).collect();
            lists.insert(*column, values.into_iter().collect::<Arc<[Box<str>]>>());
        }
    }
    match planner.plan_with_values(&sketch.template, &mut |column| lists.get(&column).cloned()) {
        MatchPlan::Windows(windows) if windows.len() == 1 => windows[0].clone(),
        other => panic!("{pattern} over {text}: {other:?}"),
    }
}

#[test]
fn listed_values_show_that_every_text_matches() {
    let (pattern, text) = (r"^(?<name>\S+) \d+ms$", "<anna|zo\u{eb}> <12ms|7ms>");
    assert_eq!(windows(pattern, text)[0].groups, None, "some text with these bytes does not match");
    let position = |part| TemplatePosition { part, offset: 0 };
    assert_eq!(window_with_values(pattern, text).groups.unwrap()[1], Some((position(0), position(1))));
}

#[test]
fn a_difference_that_vanishes_does_not_decide() {
    // After `b-`, the byte before the blank is no part of a word, but after the blank all texts are alike.
    for pattern in [r"^\S+ (?<n>\d+)ms\b", r"\b\S+ (?<n>\d+)ms$"] {
        let window = window_with_values(pattern, "a<a|b-|c_> <12ms|7ms>");
        assert_eq!(window.read, [3], "{pattern}: {window:?}");
    }
}

#[test]
fn long_lists_of_values_are_planned_exactly() {
    let values: Vec<String> = (0..900).map(|at| format!("{at}ms")).collect();
    let text = format!("GET <{}> end", values.join("|"));
    let window = window_with_values(r"GET \d+ms (?<last>\w+)$", &text);
    assert!(window.groups.is_some(), "{window:?}");
    let window = window_with_values(r"GET 1\d*ms (?<last>\w+)$", &text);
    assert_eq!(window.decision.map(|decision| decision.read), Some(vec![1]));
}
