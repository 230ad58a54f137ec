use proptest::prelude::*;

use super::Conf;

fn value(text: &str, stanza: &str, key: &str) -> Option<String> {
    let (conf, warnings) = Conf::parse("x.conf", text);
    assert!(warnings.is_empty(), "{warnings:?}");
    conf.stanza(stanza).and_then(|stanza| stanza.get(key)).map(str::to_owned)
}

#[test]
fn settings_before_any_stanza_are_defaults() {
    assert_eq!(value("a = 1\n[default]\nb = 2\n", "default", "a").as_deref(), Some("1"));
    assert_eq!(value("a = 1\n[default]\nb = 2\n", "default", "b").as_deref(), Some("2"));
}

#[test]
fn only_the_first_equals_sign_splits_and_backslashes_stay() {
    assert_eq!(value("[a]\nb=c = \\d+\\\\w # no comment\n", "a", "b").as_deref(), Some("c = \\d+\\\\w # no comment"));
}

#[test]
fn a_backslash_at_the_end_continues() {
    assert_eq!(value("[a]\nb = one \\\n  two\\\n\nc = 3\n", "a", "b").as_deref(), Some("one \n  two"));
    assert_eq!(value("[a]\r\nb = one\\\r\ntwo\r\n", "a", "b").as_deref(), Some("one\ntwo"));
    assert_eq!(value("[a]\nb = one\\", "a", "b").as_deref(), Some("one"));
}

#[test]
fn equal_stanzas_are_merged_and_the_last_setting_wins() {
    let (conf, _) = Conf::parse("x.conf", "[a]\nb = 1\nc = 1\n[d]\n[a]\nb = 2\n");
    let names: Vec<&str> = conf.stanzas.iter().map(|stanza| stanza.name.as_str()).collect();
    assert_eq!(names, ["a", "d"]);
    let read: Vec<_> = conf.stanzas[0].settings.iter().map(|s| (s.key.as_str(), s.value.as_str(), s.line)).collect();
    assert_eq!(read, [("b", "2", 6), ("c", "1", 3)]);
}

#[test]
fn names_may_contain_brackets_and_byte_order_marks_are_skipped() {
    assert_eq!(value("\u{feff}[source::/x/[0-9]]\nb = 1\n", "source::/x/[0-9]", "b").as_deref(), Some("1"));
}

proptest! {
    #[test]
    fn any_text_parses_with_valid_line_numbers(text in "[a\\[\\]=#\\\\ \n\r\u{e9}]{0,60}") {
        let (conf, warnings) = Conf::parse("x.conf", &text);
        let lines = u32::try_from(text.lines().count()).unwrap();
        for setting in conf.stanzas.iter().flat_map(|stanza| &stanza.settings) {
            prop_assert!((1..=lines).contains(&setting.line));
            prop_assert_eq!(setting.value.trim(), &setting.value);
        }
        prop_assert!(warnings.iter().all(|warning| (1..=lines).contains(&warning.line)));
    }

    #[test]
    fn written_settings_are_read_back(
        settings in proptest::collection::btree_map("[A-Za-z][A-Za-z0-9_-]{0,8}", "([!-\\[\\]-~]([ -\\[\\]-~]{0,8}[!-\\[\\]-~])?)?", 0..6),
    ) {
        let text: String = settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        let (conf, warnings) = Conf::parse("x.conf", &format!("[s]\n{text}"));
        prop_assert!(warnings.is_empty());
        let read = conf.stanzas[0].settings.iter().map(|s| (s.key.clone(), s.value.clone())).collect();
        prop_assert_eq!(settings, read);
    }
}
