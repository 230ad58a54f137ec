use super::{BtoolRow, ConfSource, Layer, Layers};

/// A conf file in system/local.
pub(crate) fn local(conf: &str, text: &str) -> ConfSource {
    let file = format!("etc/system/local/{conf}.conf");
    ConfSource { layer: Layer::SystemLocal, app: None, file, text: text.to_owned() }
}

fn app(name: &str, layer: Layer, text: &str) -> ConfSource {
    let folder = if layer == Layer::AppLocal { "local" } else { "default" };
    let file = format!("etc/apps/{name}/{folder}/props.conf");
    ConfSource { layer, app: Some(name.to_owned()), file, text: text.to_owned() }
}

#[test]
fn each_setting_comes_from_its_highest_layer() {
    let settings = |from: &[&str], value: &str| -> String {
        let lines: String = from.iter().map(|key| format!("{key} = {value}\n")).collect();
        format!("[s]\n{lines}")
    };
    let layers = Layers::new([
        local("props", &settings(&["TZ"], "UTC")),
        app("b", Layer::AppLocal, &settings(&["TRUNCATE", "MAX_EVENTS"], "2")),
        app("a", Layer::AppDefault, &settings(&["TRUNCATE", "MAX_EVENTS", "MAX_DAYS_AGO", "MAX_DAYS_HENCE"], "3")),
        app("b", Layer::AppDefault, &settings(&["MAX_DAYS_AGO", "MAX_DIFF_SECS_AGO"], "4")),
        app("a", Layer::AppLocal, &settings(&["TRUNCATE"], "1")),
    ]);
    let get = |key| layers.conf("props").get("s", key);
    assert_eq!(get("TZ"), Some("UTC"));
    assert_eq!(get("TRUNCATE"), Some("1"), "of two apps the one that sorts first");
    assert_eq!(get("MAX_EVENTS"), Some("2"), "local has precedence over default in every app");
    assert_eq!(get("MAX_DAYS_AGO"), Some("3"));
    assert_eq!(get("MAX_DIFF_SECS_AGO"), Some("4"));
    assert_eq!(get("MAX_DIFF_SECS_HENCE"), Some("604800"), "built in, inherited from [default]");
}

#[test]
fn stanzas_override_default_in_every_layer() {
    let layers = Layers::without_builtin([
        app("a", Layer::AppDefault, "[s]\nTRUNCATE = 5\n"),
        local("props", "[default]\nTRUNCATE = 6\n"),
    ]);
    assert_eq!(layers.conf("props").get("s", "TRUNCATE"), Some("5"));
    assert_eq!(layers.conf("props").get("t", "TRUNCATE"), Some("6"));
}

#[test]
fn invalid_values_expose_the_lower_layer() {
    let layers =
        Layers::new([app("a", Layer::AppDefault, "[s]\nTRUNCATE = 5\n"), local("props", "[s]\nTRUNCATE = five\n")]);
    assert_eq!(layers.conf("props").get("s", "TRUNCATE"), Some("5"));
}

#[test]
fn btool_rows_name_file_and_line() {
    let layers = Layers::without_builtin([
        app("a", Layer::AppDefault, "TZ = UTC\n[s]\nTRUNCATE = 5\n"),
        local("props", "\n[s]\n# why\nMAX_EVENTS = 9\n[t]\n"),
    ]);
    let app_file = "etc/apps/a/default/props.conf";
    let own_file = "etc/system/local/props.conf";
    let row = |file, line, key, value| BtoolRow { file, line, stanza: "s", key, value };
    let expected =
        [row(own_file, 4, "MAX_EVENTS", "9"), row(app_file, 3, "TRUNCATE", "5"), row(app_file, 1, "TZ", "UTC")];
    assert_eq!(layers.btool("props", Some("s")), expected);
    assert_eq!(layers.btool("props", None).len(), 5, "[default], [s] and [t] each with TZ");
}
