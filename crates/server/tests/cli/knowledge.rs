//! An add-on copied into the data directory: its fields, lookups, event types and tags apply to the next search.

use crate::support::Place;

const EVENTS: &str = "2026-11-20T00:00:01Z vpn[1]: login by uid=eva code=1 from=10.1.2.3\n\
                      2026-11-20T00:00:02Z vpn[1]: login by uid=tom code=0 from=192.0.2.9\n\
                      2026-11-20T00:00:03Z vpn[1]: login by uid=eva code=1 from=192.0.2.9\n\
                      2026-11-20T00:00:04Z vpn[1]: tunnel up user=eva action=failure\n";
const PROPS: &str = "[vpn]\nSHOULD_LINEMERGE = false\nREPORT-process = vpn_process\nFIELDALIAS-user = uid AS user from AS src\n\
                     EVAL-app = lower(\"VPN\")\nLOOKUP-action = vpn_codes code OUTPUT action\n\
                     LOOKUP-zone = vpn_zones net AS src OUTPUTNEW zone\n";
const TRANSFORMS: &str = "[vpn_process]\nREGEX = (\\w+)\\[(\\d+)\\]\nFORMAT = process::$1 process_id::$2\n\
                          [vpn_codes]\nfilename = vpn_codes.csv\n\
                          [vpn_zones]\nfilename = vpn_zones.csv\nmatch_type = CIDR(net)\nmax_matches = 1\n";

fn install(place: &Place) {
    let app = place.data().join("etc/apps/TA_vpn");
    let write = |path: &str, text: &str| {
        let path = app.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("default/props.conf", PROPS);
    write("default/transforms.conf", TRANSFORMS);
    write("default/eventtypes.conf", "[vpn_login]\nsearch = sourcetype=vpn login\n");
    write("default/tags.conf", "[eventtype=vpn_login]\nauthentication = enabled\n");
    write("lookups/vpn_codes.csv", "code,action\n0,success\n1,failure\n");
    write("lookups/vpn_zones.csv", "net,zone\n10.0.0.0/8,inside\n0.0.0.0/0,outside\n");
}

#[test]
fn add_ons_add_fields_and_tags_to_events() {
    let place = Place::new();
    let log = place.write("vpn.log", EVENTS);
    place.run(&["add", "oneshot", &log, "--sourcetype", "vpn"]).expect_success();
    let csv = |search: &str| place.run(&["search", search, "-o", "csv"]).expect_success();
    assert_eq!(csv("tag=authentication action=failure | stats count by user"), "");
    install(&place);
    assert_eq!(csv("tag=authentication action=failure | stats count by user"), "user,count\neva,2\n");
    let fields = "zone=inside | table user action app process process_id zone eventtype tag";
    let row = "eva,failure,vpn,vpn,1,inside,vpn_login,authentication\n";
    assert_eq!(csv(fields), format!("user,action,app,process,process_id,zone,eventtype,tag\n{row}"));
    let model =
        "| tstats count from datamodel=Authentication where Authentication.action=failure by Authentication.user";
    assert_eq!(csv(model), "Authentication.user,count\neva,2\n");
    assert_eq!(csv("NOT eventtype=vpn_login | stats count"), "count\n1\n");
}

#[test]
fn collections_are_persistent_tables() {
    let place = Place::new();
    let local = place.data().join("etc/system/local");
    std::fs::create_dir_all(&local).unwrap();
    let stanza = "[users]\nexternal_type = kvstore\ncollection = people\nfields_list = _key, user, city\n";
    std::fs::write(local.join("transforms.conf"), stanza).unwrap();
    let search = |text: &str| place.run(&["search", text, "-o", "csv"]).expect_success();
    assert_eq!(search("| inputlookup users | stats count"), "count\n0\n");
    let rows =
        "| makeresults count=2 | streamstats count AS n | eval _key=\"k\".n, user=\"u\".n, city=\"Bonn\", other=1";
    search(&format!("{rows} | outputlookup users"));
    assert_eq!(
        search("| inputlookup users | table _key user city other"),
        "_key,user,city,other\nk1,u1,Bonn,\nk2,u2,Bonn,\n"
    );
    search("| makeresults | eval _key=\"k2\", user=\"u2\", city=\"Ulm\" | outputlookup append=t key_field=_key users");
    search("| makeresults | eval user=\"u3\" | outputlookup append=t users");
    assert_eq!(search("| inputlookup users | table user city | sort user"), "user,city\nu1,Bonn\nu2,Ulm\nu3,\n");
    let found = search("| makeresults | eval who=\"u2\" | lookup users user AS who OUTPUT city _key | table city _key");
    assert_eq!(found, "city,_key\nUlm,k2\n");
    assert_eq!(search("| inputlookup users where user=u3 | eval made=len(_key) | table made"), "made\n24\n");
}

#[test]
fn percentile_method_and_lookup_folder_are_configurable() {
    let place = Place::new();
    let rows = "| makeresults count=4 | streamstats count AS n | stats median(n) AS m p90(n) AS p";
    let csv = |search: &str| place.run(&["search", search, "-o", "csv"]).expect_success();
    assert_eq!(csv(rows), "m,p\n3,4\n");
    let local = place.data().join("etc/system/local");
    std::fs::create_dir_all(&local).unwrap();
    std::fs::write(local.join("limits.conf"), "[stats]\nperc_method = interpolated\n").unwrap();
    assert_eq!(csv(rows), "m,p\n2.5,3.7\n");
    let missing = place.run(&["search", "| inputlookup nosuch.csv"]);
    let says = "there is no lookup table nosuch.csv (looked for in transforms.conf, ";
    assert!(missing.code != 0 && missing.err.contains(says), "{missing:?}");
    assert!(missing.err.contains("etc/system/lookups); no table exists"), "{missing:?}");
    install(&place);
    let found = "| makeresults | eval a=json_extract(lookup(\"vpn_codes\", json_object(\"code\", 1), json_array(\"action\")), \"action\") \
                 | table a";
    assert_eq!(csv(found), "a\nfailure\n");
}

#[test]
fn rest_and_dbinspect_describe_the_node() {
    let place = Place::new();
    let local = place.data().join("etc/system/local");
    std::fs::create_dir_all(&local).unwrap();
    std::fs::write(local.join("server.conf"), "[general]\nserverName = idx-1\n").unwrap();
    let log = place.write("a.log", "2026-11-20T14:00:00Z one\n2026-11-20T14:00:01Z two\n");
    place.run(&["add", "oneshot", &log]).expect_success();
    let search = |text: &str| place.run(&["search", text, "-o", "csv"]).expect_success();
    let counted =
        search("| rest /services/data/indexes search=\"title=main\" | table title totalEventCount splunk_server");
    assert_eq!(counted, "title,totalEventCount,splunk_server\nmain,2,idx-1\n");
    let text = "report_as=text output_mode=json | spath input=value path=entry{}.name output=name | table name";
    assert_eq!(search(&format!("| rest splunk_server=local /services/server/info {text}")), "name\nserver-info\n");
    assert_eq!(search("| dbinspect index=* | table splunk_server"), "splunk_server\nidx-1\n");
    assert_eq!(search("| rest /servicesNS/-/search/server/info | stats count"), "count\n1\n");
    assert_eq!(search("| dbinspect index=* | table index eventCount state"), "index,eventCount,state\nmain,2,warm\n");
    let strict = place.run(&["search", "| rest /services/nosuch strict=t"]);
    assert!(strict.code != 0 && strict.err.contains("/services/data/indexes"), "{}", strict.err);
}
