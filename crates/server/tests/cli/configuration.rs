//! Configuration errors are reported once, and listed by `btool check`.

use crate::support::Place;

#[test]
fn faults_are_listed_and_told_once() {
    let place = Place::new();
    assert_eq!(place.run(&["btool", "check"]).good(), "no faults found\n");
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
        "(2 of this file ask for it)",
        "maxWarmDBCount is not supported",
        "did you mean frozenTimePeriodInSecs?",
    ] {
        assert_eq!(checked.out.matches(fault).count(), 1, "{fault}: {}", checked.out);
    }
    let log = place.write("a.log", "one\n");
    let added = place.run(&["add", "oneshot", &log]);
    assert_eq!(added.err.matches("this file has no effect").count(), 1, "{}", added.err);
    assert_eq!(added.err.matches("btool check` lists all faults").count(), 1, "{}", added.err);
    // Later commands have the same errors; only a new one is reported.
    let more = place.write("b.log", "two\n");
    let quiet = |arguments: &[&str]| {
        let ran = place.run(arguments);
        assert!(!ran.err.contains("no effect") && !ran.err.contains("btool check"), "{ran:?}");
        ran
    };
    quiet(&["add", "oneshot", &more, "--index", "other"]).good();
    quiet(&["bucket", "thaw", "nowhere"]);
    quiet(&["bucket", "compact"]).good();
    quiet(&["preview", &more]).good();
    conf("props.conf", "[a]\nTIME_FORMATT = x\n");
    let told = place.run(&["preview", &more]);
    assert!(told.err.contains("did you mean TIME_FORMAT?") && !told.err.contains("no effect"), "{told:?}");
    let found = place.run(&["search", "*", "-o", "raw"]);
    assert_eq!((found.out.as_str(), found.err.contains("no effect")), ("one\n", false));
    let error = place.run(&["btool", "props"]);
    assert!(error.code == 2 && error.err.contains("btool props list"), "{error:?}");
}
