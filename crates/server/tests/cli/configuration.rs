//! Configuration errors are reported once, and listed by `btool check`.

use crate::server::Server;
use crate::support::{Place, wait_until};

#[test]
fn settings_that_would_store_other_texts_are_faults() {
    let place = Place::new();
    std::fs::create_dir_all(place.data().join("etc/system/local")).unwrap();
    let conf = |name: &str, text: &str| std::fs::write(place.data().join("etc/system/local").join(name), text).unwrap();
    conf(
        "props.conf",
        "[x]\nSEDCMD-a = zz\nSEDCMD-b = s/a/b/\nCHARSET = KLINGON\n[y]\nTRANSFORMS-t = odd\n\
         [source::/var/log/*]\nCHARSET = VULCAN\nTRANSFORMS-t = even\n[host::web*]\nSEDCMD-c = s/(/x/\n",
    );
    conf(
        "transforms.conf",
        "[odd]\nREGEX = (\nDEST_KEY = queue\nFORMAT = nullQueue\n[even]\nREGEX = [\nDEST_KEY = queue\nFORMAT = a\n",
    );
    conf("inputs.conf", "[tcp://99999]\n[udp://web:syslog]\n[tcp://5140]\n");
    let checked = place.run(&["btool", "check"]);
    assert_eq!(checked.code, 2, "{checked:?}");
    for fault in [
        "SEDCMD-a of [x]",
        "KLINGON",
        "REGEX of [odd]",
        "CHARSET of [source::/var/log/*]",
        "SEDCMD-c of [host::web*]",
        "REGEX of [even]",
        "inputs.conf [tcp://99999]: its name does not end in a port",
        "inputs.conf [udp://web:syslog]: its name does not end in a port",
    ] {
        assert_eq!(checked.out.matches(fault).count(), 1, "{fault}: {}", checked.out);
    }
    assert!(!checked.out.contains("SEDCMD-b") && !checked.out.contains("5140"), "{}", checked.out);
}

#[test]
fn knowledge_without_effect_is_a_fault() {
    let place = Place::new();
    std::fs::create_dir_all(place.data().join("etc/system/local")).unwrap();
    let conf = |name: &str, text: &str| std::fs::write(place.data().join("etc/system/local").join(name), text).unwrap();
    conf("props.conf", "[x]\nLOOKUP-z = gone f OUTPUT g\n");
    conf("transforms.conf", "[odd]\nREGEX = (a\n[even]\nREGEX = (a)\n");
    conf("eventtypes.conf", "[e]\nsearch = a | stats count\n[f]\nsearch = `m` (\n[g]\nsearch = a OR b\n");
    conf("macros.conf", "[m(1)]\nargs = x, y\ndefinition = $x$\n[n(2)]\nargs = x,y\ndefinition = $x$\n");
    conf("inputs.conf", "[monitor:///no/such/log]\nindex = Web\n");
    let checked = place.run(&["btool", "check"]);
    assert_eq!((checked.code, checked.out.lines().count()), (2, 5), "{checked:?}");
    for fault in [
        "props.conf:2: [x] LOOKUP-z: transforms.conf has no stanza [gone]",
        "transforms.conf:2: [odd] REGEX: ",
        "eventtypes.conf:2: [e] search: ",
        "macros.conf:2: [m(1)] args: names 2 arguments",
        "inputs.conf [monitor:///no/such/log]: index Web: a name must consist of",
    ] {
        assert_eq!(checked.out.matches(fault).count(), 1, "{fault}: {}", checked.out);
    }
}

#[test]
fn btool_shows_the_settings_of_an_app() {
    let place = Place::new();
    let local = place.data().join("etc/apps/shop/local");
    std::fs::create_dir_all(&local).unwrap();
    std::fs::write(local.join("props.conf"), "[a]\nKV_MODE = json\n").unwrap();
    assert_eq!(place.run(&["btool", "props", "list", "--app=shop"]).expect_success(), "[a]\nKV_MODE = json\n");
    assert_eq!(place.run(&["btool", "props", "list", "--app=other"]).expect_success(), "");
}

#[test]
fn knowledge_edited_by_hand_applies_while_a_server_runs() {
    let place = Place::new();
    let log = place.write("a.log", "one\ntwo\n");
    place.run(&["add", "oneshot", &log]).expect_success();
    let server = Server::start(&place);
    let searched = || place.run(&["search", "`m` | stats count", "-o", "csv"]);
    assert_eq!(searched().code, 3);
    let local = place.data().join("etc/system/local");
    std::fs::create_dir_all(&local).unwrap();
    std::fs::write(local.join("macros.conf"), "[m]\ndefinition = two\n").unwrap();
    assert!(wait_until(|| searched().out == "count\n1\n"));
    drop(server);
}

#[test]
fn faults_are_listed_and_reported_once() {
    let place = Place::new();
    assert_eq!(place.run(&["btool", "check"]).expect_success(), "no faults found\n");
    std::fs::create_dir_all(place.data().join("etc/system/local")).unwrap();
    let conf = |name: &str, text: &str| std::fs::write(place.data().join("etc/system/local").join(name), text).unwrap();
    conf("authentication.conf", "[x]\nauthType = LDAP\n[y]\nauthType = LDAP\n");
    conf("savedsearches.conf", "[a]\nsearch = *\nenableSched = 1\n[b]\nsearch = *\nenableSched = 1\n");
    conf("indexes.conf", "[web]\nmaxWarmDBCount = 10\nfrozenTimePeriodInSec = 5\n");
    let checked = place.run(&["btool", "check"]);
    assert_eq!(checked.code, 2, "{checked:?}");
    for fault in [
        "authentication.conf:1: [x] this file has no effect",
        "enableSched has no effect",
        "(2 in this file have a schedule)",
        "maxWarmDBCount is not supported",
        "did you mean frozenTimePeriodInSecs?",
    ] {
        assert_eq!(checked.out.matches(fault).count(), 1, "{fault}: {}", checked.out);
    }
    let log = place.write("a.log", "one\n");
    let added = place.run(&["add", "oneshot", &log]);
    assert_eq!(added.err.matches("this file has no effect").count(), 1, "{}", added.err);
    assert_eq!(added.err.matches("btool check` lists all faults").count(), 1, "{}", added.err);
    // Later commands find the same errors, but report only an error that is new.
    let more = place.write("b.log", "two\n");
    let quiet = |arguments: &[&str]| {
        let ran = place.run(arguments);
        assert!(!ran.err.contains("no effect") && !ran.err.contains("btool check"), "{ran:?}");
        ran
    };
    quiet(&["add", "oneshot", &more, "--index", "other"]).expect_success();
    quiet(&["bucket", "thaw", "nowhere"]);
    quiet(&["bucket", "compact"]).expect_success();
    quiet(&["preview", &more]).expect_success();
    conf("props.conf", "[a]\nTIME_FORMATT = x\n");
    let reported = place.run(&["preview", &more]);
    assert!(reported.err.contains("did you mean TIME_FORMAT?") && !reported.err.contains("no effect"), "{reported:?}");
    let found = place.run(&["search", "*", "-o", "raw"]);
    assert_eq!((found.out.as_str(), found.err.contains("no effect")), ("one\n", false));
    let error = place.run(&["btool", "props"]);
    assert!(error.code == 2 && error.err.contains("btool props list"), "{error:?}");
}

#[test]
fn unused_stanzas_are_listed() {
    let place = Place::new();
    std::fs::create_dir_all(place.data().join("etc/system/local")).unwrap();
    let conf = |name: &str, text: &str| std::fs::write(place.data().join("etc/system/local").join(name), text).unwrap();
    conf("inputs.conf", "[montor:///var/log]\n[monitor://tmp/rel]\n[wether://rome]\n[monitor:///off]\ndisabled = 1\n");
    conf("props.conf", "[sorce::/x]\nTZ = UTC\n");
    conf("outputs.conf", "[tcput:all]\nserver = a:9997\n");
    let checked = place.run(&["btool", "check"]);
    let reported: Vec<&str> = checked.out.lines().collect();
    assert_eq!((checked.code, reported.len()), (2, 5), "{checked:?}");
    for (place, fault) in [
        ("inputs.conf [montor:///var/log]", "did you mean [monitor:///var/log]?"),
        ("inputs.conf [monitor://tmp/rel]", "as in [monitor:///tmp/rel]"),
        ("inputs.conf [wether://rome]", "the input is ignored"),
        ("props.conf:1: [sorce::/x]", "did you mean [source::/x]?"),
        ("outputs.conf:1: [tcput:all]", "did you mean [tcpout:all]?"),
    ] {
        assert!(reported.iter().any(|line| line.contains(place) && line.ends_with(fault)), "{place}: {checked:?}");
    }
}
