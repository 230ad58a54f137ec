//! `dump` writes rows to files in the dispatch directory of the search.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::support::Place;

/// Paths and decompressed texts of dumped files below `dispatch/SID/dump`.
fn dumped(place: &Place) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for job in std::fs::read_dir(place.data().join("dispatch")).unwrap().flatten() {
        let folder = job.path().join("dump");
        collect(&folder, &folder, &mut found);
    }
    found
}

fn collect(top: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(top, &path, found);
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let mut text = String::new();
        match path.extension().is_some_and(|extension| extension == "gz") {
            true => flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap(),
            false => bytes.as_slice().read_to_string(&mut text).unwrap(),
        };
        let name = path.strip_prefix(top).unwrap().to_string_lossy().into_owned();
        assert!(found.insert(name, text).is_none(), "{}", path.display());
    }
}

const ROWS: &str = "| makeresults count=2 | streamstats count AS n | eval _time=1795186800, _raw=\"event \".n, \
                    text=\"a<b, \".n, several=if(n=1, split(\"x y\", \" \"), null()), _secret=1";

#[test]
fn rows_are_written_in_every_format() {
    let place = Place::new();
    let search = |text: &str| place.run(&["search", &format!("{ROWS} | {text}"), "-o", "csv"]);
    let shown = search("dump basefilename=a | table n").expect_success();
    assert_eq!(shown, "n\n1\n2\n");
    search("dump basefilename=b format=csv compress=0 fields=n,text").expect_success();
    search("dump basefilename=c format=tsv fields=\"n, text\" compress=9").expect_success();
    search("dump basefilename=d format=json compress=0 fields=n,several").expect_success();
    search("dump basefilename=e format=xml compress=0 fields=text,several").expect_success();
    search("dump basefilename=f format=csv compress=0").expect_success();
    let files = dumped(&place);
    let file = |name: &str| files.get(name).map(String::as_str);
    assert_eq!(file("a_1.raw.gz"), Some("event 1\nevent 2\n"), "{files:?}");
    assert_eq!(file("b_1.csv"), Some("n,text\n1,\"a<b, 1\"\n2,\"a<b, 2\"\n"));
    assert_eq!(file("c_1.tsv.gz"), Some("n\ttext\n1\ta<b, 1\n2\ta<b, 2\n"));
    assert_eq!(file("d_1.json"), Some("{\"n\":\"1\",\"several\":[\"x\",\"y\"]}\n{\"n\":\"2\"}\n"));
    let xml = "<?xml version='1.0' encoding='UTF-8'?>\n<results>\n<result><field k=\"text\"><value><text>a&lt;b, 1</text>\
               </value></field><field k=\"several\"><value><text>x</text></value><value><text>y</text></value></field>\
               </result>\n<result><field k=\"text\"><value><text>a&lt;b, 2</text></value></field></result>\n</results>\n";
    assert_eq!(file("e_1.xml"), Some(xml));
    let head = file("f_1.csv").and_then(|text| text.lines().next()).unwrap_or_default();
    assert!(head.contains("_raw") && head.contains("_time") && !head.contains("_secret"), "{head}");
}

#[test]
fn rows_select_their_folder_and_files_roll() {
    let place = Place::new();
    let search = |text: &str| place.run(&["search", text, "-o", "csv"]);
    search(&format!("{ROWS} | eval _dstpath=\"../day/host \".n | dump basefilename=a compress=0")).expect_success();
    // 30 rows of 60,000 bytes fill a file of 1 MB and begin the next one.
    let long = "| makeresults count=30 | eval _raw=mvjoin(mvrange(10000, 20000), \"x\")";
    let answer = search(&format!("{long} | dump basefilename=long rollsize=1 | stats count"));
    assert!(answer.err.contains("dump wrote rows: 30, files: 2, below dispatch/"), "{answer:?}");
    let files = dumped(&place);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["_./day/host 1/a_1.raw", "_./day/host 2/a_1.raw", "long_1.raw.gz", "long_2.raw.gz"]);
    assert_eq!(files["_./day/host 2/a_1.raw"], "event 2\n");
    assert!(files["long_1.raw.gz"].len() >= 1 << 20 && files["long_2.raw.gz"].len() < 1 << 20);
    // A failed search leaves no file behind, and rows without `_raw` are not dumped.
    let failed = search(&format!("{ROWS} | dump basefilename=b | dump basefilename=b"));
    assert!(failed.code != 0 && failed.err.contains("needs a basefilename= of its own"), "{failed:?}");
    let ran = search("| makeresults | dump basefilename=c");
    assert!(ran.err.contains("dump skipped rows without _raw: 1"), "{ran:?}");
    assert_eq!(dumped(&place).len(), 4);
}
