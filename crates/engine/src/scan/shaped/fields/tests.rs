//! Which templates tell where their fields are, and which values make them leave it to the text.

use quarry_event::shape::Column;

use super::*;

const KV: Cutting = Cutting { kv_mode: KvMode::Auto, auto_json: true, by_pattern: false };

/// A template of literals and `@` for slots whose values are `values`, one list per slot, and the place of `f` in it.
fn place(cutting: Cutting, text: &str, values: &[&[&str]]) -> Place {
    let mut shapes = Shapes::default();
    let column = |kind, traits| Column { parent: Some(0), kind, traits, values: 1 };
    shapes.columns.push(column(ColumnKind::Texts, ValueTraits::default()));
    for values in values {
        let mut traits = ValueTraits::default();
        values.iter().enumerate().for_each(|(at, value)| traits.add(value.as_bytes(), at == 0));
        let kind = match NumberFormat::guess(values[0].as_bytes()) {
            Some(format) => ColumnKind::Numbers { format, min: 0, max: 0 },
            None => ColumnKind::Texts,
        };
        shapes.columns.push(column(kind, traits));
    }
    let mut template = Template::default();
    for (at, literal) in text.split('@').enumerate() {
        if at > 0 {
            template.parts.push(Part::Slot(at as u32));
        }
        if !literal.is_empty() {
            template.parts.push(Part::Literal(literal.as_bytes().into()));
        }
    }
    places(&shapes, &template, cutting, &["f".to_owned()]).remove(0)
}

fn constant(text: &str) -> Place {
    Place::Constant(text.into())
}

#[test]
fn pairs_are_found_in_templates() {
    for (text, values, expected) in [
        ("at @ f=@ x", &[&["12"][..], &["ab", "c"]][..], Place::Slot(2)),
        ("f=@", &[&["ab"]], Place::Slot(1)),
        ("f=\"@\" x", &[&["a b"]], Place::Slot(1)),
        ("f=plain a=@", &[&["b"]], constant("plain")),
        ("f=1 f=@", &[&["b"]], constant("1")),
        ("g=@", &[&["b"]], Place::Absent),
        ("f == @", &[&["b"]], Place::Absent),
        ("a=\"f=@\"", &[&["b"]], Place::Absent),
        ("(@) f=@;", &[&["x y"], &["b=c"]], Place::Slot(2)),
        ("(f=@) x", &[&["12", "ab"]], Place::Slot(1)),
        ("[f=@] (g=@)", &[&["12"], &["3"]], Place::Slot(1)),
    ] {
        assert_eq!(place(KV, text, values), expected, "{text}");
    }
    let parts = [Part::Literal(b"/v".as_slice().into()), Part::Slot(1), Part::Literal(b"?p".as_slice().into())];
    assert_eq!(place(KV, "f=/v@?p x", &[&["2"]]), Place::Composite(parts.into()));
}

#[test]
fn values_that_may_move_the_bounds_leave_it_to_the_text() {
    for (text, values) in [
        ("f=@", &[&["a", "b c"][..]][..]),
        ("(f=@)", &[&["a", "b(c"]]),
        ("f=@ x", &[&["a", "b)"]]),
        ("f=a(@) x", &[&["a", "b("]]),
        ("f=@ x", &[&["a", "b;"]]),
        ("f=@ x", &[&["a", ""]]),
        ("f=@ x", &[&["=a"]]),
        ("f=\"@\"", &[&["a", "b\"c"]]),
        ("f=\"@\"", &[&["a", " b"]]),
        ("f=\"@\"", &[&["a", ""]]),
        ("f=\"x @", &[&["a"]]),
        ("@ f=1", &[&["a", "f=2"]]),
        ("@f=1", &[&["a"]]),
        ("@=1 f=1", &[&["g"]]),
        ("@ f=1", &[&["{}"]]),
        ("@ f=1", &[&[" x"]]),
    ] {
        assert_eq!(place(KV, text, values), Place::Text, "{text} {values:?}");
    }
    assert_eq!(place(KV, "@f=1", &[&["a:"]]), constant("1"));
    let escaped = Cutting { kv_mode: KvMode::AutoEscaped, ..KV };
    assert_eq!(place(escaped, "f=\"@\"", &[&["a\\"]]), Place::Text);
    assert_eq!(place(escaped, "f=\"@\"", &[&["a"]]), Place::Slot(1));
    assert_eq!(place(Cutting { by_pattern: true, ..KV }, "f=1", &[]), Place::Text);
    assert_eq!(place(Cutting { kv_mode: KvMode::None, ..KV }, "f=1", &[]), Place::Absent);
}

#[test]
fn json_is_found_in_templates() {
    for (text, values, expected) in [
        ("{\"f\":\"@\"}", &[&["a=b", ""][..]][..], Place::Slot(1)),
        ("{\"f\":@,\"g\":1}", &[&["12"]], Place::Slot(1)),
        ("{\"g\":\"@\",\"f\":\"x\"}", &[&["a"]], constant("x")),
        ("{\"a\":{\"f\":@}}", &[&["12"]], Place::Absent),
        // A quote inside, an escape, a key, a word, a part of a number, several values, and no JSON at all.
        ("{\"f\":\"@\"}", &[&["a\"b"]], Place::Text),
        ("{\"f\":\"@\"}", &[&["a\\n"]], Place::Text),
        ("{\"@\":\"x\",\"f\":1}", &[&["f"]], Place::Text),
        ("{\"f\":@}", &[&["true"]], Place::Text),
        ("{\"f\":1@}", &[&["12"]], Place::Text),
        ("{\"f\":@.5}", &[&["12"]], Place::Text),
        ("{\"f\":1,\"f\":\"@\"}", &[&["a"]], Place::Text),
        ("{\"f\":\"@\"} x", &[&["a"]], Place::Text),
    ] {
        assert_eq!(place(KV, text, values), expected, "{text} {values:?}");
    }
}
