use crate::Layers;
use crate::layers::tests::local;

fn warnings(conf: &str, text: &str) -> Vec<String> {
    Layers::new([local(conf, text)]).warnings().iter().map(ToString::to_string).collect()
}

#[test]
fn built_in_files_have_no_warnings() {
    assert_eq!(Layers::new([]).warnings(), []);
}

#[test]
fn invalid_values_fall_back_individually() {
    let layers = Layers::new([local("props", "[app]\nTRUNCATE = lots\nMAX_EVENTS = 5\n")]);
    let props = crate::PropsResolver::new(&layers).resolve("s", "h", "app");
    assert_eq!((props.truncate, props.max_events), (10_000, 5));
    assert_eq!(layers.warnings().len(), 1);
    assert_eq!(
        layers.warnings()[0].to_string(),
        "etc/system/local/props.conf:2: [app] TRUNCATE = lots: expected a whole number, 0 or more; \
         the value is ignored"
    );
}

#[test]
fn typos_in_names_get_a_hint() {
    let found = warnings("props", "[app]\nSHOULD_LINEMREGE = false\nEXTARCT-ip = (?<ip>.)\ncolour = red\n");
    let place = "etc/system/local/props.conf";
    assert_eq!(found[0], format!("{place}:2: [app] unknown setting SHOULD_LINEMREGE; did you mean SHOULD_LINEMERGE?"));
    assert_eq!(found[1], format!("{place}:3: [app] unknown setting EXTARCT-ip; did you mean EXTRACT-ip?"));
    assert_eq!(found[2], format!("{place}:4: [app] unknown setting colour"));
}

#[test]
fn settings_without_effect_are_reported_and_kept() {
    let layers = Layers::new([local("props", "[app]\nLEARN_MODEL = true\ncategory = Web\n")]);
    let found: Vec<String> = layers.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(found, ["etc/system/local/props.conf:2: [app] LEARN_MODEL is not supported; it has no effect"]);
    assert!(layers.btool("props", Some("app")).iter().any(|row| row.key == "LEARN_MODEL"));
}

/// Every setting with a row is read somewhere, so settings with rows must not be listed as having no effect.
#[test]
fn a_setting_with_a_row_is_never_without_effect() {
    for table in crate::tables::TABLES {
        for section in table.sections {
            let stanza = match section.stanza {
                crate::table::StanzaName::Named(name) => name.to_owned(),
                crate::table::StanzaName::Prefix(prefix) => format!("{prefix}x"),
                crate::table::StanzaName::Any => "x".to_owned(),
            };
            for row in section.rows {
                let key =
                    if row.name.ends_with(['-', '_', '.']) { format!("{}x", row.name) } else { row.name.to_owned() };
                let found = warnings(table.conf, &format!("[{stanza}]\n{key} = {}\n", row.default));
                assert!(
                    found.iter().all(|text| !text.contains("no effect") && !text.contains("unknown")),
                    "{}.conf: {found:?}",
                    table.conf
                );
            }
            // A setting that is listed without a stanza must have no row in any section, because a row would contradict
            // the list.
            let listed = table.unsupported.iter().chain(table.unused);
            let mut listed = listed.filter_map(|entry| crate::table::listed_name(entry, &stanza));
            let denied = listed.find(|name| section.rows.iter().any(|row| row.name == *name));
            assert_eq!(denied, None, "{}.conf [{stanza}]", table.conf);
        }
    }
    let found = warnings("limits", "[search]\nmax_mem_usage_mb = 9\n[mvexpand]\nmax_mem_usage_mb = 9\n");
    let text = "etc/system/local/limits.conf:4: [mvexpand] max_mem_usage_mb is not supported; it has no effect";
    assert_eq!(found, [text]);
    assert_eq!(warnings("indexes", "[m]\ndatatype = metric\n"), Vec::<String>::new());
    assert_eq!(warnings("indexes", "[m]\ndatatype = metrics\n").len(), 1);
}

/// `[default]` may have any setting of any kind of stanza, including capabilities.
#[test]
fn settings_of_roles_are_known_in_the_default_stanza() {
    let found = warnings("authorize", "[default]\nsrchJobsQuota = 5\nrun_collect = enabled\nsrchJobsQutoa = 5\n");
    let text =
        "etc/system/local/authorize.conf:4: [default] unknown setting srchJobsQutoa; did you mean srchJobsQuota?";
    assert_eq!(found, [text]);
}

#[test]
fn foreign_stanzas_are_ignored_and_misspelt_ones_reported() {
    assert!(warnings("limits", "[thruput]\nmaxKBps = 0\n").is_empty());
    let found = warnings("limits", "[subserch]\nmaxout = 5\n");
    assert_eq!(found, ["etc/system/local/limits.conf:1: [subserch] unknown stanza; did you mean [subsearch]?"]);
}

#[test]
fn misspelt_kinds_of_stanzas_are_named() {
    for (conf, stanza, told) in [
        ("props", "sorce::/x", Some("unknown stanza; did you mean [source::/x]?")),
        ("indexes", "voume:hot", Some("unknown stanza; did you mean [volume:hot]?")),
        ("outputs", "tcput:all", Some("unknown stanza; did you mean [tcpout:all]?")),
        ("authorize", "rol_ops", Some("unknown stanza; did you mean [role_ops]?")),
        ("outputs", "rfs:archive", Some("nothing reads a stanza of this kind; it has no effect")),
        ("outputs", "rfs:archive]\ndisabled = 1\n[default", None),
        ("inputs", "wether://rome", None),
        ("server", "clustering", None),
        ("props", "cisco:asa", None),
    ] {
        let found = warnings(conf, &format!("[{stanza}]\n"));
        assert_eq!(found.len(), usize::from(told.is_some()), "{conf} [{stanza}]: {found:?}");
        assert!(found.iter().zip(told).all(|(found, told)| found.ends_with(told)), "{conf} [{stanza}]: {found:?}");
    }
}

#[test]
fn confs_without_a_table_are_not_checked() {
    let layers = Layers::new([local("macros", "[errors(1)]\nargs = host\ndefinition = level=ERROR host=$host$\n")]);
    assert!(layers.warnings().is_empty());
    assert_eq!(layers.conf("macros").get("errors(1)", "args"), Some("host"));
}

#[test]
fn invalid_patterns_are_reported() {
    let found = warnings("props", "[source::...(?<!tar.)gz]\n[source::/x/(a|b)]\n[host::web*]\n");
    assert_eq!(found.len(), 1);
    assert!(found[0].contains(":1: [source::...(?<!tar.)gz] the pattern"), "{found:?}");
}

#[test]
fn files_and_schedules_without_effect_are_named_once_per_file() {
    let told = |conf: &str, text: &str| -> Vec<String> {
        Layers::new([local(conf, text)]).warnings().iter().map(ToString::to_string).collect()
    };
    let found = told("authentication", "[role_a]\nx = 1\ny = 2\n[role_b]\nx = 3\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("authentication.conf:1: [role_a] this file has no effect"), "{found:?}");
    assert_eq!(told("authentication", "# nothing\n"), Vec::<String>::new());
    let searches = "[a]\nsearch = x\nenableSched = 1\n[b]\nenableSched = 0\n[c]\nenableSched = true\n";
    let found = told("savedsearches", searches);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains(":3: [a] enableSched has no effect") && found[0].contains("(2 in this file"),
        "{found:?}"
    );
    assert_eq!(told("savedsearches", "[b]\nenableSched = 0\n"), Vec::<String>::new());
}
