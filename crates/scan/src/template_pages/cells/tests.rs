//! Tests of the locations of cells in templates, and of values that force reading the text.

use quarry_conf::{ExtractionMethod, ReportRule};
use quarry_event::template::{Column, NumberFormat, ValueTraits};

use super::super::value_location::{Decoding, WrittenParts};
use super::*;
use crate::fields::reports::TextExtraction;

/// Locations of `names` in a template; `@N` represents variable N, whose values are `slots[N - 1]`. Values that
/// contain `@N` are templates; other values are dictionary entries.
fn cell_locations(text: &str, slots: &[&[&str]], names: &[&str], keeps_empty: bool) -> Vec<ValueLocation> {
    locations(text, slots, names, (None, keeps_empty, true))
}

/// Locations of `names` in a template of pairs `a=1,b=2`.
fn pair_locations(text: &str, slots: &[&[&str]], names: &[&str]) -> Vec<ValueLocation> {
    locations(text, slots, names, (Some("="), false, false))
}

fn locations(
    text: &str,
    slots: &[&[&str]],
    names: &[&str],
    (inner, keeps_empty, cleans_names): (Option<&str>, bool, bool),
) -> Vec<ValueLocation> {
    let mut template_set = TemplateSet::default();
    template_set.columns.push(Column {
        parent: None,
        kind: ColumnKind::Texts,
        traits: ValueTraits::default(),
        values: 1,
    });
    let template_of = |text: &str| {
        let mut template = Template::default();
        let mut pieces = text.split('@');
        let mut push = |text: &str| {
            if !text.is_empty() {
                template.parts.push(TemplatePart::Literal(text.as_bytes().into()));
            }
        };
        push(pieces.next().unwrap_or_default());
        let mut parts = std::mem::take(&mut template.parts);
        for piece in pieces {
            parts.push(TemplatePart::Variable(u32::from(piece.as_bytes()[0] - b'0')));
            if piece.len() > 1 {
                parts.push(TemplatePart::Literal(piece.as_bytes()[1..].into()));
            }
        }
        Template { parts }
    };
    let mut dictionaries = vec![Arc::new(Dictionary::default())];
    for values in slots {
        let (mut traits, mut bytes, mut ends) = (ValueTraits::default(), Vec::new(), Vec::new());
        for (at, value) in values.iter().enumerate() {
            traits.add(value.as_bytes(), at == 0);
            bytes.extend_from_slice(value.as_bytes());
            ends.push(bytes.len() as u32);
        }
        let kind = match NumberFormat::guess(values[0].as_bytes()) {
            _ if values.iter().any(|value| value.contains('@')) => {
                ColumnKind::Templates(values.iter().map(|value| template_of(value)).collect())
            }
            Some(format) => ColumnKind::Numbers { format, min: 0, max: 0 },
            None => ColumnKind::Dictionary { len: values.len() as u32 },
        };
        dictionaries.push(Arc::new(Dictionary { bytes: bytes.into(), ends }));
        template_set.columns.push(Column { parent: Some(0), kind, traits, values: 1 });
    }
    let rule = ReportRule {
        name: "cells".into(),
        source: "_raw".into(),
        method: ExtractionMethod::Delimited {
            outer: ",".into(),
            inner: inner.map(Into::into),
            names: names.iter().map(|n| (*n).into()).collect(),
        },
        adds_values: false,
        cleans_names,
        keeps_empty,
    };
    let report = Report::new(&rule).unwrap();
    let read = |column: u32| dictionaries.get(column as usize).cloned();
    let (naming, delimiters) = match report.text_extraction() {
        Some(TextExtraction::Cells(own, delimiters)) => (CellNaming::Positions(own), delimiters),
        Some(TextExtraction::Pairs(delimiters, inner)) => (CellNaming::Keys(inner), delimiters),
        _ => panic!("no cells"),
    };
    let planner = CellPlanner::new(&report, naming, delimiters, &template_set, &read);
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    planner.locations(&template_of(text), &names)
}

fn constant(text: &str) -> ValueLocation {
    ValueLocation::Constant(text.into())
}

/// A cell as written; `@` is variable 1.
fn cell(written: &str) -> ValueLocation {
    let mut parts = Vec::new();
    for (at, literal) in written.split('@').enumerate() {
        if at > 0 {
            parts.push(TemplatePart::Variable(1));
        }
        if !literal.is_empty() {
            parts.push(TemplatePart::Literal(literal.as_bytes().into()));
        }
    }
    ValueLocation::Written(WrittenParts { parts: parts.into(), decoding: Decoding::Cell { keeps_empty: false } })
}

use ValueLocation::{Absent, Text, Variable};

#[test]
fn cells_are_located_in_templates() {
    let dashed = ValueLocation::Composite(
        [TemplatePart::Variable(1), TemplatePart::Literal(b"-".as_slice().into()), TemplatePart::Variable(2)].into(),
    );
    let tailed =
        ValueLocation::Composite([TemplatePart::Literal(b"y".as_slice().into()), TemplatePart::Variable(1)].into());
    let said = ValueLocation::Composite(
        [
            TemplatePart::Literal(b"a \"".as_slice().into()),
            TemplatePart::Variable(1),
            TemplatePart::Literal(b"\"".as_slice().into()),
        ]
        .into(),
    );
    for (text, slots, expected) in [
        ("@1,\"@2\", x ", &[&["12"][..], &["ab", "c d"]][..], [Variable(1), Variable(2), constant("x")]),
        ("@1-@2,,x", &[&["12"], &["ab"]], [dashed, Absent, constant("x")]),
        // Delimiters in quotes, including quoted values; a backslash before a delimiter.
        ("\"a,b\",\"@1\",@2", &[&["x,y", "z"], &["1"]], [constant("a,b"), Variable(1), Variable(2)]),
        // A doubled quote represents one quote in quoted cells only.
        ("\"@1\",@2,x", &[&["say \"\"hi\"\"", "z"], &["1"]], [cell("\"@\""), Variable(2), constant("x")]),
        ("\"a \"\"@1\"\"\",@2,x", &[&["y"], &["1"]], [said, Variable(2), constant("x")]),
        ("\"a \"\"b\"\"\",@2,x", &[&["y"], &["1"]], [constant("a \"b\""), Variable(2), constant("x")]),
        ("y@1,@2,x", &[&["say \"\"hi\"\"", "z"], &["1"]], [tailed, Variable(2), constant("x")]),
        ("a\\,b,@1,x", &[&["1"]], [constant("a\\,b"), Variable(1), constant("x")]),
        // Too few and too many cells.
        ("@1", &[&["1"]], [Variable(1), Absent, Absent]),
        ("@1,a,b,c,d", &[&["1"]], [Variable(1), constant("a"), constant("b")]),
        // Values that contain a delimiter: the cells before and after such a value are located; the cells into which
        // the value divides its own cell are not.
        ("x@1y,@2", &[&["a,b", "c,d"], &["1"]], [Text, Text, Variable(2)]),
        ("x,@1", &[&["a,b", "c"]], [constant("x"), Text, Text]),
        // Templates in variables.
        ("\"@1\",@2,x", &[&["a \"\"@3\"\"", "b"], &["1"], &["w"]], [cell("\"@\""), Variable(2), constant("x")]),
        ("\"@1\",@2,x", &[&["a-@3-", "b"], &["1"], &["w"]], [Variable(1), Variable(2), constant("x")]),
    ] {
        assert_eq!(cell_locations(text, slots, &["a", "b", "c"], false), expected, "{text} {slots:?}");
    }
}

#[test]
fn cells_that_values_may_shift_are_read_from_the_text() {
    for (text, slots, expected) in [
        ("a,@1,x", &[&["y", "\"y"][..]][..], [constant("a"), Text, Text]),
        ("a,@1,x", &[&["y", "y\\"]], [constant("a"), Text, Text]),
        ("a,\\@1,x", &[&["y", ""]], [constant("a"), Text, Text]),
        ("a,\"@1,x", &[&["y", "y\""]], [constant("a"), Text, Text]),
    ] {
        assert_eq!(cell_locations(text, slots, &["a", "b", "c"], false), expected, "{text} {slots:?}");
    }
    let kept = cell_locations("\"@1\",,c", &[&["y", ""]], &["a", "b", "c"], true);
    assert_eq!(kept, [Variable(1), constant(""), constant("c")]);
}

#[test]
fn cells_with_varying_ends_are_located_as_a_whole() {
    for (text, values, expected) in [
        // The value's first or last character may be a blank or a quote.
        ("@1,\"b\",c", &["y", " y"], cell("@")),
        ("@1,\"b\",c", &["y", "y "], cell("@")),
        ("@1,\"b\",c", &["\"y\"", "y"], cell("@")),
        ("@1,\"b\",c", &["\"x, y\"", "y"], cell("@")),
        // An empty value produces no field.
        ("\"@1\",\"b\",c", &["y", ""], cell("\"@\"")),
        (
            "x@1,\"b\",c",
            &["\"y\"", "y"],
            ValueLocation::Composite([TemplatePart::Literal(b"x".as_slice().into()), TemplatePart::Variable(1)].into()),
        ),
    ] {
        let found = cell_locations(text, &[values], &["a", "b", "c"], false);
        assert_eq!(found, [expected, constant("b"), constant("c")], "{text} {values:?}");
    }
    // If the cell is empty, another cell of that name has the value.
    assert_eq!(cell_locations("@1,b,c", &[&["y", ""]], &["a", "b", "a"], false)[0], Text);
}

#[test]
fn the_first_non_empty_cell_of_a_name_wins() {
    assert_eq!(cell_locations(",b,@1", &[&["1"]], &["a", "b", "a"], false), [Variable(1), constant("b"), Variable(1)]);
    assert_eq!(cell_locations("x,b,@1", &[&["1"]], &["a", "b", "a"], false)[0], constant("x"));
}

#[test]
fn pairs_in_cells_are_located_by_their_keys() {
    for (text, slots, expected) in [
        ("35=@1,x=@2,49=a", &[&["D"][..], &["1"]][..], [Variable(1), constant("a"), Absent]),
        ("@1 8=@2,35=\"@3\",,49", &[&["12"], &["x"], &["y z"]], [Variable(3), Absent, Absent]),
        // The first pair that is not empty counts.
        ("35=,35=@1,35=@2", &[&["1"], &["2"]], [Variable(1), Absent, Absent]),
        ("35=@1,35=@2,49==@2", &[&["1", ""], &["2"]], [Text, Variable(2), Absent]),
        ("35=@1,49=@2", &[&["1", ""], &["=2"]], [cell("@"), Text, Absent]),
        ("35=@1=,49=x", &[&["1", ""]], [Text, constant("x"), Absent]),
        // Keys that depend on values.
        ("@1=x,35=@2,49=1", &[&["35", "36"], &["y"]], [Text, Text, Text]),
        ("35=@2,@1=x,49=1", &[&["35", "36"], &["y"]], [Variable(2), Text, Text]),
        ("@1 35=x,35=@2", &[&["", "36"], &["y"]], [Text, Absent, Absent]),
        ("@1,35=@2,49=x", &[&["a=b", "36"], &["y"]], [Text, Text, Text]),
        ("35=@2,@1,49=x", &[&["a,b", "36"], &["y"]], [Variable(2), Text, Text]),
        ("35=@1,49=x", &[&["a", "\"b"]], [Text, Text, Text]),
    ] {
        assert_eq!(pair_locations(text, slots, &["35", "49", "7"]), expected, "{text} {slots:?}");
    }
}
