//! Tests of the columns of JSON texts: strings, numbers, values that are not JSON, and texts that are truncated.

use super::*;

/// Long JSON texts are split into words, so that a backslash is separated from the words `n12` and `u00e4` after it.
/// Whether their escapes are complete is therefore checked before splitting.
#[test]
fn texts_split_into_words_keep_their_json_traits() {
    let line = |at: u32| {
        let next = match at % 3 {
            0 => "null".to_owned(),
            _ => format!("\"page {at} of {} caf\\u00e4{at}\"", at * 7 % 4_001),
        };
        let message = format!(r#"took {at} ms\n{}x said \"no{at}\" again"#, at % 977);
        format!(r#"{{"message":"{message}","next":{next},"level":"INFO"}}"#)
    };
    let events = batch((0..6_000).map(line));
    let slab = split_slab(&events).unwrap();
    check(&slab, &events);
    let split: Vec<&SlabColumn> = (slab.columns.iter().skip(1))
        .filter(|column| matches!(*column.values, SlabValues::Templates { .. }) && column.parent == Some(0))
        .collect();
    assert_eq!(split.iter().filter(|column| column.traits.string_contents).count(), 2, "message and next in quotes");
    assert!(slab.columns.iter().any(|column| column.parent == Some(0) && column.traits.json_scalars), "next");
}

/// Values that JSON does not allow, at the end of a truncated text or within it, have columns of their own: searches read
/// all other events from their columns.
#[test]
fn values_that_are_not_json_do_not_share_the_columns_of_others() {
    let line = |at: u32| {
        let whole = format!(
            r#"{{"level":"{}","agent":"a/{} \"x\"","took":{}.{},"attributes":{{"n":{},"user":"u{at}"}}}}"#,
            ["INFO", "WARN"][at as usize % 2],
            at * 7 % 401,
            at % 97,
            at % 10,
            at * 31 % 5_003
        );
        match at % 100 {
            7 => whole[..whole.find(r#""took""#).unwrap() + 9].to_owned(),
            17 => whole[..whole.find(r#""n""#).unwrap() + 5].replace(r#""n":"#, r#""n":-"#),
            27 => whole[..whole.find(r#""agent""#).unwrap() + 15].to_owned() + "\\",
            37 => whole.replace(r#""took":"#, r#""took":NaN,"rest":"#),
            47 => whole.replace(r#"\""#, r"\x22"),
            57 => whole.replace(r#""agent":"#, r#""agent":tru"#),
            _ => whole,
        }
    };
    let events = batch((0..6_000).map(line));
    let slab = split_slab(&events).unwrap();
    check(&slab, &events);
    let SlabValues::Templates { templates, codes } = &*slab.columns[0].values else { panic!("texts have templates") };
    let first = &templates[codes[0] as usize];
    for column in first.variables() {
        let SlabColumn { traits, .. } = &slab.columns[column as usize];
        assert!(traits.string_contents || traits.json_scalars, "column {column}: {traits:?}");
    }
    let whole = codes.iter().zip(0..).filter(|(_, at)| ![7, 17, 27, 37, 47, 57].contains(&(at % 100)));
    let of_whole: BTreeSet<u32> = whole.map(|(code, _)| *code).collect();
    assert!(of_whole.len() < 5, "{of_whole:?}");
}

/// Values at the end of truncated texts are valid content of strings: a truncated escape is not part of them.
#[test]
fn escapes_that_are_cut_off_belong_to_no_value() {
    let line = |at: u32| {
        let whole = format!(r#"{{"level":"INFO","agent":"a/{at} \"x\" \u00e4","took":{}}}"#, at % 97);
        let end = |before: &str| whole.find(before).unwrap() + before.len();
        match at % 100 {
            7 => whole[..end(r#" \"x"#)].to_owned(),
            17 => whole[..end(r" \")].to_owned(),
            27 => whole[..end(r"\u00")].to_owned(),
            _ => whole,
        }
    };
    let events = batch((0..6_000).map(line));
    let slab = split_slab(&events).unwrap();
    check(&slab, &events);
    let with_escapes =
        slab.columns.iter().filter(|column| column.parent == Some(0) && column.traits.bytes.contains(b'\\'));
    let columns: Vec<&SlabColumn> = with_escapes.collect();
    assert!(columns.len() > 1 && columns.iter().all(|column| column.traits.string_contents), "{columns:?}");
}

/// Strings do not share a column with numbers and words, whichever comes first.
#[test]
fn strings_have_columns_without_other_scalars() {
    for first in 0..3 {
        let line = |at: u32| {
            let value = match (at + first) % 3 {
                0 => "null".to_owned(),
                1 => format!("\"user{at}\""),
                _ => at.to_string(),
            };
            format!(r#"{{"level":"INFO","user":{value},"took":{}}}"#, at % 7)
        };
        let events = batch((0..6_000).map(line));
        let slab = split_slab(&events).unwrap();
        check(&slab, &events);
        let mut columns = slab.columns.iter().skip(1);
        assert!(columns.all(|column| !column.traits.bytes.contains(b'"')), "{first}");
    }
}

/// Words without digits differ between log lines, so that splitting them into words with digits would give most lines a
/// template of their own.
#[test]
fn log_lines_in_json_strings_are_split_like_events() {
    let events = batch((0..6_000).map(|at| {
        let word = |salt: u64, below: u64| letters(pseudo_random(at * 31 + salt, below));
        let failure = if at % 7 == 0 { " err=\\\"connection refused\\\"" } else { "" };
        format!(
            "{{\"log\":\"level={} svc={} op={} took={}ms path=/{}/{}{failure}\\n\",\"stream\":\"stdout\",\"n\":{at}}}",
            word(1, 4),
            word(2, 20),
            word(3, 90),
            pseudo_random(at, 700),
            word(4, 900),
            word(5, 900),
        )
    }));
    let slab = template_slab_of(&events);
    let lines =
        slab.columns.iter().filter(|column| column.parent == Some(0)).find_map(|column| match &*column.values {
            SlabValues::Templates { templates, .. } => Some(templates),
            _ => None,
        });
    let lines = lines.expect("the log lines have templates");
    assert!(lines.len() < 40, "{} templates", lines.len());
    assert!(matches!(&lines[0].parts[0], TemplatePart::Literal(key) if &**key == b"level="), "{:?}", lines[0]);
}
