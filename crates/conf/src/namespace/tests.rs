use super::{Namespace, Sharing, View};
use crate::layers::tests::local;
use crate::layers::{ConfSource, Layer, Layers};
use crate::object_access::Readable;

/// A conf file of the app `name` in its `default` or `local` folder or in a user's folder.
fn file(name: &str, layer: Layer, conf: &str, text: &str) -> ConfSource {
    let file = format!("{name}/{layer:?}/{conf}.conf");
    ConfSource { layer, app: Some(name.to_owned()), file, text: text.to_owned() }
}

fn view(app: &str, others: &[(&str, &str)]) -> View {
    let namespace = Namespace::new("eva", app).unwrap().unwrap();
    View::new(namespace, others.iter().map(|(name, meta)| ((*name).to_owned(), Sharing::new(meta, ""))))
}

#[test]
fn namespace_names_are_wildcards_nobody_or_folders() {
    assert_eq!(Namespace::new("-", "shop"), Ok(None));
    assert_eq!(Namespace::new("eva", "-"), Ok(None));
    let shop = Namespace::new("nobody", "shop").unwrap().unwrap();
    assert_eq!((shop.app(), shop.user()), ("shop", None));
    assert_eq!(Namespace::new("eva", "shop").unwrap().unwrap().without_user(), shop);
    for name in ["", ".", "..", "a/b", "a\\b", ".hidden", "a\0"] {
        assert!(Namespace::new("eva", name).is_err(), "{name:?}");
        assert!(Namespace::new(name, "-").is_err(), "{name:?}");
    }
}

#[test]
fn the_most_specific_export_applies_and_local_overrides_default() {
    let sharing = Sharing::new(
        "[]\naccess = read : [ * ]\nexport = system\n[props]\nexport = none\n[props/web]\nexport = System\n\
         [macros/a%2Fb%281%29]\nexport = none\n[lookups]\nowner = eva\n[tags/host%3Dx/y]\nexport = none\n",
        "[props/web/EXTRACT-a]\nexport = none\n[props/db]\nexport = system\n[transforms]\nexport = none\n[eventtypes]\nexport =\n",
    );
    let seen = |path: &[&str]| sharing.exports(path);
    assert!(seen(&["savedsearches", "x"]), "[] applies to objects without a stanza of their own");
    assert!(seen(&["lookups", "x.csv"]), "a stanza without export is ignored");
    assert!(!seen(&["props", "mail"]) && seen(&["props", "web"]) && seen(&["props", "db"]));
    assert!(seen(&["props", "web", "EXTRACT-b"]) && !seen(&["props", "web", "EXTRACT-a"]));
    assert!(!seen(&["macros", "a/b(1)"]) && seen(&["macros", "a"]));
    assert!(!seen(&["tags", "host=x", "y"]) && seen(&["tags", "host=x", "z"]));
    assert!(!seen(&["transforms", "x"]) && !seen(&["eventtypes", "x"]));
    let over = Sharing::new("[props/a]\nexport = system\n", "[props/a]\nexport = none\n");
    assert!(!over.exports(&["props", "a"]));
    assert!(
        !Sharing::new("[props/a%]\nowner = x\n", "").exports(&["props", "a%"]),
        "without export an object is not shared"
    );
    assert!(Sharing::new("[props/a%é%zz%+1]\nexport = system\n", "").exports(&["props", "a%é%zz%+1"]));
}

#[test]
fn models_have_two_metadata_kinds() {
    let view = view(
        "shop",
        &[("a", "[]\nexport = system\n[datamodels]\nexport = none\n"), ("b", "[models/Web]\nexport = system\n")],
    );
    assert!(view.is_model_visible("shop", "Web") && !view.is_model_visible("a", "Web"));
    assert!(
        view.is_model_visible("b", "Web")
            && !view.is_model_visible("b", "Mail")
            && !view.is_model_visible("gone", "Web")
    );
}

#[test]
fn precedence_is_user_app_other_apps_system() {
    let macros = |names: &[&str], value: &str| -> String {
        names.iter().map(|name| format!("[{name}]\ndefinition = {value}\n")).collect()
    };
    let all = ["user", "local", "default", "z", "z_default", "a", "system"];
    let sources = [
        file("m", Layer::User, "macros", &macros(&all[..1], "user")),
        file("a", Layer::AppLocal, "macros", &macros(&all[..6], "a")),
        file("z", Layer::AppLocal, "macros", &macros(&all[..4], "z")),
        file("z", Layer::AppDefault, "macros", &macros(&all[..5], "z_default")),
        file("hidden", Layer::AppLocal, "macros", &macros(&["hidden", "system", "a"], "hidden")),
        file("m", Layer::AppDefault, "macros", &macros(&all[..3], "default")),
        file("m", Layer::AppLocal, "macros", &macros(&all[..2], "local")),
        local("macros", &macros(&all, "system")),
    ];
    let shared = "[macros]\nexport = system\n";
    let view = view("m", &[("a", shared), ("z", shared), ("m", ""), ("hidden", "[props]\nexport = system\n")]);
    assert_eq!(view.apps().collect::<Vec<_>>(), ["m", "z", "hidden", "a"]);
    let layers = Layers::for_view(sources.clone(), &view, &Readable::unrestricted());
    for name in all {
        assert_eq!(layers.conf("macros").get(name, "definition"), Some(name), "{name}");
    }
    assert!(layers.conf("macros").stanza("hidden").is_none());
    // Without a namespace, the user's files are ignored and system/local has the highest precedence.
    let whole = Layers::new(sources);
    assert!(all.iter().all(|name| whole.conf("macros").get(name, "definition") == Some("system")));
    assert_eq!(whole.conf("macros").get("hidden", "definition"), Some("hidden"));
}

#[test]
fn only_shared_objects_of_other_apps_are_merged() {
    let sources = [
        file(
            "ta",
            Layer::AppDefault,
            "props",
            "[web]\nEXTRACT-a = (?<a>x)\nEXTRACT-b = (?<b>x)\n[db]\nEXTRACT-c = (?<c>x)\n",
        ),
        file("ta", Layer::AppLocal, "props", "[default]\nKV_MODE = none\n[mail]\nEXTRACT-d = (?<d>x)\n"),
        file("shop", Layer::AppDefault, "props", "[web]\nEXTRACT-b = (?<own>x)\n"),
    ];
    let meta = "[props/web/EXTRACT-a]\nexport = system\n[props/mail]\nexport = system\n";
    let layers = Layers::for_view(sources, &view("shop", &[("ta", meta)]), &Readable::unrestricted());
    let props = layers.conf("props");
    assert_eq!(props.get("web", "EXTRACT-a"), Some("(?<a>x)"));
    assert_eq!(props.get("web", "EXTRACT-b"), Some("(?<own>x)"));
    assert_eq!(props.get("mail", "EXTRACT-d"), Some("(?<d>x)"));
    assert!(props.stanza("db").is_none());
    assert_eq!(props.get("other", "KV_MODE"), Layers::new([]).conf("props").get("other", "KV_MODE"));
}

#[test]
fn rules_that_commands_name_follow_app_and_user() {
    for conf in ["alert_actions", "multikv", "savedsearches", "transactiontypes"] {
        let sources = [
            file("shop", Layer::User, conf, "[mine]\na = 1\n"),
            file("shop", Layer::AppDefault, conf, "[ours]\na = 1\n"),
            file("ta", Layer::AppDefault, conf, "[theirs]\na = 1\n"),
        ];
        let seen = Layers::for_view(sources, &view("shop", &[("ta", "")]), &Readable::unrestricted());
        let names: Vec<&str> = seen.conf(conf).stanzas().iter().map(|stanza| stanza.name.as_str()).collect();
        // The built-in saved searches are not compared.
        let of_apps = names.iter().filter(|name| matches!(**name, "ours" | "mine" | "theirs")).collect::<Vec<_>>();
        assert_eq!(of_apps, [&"ours", &"mine"], "{conf}");
    }
}

#[test]
fn index_time_settings_are_equal_in_every_namespace() {
    let sources = [
        file(
            "ta",
            Layer::AppDefault,
            "props",
            "[web]\nTZ = UTC\nDATETIME_CONFIG = NONE\nKV_MODE = none\nrename = x\n[db]\nKV_MODE = json\n",
        ),
        file("shop", Layer::AppLocal, "props", "[web]\nTZ = Asia/Tokyo\nKV_MODE = xml\nTRUNCATE = many\n"),
        file("shop", Layer::User, "props", "[web]\nTZ = Europe/Berlin\nEVAL-a = 1\nKV_MODE = often\n"),
        local("props", "[web]\nTZ = Europe/Paris\n"),
    ];
    let (whole, seen) = (
        Layers::new(sources.clone()),
        Layers::for_view(sources, &view("shop", &[("ta", "")]), &Readable::unrestricted()),
    );
    let both = |key| (whole.conf("props").get("web", key), seen.conf("props").get("web", key));
    assert_eq!(both("TZ"), (Some("Europe/Paris"), Some("Europe/Paris")));
    assert_eq!(both("DATETIME_CONFIG"), (Some("NONE"), Some("NONE")));
    assert_eq!(both("KV_MODE"), (Some("xml"), Some("xml")));
    assert_eq!(both("rename"), (Some("x"), None));
    assert_eq!(both("EVAL-a"), (None, Some("1")));
    assert!(whole.conf("props").stanza("db").is_some() && seen.conf("props").stanza("db").is_none());
    let reported = |layers: &Layers| layers.warnings().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        (reported(&whole).len(), reported(&seen).len()),
        (1, 2),
        "each once, the user's own too: {:?}",
        reported(&seen)
    );
}

#[test]
fn node_settings_are_equal_in_every_namespace() {
    let sources = [
        file("ta", Layer::AppDefault, "indexes", "[sales]\nfrozenTimePeriodInSecs = 5\n"),
        file("shop", Layer::AppLocal, "limits", "[search]\nmax_mem_usage_mb = 7\n"),
        file("shop", Layer::User, "limits", "[search]\nmax_mem_usage_mb = 8\n"),
        local("limits", "[search]\nmax_mem_usage_mb = 6\n"),
    ];
    let layers = Layers::for_view(sources, &view("shop", &[("ta", "")]), &Readable::unrestricted());
    assert_eq!(layers.conf("indexes").get("sales", "frozenTimePeriodInSecs"), Some("5"));
    assert_eq!(layers.conf("limits").get("search", "max_mem_usage_mb"), Some("6"));
}
