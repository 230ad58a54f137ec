//! Tests of the splitter against its inverse, and of the columns of texts with a known structure.

use std::collections::BTreeSet;

use proptest::prelude::*;
use quarry_event::template::{
    ByteSet, MAX_COLUMNS, MAX_TEMPLATE_DEPTH, MAX_TEMPLATES, TemplatePart, ValueTraits, is_json_scalar,
    is_string_content,
};
use quarry_event::{EventBatch, Metadata};

use super::text_parts::PartReader;
use super::*;

mod json;

fn batch<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> EventBatch {
    let word = |word: &str| word.into();
    let meta = Metadata { index: word("main"), host: word("h"), source: word("s"), sourcetype: word("t") };
    let mut batch = EventBatch { metas: vec![meta], ..EventBatch::default() };
    for (at, text) in texts.into_iter().enumerate() {
        batch.push(text.as_ref(), at as i64, 0);
    }
    batch
}

/// Splits texts regardless of the cost, and checks all that the writer relies on.
fn template_slab_of(events: &EventBatch) -> TemplateSlab {
    outlined(events);
    let slab = split_texts(events, SlabBuilder::new(objects::learn_schemas(events)), &[], |_| true).unwrap();
    check(&slab, events);
    slab
}

/// Splits texts by their outline, whether it pays off or not.
fn outlined(events: &EventBatch) -> TemplateSlab {
    let texts: Vec<&[u8]> = (0..events.len().min(1_000)).map(|row| events.raw(row)).collect();
    let (outline, _) = outline::learning::build_outline(&texts);
    let slab = split_texts(events, SlabBuilder::with_outline(outline), &[], |_| true).unwrap();
    check(&slab, events);
    slab
}

/// Text of one row, from the columns alone.
fn rebuild(slab: &TemplateSlab, row: usize) -> Vec<u8> {
    let mut reader = PartReader::new(slab);
    for _ in 0..row {
        reader.read_next();
    }
    reader.read_next().to_vec()
}

fn len(values: &SlabValues) -> usize {
    match values {
        SlabValues::Templates { codes, .. } | SlabValues::Dictionary { codes, .. } => codes.len(),
        SlabValues::Numbers { numbers, .. } => numbers.len(),
        SlabValues::Texts { ends, .. } => ends.len(),
    }
}

fn check(slab: &TemplateSlab, events: &EventBatch) {
    let mut reader = PartReader::new(slab);
    for row in 0..events.len() {
        let text = reader.read_next();
        assert_eq!(text.escape_ascii().to_string(), events.raw(row).escape_ascii().to_string(), "row {row}");
    }
    assert!(slab.columns.len() <= MAX_COLUMNS);
    let mut templates_of_all = 0;
    let mut depth = Vec::new();
    for (at, column) in slab.columns.iter().enumerate() {
        let above = column.parent.map_or(0, |parent| depth[parent as usize]);
        let is_split = matches!(*column.values, SlabValues::Templates { .. });
        depth.push(above + usize::from(is_split));
        assert!(depth[at] <= MAX_TEMPLATE_DEPTH);
        assert_eq!(at == 0, column.parent.is_none());
        assert!(len(&column.values) > 0);
        let pages = events.len().div_ceil(MAX_PAGE_EVENTS);
        assert_eq!(column.page_starts.len(), pages + 1, "column {at}");
        assert_eq!(column.page_starts[0], 0);
        assert!(column.page_starts.is_sorted());
        assert_eq!(*column.page_starts.last().unwrap() as usize, len(&column.values));
        if let SlabValues::Templates { templates, codes } = &*column.values {
            templates_of_all += templates.len();
            check_templates(slab, at as u32, templates, codes);
        }
        check_leaf(&column.values);
    }
    assert!(templates_of_all <= MAX_TEMPLATES);
    check_traits(slab);
}

fn check_templates(slab: &TemplateSlab, column: u32, templates: &[Template], codes: &[u32]) {
    let used: BTreeSet<u32> = codes.iter().copied().collect();
    assert_eq!(used.len(), templates.len());
    let mut counts = vec![0u32; slab.columns.len()];
    let starts = &slab.columns[column as usize].page_starts;
    for page in starts.windows(2) {
        for (at, column_of) in slab.columns.iter().enumerate() {
            if column_of.parent == Some(column) {
                let before = starts.iter().position(|start| *start == page[0]).unwrap();
                assert!(column_of.page_starts[before] <= counts[at].max(column_of.page_starts[before]));
            }
        }
        for code in &codes[page[0] as usize..page[1] as usize] {
            templates[*code as usize].variables().for_each(|variable| counts[variable as usize] += 1);
        }
    }
    for (at, count) in counts.into_iter().enumerate() {
        let of_this = slab.columns[at].parent == Some(column);
        assert_eq!(count as usize, if of_this { len(&slab.columns[at].values) } else { 0 });
    }
    for template in templates {
        let literals = template
            .parts
            .windows(2)
            .filter(|pair| matches!(pair, [TemplatePart::Literal(_), TemplatePart::Literal(_)]));
        assert_eq!(literals.count(), 0);
        assert!(
            template.parts.iter().all(|part| !matches!(part, TemplatePart::Literal(literal) if literal.is_empty()))
        );
        let variables: BTreeSet<u32> = template.variables().collect();
        assert_eq!(variables.len(), template.variables().count());
        assert!(variables.iter().all(|variable| slab.columns[*variable as usize].parent == Some(column)));
    }
}

fn check_leaf(values: &SlabValues) {
    match values {
        SlabValues::Dictionary { bytes, ends, codes } => {
            let used: BTreeSet<u32> = codes.iter().copied().collect();
            assert_eq!(used.len(), ends.len());
            let texts = TextList { bytes: bytes.clone(), ends: ends.clone() };
            assert!(texts.iter().zip(texts.iter().skip(1)).all(|(low, high)| low < high));
            assert!(texts.iter().all(|text| std::str::from_utf8(text).is_ok()));
        }
        SlabValues::Texts { bytes, ends } => {
            let texts = TextList { bytes: bytes.clone(), ends: ends.clone() };
            assert!(texts.iter().all(|text| std::str::from_utf8(text).is_ok()));
        }
        SlabValues::Numbers { format, .. } => assert!(format.is_valid()),
        SlabValues::Templates { .. } => {}
    }
}

fn check_traits(slab: &TemplateSlab) {
    for column in 0..slab.columns.len() {
        let mut reader = PartReader::new(slab);
        let mut found = ValueTraits::default();
        let mut distinct = BTreeSet::new();
        let values = len(&slab.columns[column].values);
        for at in 0..values {
            let text = reader.read_next_of(column).to_vec();
            distinct.insert(text.clone());
            found.add(&text, at == 0);
            let said = &slab.columns[column].traits;
            assert!(!said.string_contents || is_string_content(&text), "{}", String::from_utf8_lossy(&text));
            assert!(!said.json_scalars || is_json_scalar(&text), "{}", String::from_utf8_lossy(&text));
        }
        let said = &slab.columns[column].traits;
        let within = |inner: ByteSet, outer: ByteSet| inner.union(outer) == outer;
        assert!(
            within(found.bytes, said.bytes) && within(found.firsts, said.firsts) && within(found.lasts, said.lasts)
        );
        assert!(said.min_len <= found.min_len && said.max_len >= found.max_len, "{said:?} {found:?}");
        if let Some(listed) = &said.value_set {
            assert!(listed.iter().map(|text| text.as_bytes()).eq(distinct.iter().map(Vec::as_slice)), "{said:?}");
        }
    }
}

#[test]
fn classes_agree_with_the_segmenter() {
    for byte in 0..=255u8 {
        assert_eq!(classes::is_segmenter_breaker(byte), quarry_event::segment::is_breaker(byte), "{byte}");
    }
}

/// One line of each kind of log.
const LINES: [&str; 43] = [
    "took=12ms load=37% temp=-23.4°C vib=0.043mm/s size=12KB wait=- cur=404mA idle=0s, up 250us",
    "2026-11-20 06:00:00\tAllowed\tMisc or Unknown\t\tGET\tx.org/?a=1&b=2\tNone\t10.0.33.57\tYES\tapplication/javascript",
    "time=1795143603|severity=High|product=VPN-1 & FireWall-1|user=|rule_name=Zugriff Büro|src=10.3.21.140|rule=16",
    r#"2026-11-20T00:00:00.021Z host02 payments[11314]: level=INFO user_id=868229 ip=10.1.52.71 url=/a/2?p=1 msg="by w1 on shard-3""#,
    r#"47.13.24.72 - - [20/Nov/2026:00:00:00 +0000] "GET /api/v1/users/4056 HTTP/1.1" 200 9422 "-" "Mozilla/5.0 (X11)""#,
    r#"{"ts":"2026-11-20T00:00:00.021Z","n":17,"f":-1.5e3,"ok":true,"no":null,"a":[1,2,"x"],"deep":{"k":"v \"q\""}}"#,
    r#"{ "spaced" : "value" , "n" : 12 , "empty" : "" }"#,
    r#"CEF:0|Vendor|Product|1.0|100|worm successfully stopped|10|src=10.0.0.1 dst=2.1.2.2 spt=1232"#,
    "LEEF:1.0|Lancope|StealthWatch|1.0|41|src=192.0.2.0\tdst=172.50.123.1\tsev=5\tusrName=joe.black",
    r#"a,b,"c,d",1,,2.50,"say ""hi""",007"#,
    "<Event xmlns='http://x'><System><EventID Qualifiers=\"1\">4624</EventID><Data/>text 5</System></Event>",
    "key=value key2=\"two words\" key3= key4==x key5=a,b;c|d&e=f \"quoted\": 5",
    "Jun 14 15:16:01 combo sshd(pam_unix)[19939]: authentication failure; logname= uid=0 tty=NODEVssh rhost=218.188.2.4 ",
    "ends in dots 12... and colons 34:: 5: . : 6.",
    "line one 1\nline two 2\n\tat com.example.Foo(Foo.java:12)\r\n",
    "windows\r\nline 5\r\n",
    "",
    " ",
    "-",
    "zero\0byte 1\0 2\u{1} 3",
    "umläute ünd 日本語7 = ñ=ñ8",
    r#"unbalanced " quote 5 and 'single 6"#,
    r#"back\slash "a\\" 1 "b\"c" 2"#,
    "%41%42 5%2F6 100% a%zz9 %2525",
    "00001 -7 +8 0x1f 1e9 1.10 .5 5.",
    "84dc9f24-23a7-406a-a4f6-f2cb96248c0c de:ad:be:ef:00:01",
    "2026-02-30 25:61:61 10.0.0.256 999999999999999999999999",
    "[1] (2) {3} <4> |5| &6& ?7! *8* ;9,",
    "word",
    r#"a.example - bob [20/Nov/2026:00:00:00 +0000] "GET /a?b=c&d HTTP/1.1" 200 - "-" "say \"hi\" 5""#,
    r#"10.0.0.1 - zoë [20/Nov/2026:00:00:00 +0000] "POST /x/7 HTTP/2.0" 201 55"#,
    r#"10.0.0.1 - - [20/Nov/2026:00:00:00 +0000] "GET /? HTTP/1.0" 304 0 "" "ü""#,
    r#"10.0.0.1 - - [20/Nov/2026:00:00:00 +0000] "-" 408 0 "-" "-""#,
    r#"10.0.0.1 - - [20/Nov/2026:00:00:00 +0000] "GET /\"a b\" HTTP/1.1" 400 150 "-" "-""#,
    r#"request: "GET /up HTTP/1.1", upstream: "http://10.0.0.2:80/up", k="a \"b\"""#,
    r#"10.0.0.1 - - [20/Nov/2026:00:00:00 +0000] "GET /cut HTTP/1.1" 20"#,
    r#""GET / HTTP/1.1" 200 1x "GET / HTTP/1.1" 2000 7"#,
    r#"I1121 00:00:00.300     451 a.go:10] "all is well" object="a/b" n=3 verb="say \"ofs\" x""#,
    "W1121 00:00:00.300      7 b.go:1] sad a/b-c1: it is\tnot n=x=y m==2 k=\"open",
    "2026-11-21 00:00:00,017 INFO [exec-1] a.B - done user=x,\tk=v; z= q=\"\"\r\njava.E: no\r\n\tat a.B(C.java:7)\r\n",
    "2026-11-21 00:00:00,018 WARN [exec-2] a.B - \"gone\" user=y k=v, z=1\n\n\n",
    "\nfirst line is empty k=v",
    " k=v k=v k=w  k=x j=\"ü\" ö=1 k=v",
];

#[test]
fn every_kind_of_log_line_round_trips() {
    let slab = template_slab_of(&batch(LINES));
    assert_eq!(rebuild(&slab, 3), LINES[3].as_bytes());
    // The lines are repeated in a varying order, often enough for every column to choose its representation.
    let many = (0..30_000usize).map(|at| LINES[at * at / 7 % LINES.len()]);
    template_slab_of(&batch(many));
}

#[test]
fn no_events_yield_no_slab_and_empty_events_one_template() {
    assert!(split_slab(&batch::<&str>([])).is_none());
    let slab = template_slab_of(&batch(["", "", ""]));
    assert!(matches!(&*slab.columns[0].values, SlabValues::Templates { templates, .. } if templates.len() == 1));
    assert_eq!(slab.columns.len(), 1);
}

/// The column of the variable at position `number`, from 0, in the only template of column 0.
fn variable(slab: &TemplateSlab, number: usize) -> &SlabColumn {
    let SlabValues::Templates { templates, .. } = &*slab.columns[0].values else { panic!("column 0 is templates") };
    assert_eq!(templates.len(), 1, "{templates:?}");
    &slab.columns[templates[0].variables().nth(number).unwrap() as usize]
}

fn format_of(column: &SlabColumn) -> Option<NumberFormat> {
    match &*column.values {
        SlabValues::Numbers { format, .. } => Some(*format),
        _ => None,
    }
}

#[test]
fn fields_become_columns_of_matching_kinds() {
    let word = ["accepted", "rejected", "queued"];
    let slab = template_slab_of(&batch((0..10_000u64).map(|at| {
        let wide = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!(
            "2026-11-20T00:{:02}:{:02}.021Z status={} ip=10.0.{}.1 took={}.{} id={:016x} uuid={:08x}-{:04x} \
             who={} msg=\"request {} {} by w{} on shard-{}\" code={:03}",
            at / 60 % 60,
            at % 60,
            200 + at % 3,
            at % 256,
            at % 100,
            at % 10,
            wide,
            wide >> 32,
            wide >> 48,
            word[at as usize % 3],
            at,
            word[wide as usize % 3],
            wide % 1000,
            at % 7,
            at % 500
        )
    })));
    assert!(matches!(format_of(variable(&slab, 0)), Some(NumberFormat::Time(_))));
    assert_eq!(format_of(variable(&slab, 1)), Some(NumberFormat::Integer));
    assert_eq!(format_of(variable(&slab, 2)), Some(NumberFormat::Ip4));
    assert_eq!(format_of(variable(&slab, 3)), Some(NumberFormat::Decimal { digits: 1 }));
    assert_eq!(format_of(variable(&slab, 4)), Some(NumberFormat::Hex { digits: 16 }));
    assert!(matches!(&*variable(&slab, 5).values, SlabValues::Templates { templates, .. } if templates.len() == 1));
    assert!(matches!(&*variable(&slab, 6).values, SlabValues::Dictionary { ends, .. } if ends.len() == 3));
    assert!(matches!(&*variable(&slab, 7).values, SlabValues::Templates { templates, .. } if templates.len() == 3));
    assert_eq!(format_of(variable(&slab, 8)), Some(NumberFormat::Padded { digits: 3 }));
    assert!(split_slab(&batch((0..10_000).map(|at| format!("status={at}")))).is_some());
}

fn formatted(format: NumberFormat, number: i64) -> String {
    let mut text = Vec::new();
    format.write(number, &mut text);
    String::from_utf8(text).unwrap()
}

/// Decimals without redundant zeros are numbers, whatever their decimal places, unless they are few or one is odd.
#[test]
fn shortest_decimals_are_columns_of_numbers() {
    let shortest = |at: u64| formatted(NumberFormat::Shortest { digits: 3 }, (at * 7_919 % 90_000) as i64);
    let slab = template_slab_of(&batch((0..10_000u64).map(|at| {
        let late = if at == 9_999 { "1.0625".to_owned() } else { shortest(at) };
        let odd = if at == 9_999 { "1.50".to_owned() } else { shortest(at) };
        format!("took={} late={late} odd={odd} few={} n={at}", shortest(at), shortest(at % 50))
    })));
    assert_eq!(format_of(variable(&slab, 0)), Some(NumberFormat::Shortest { digits: 3 }));
    assert_eq!(format_of(variable(&slab, 1)), Some(NumberFormat::Shortest { digits: 4 }));
    assert_eq!(format_of(variable(&slab, 2)), None);
    assert!(matches!(&*variable(&slab, 3).values, SlabValues::Dictionary { ends, .. } if ends.len() == 50));
}

/// A dictionary may be larger if nearly all of its texts occur among the first values.
#[test]
fn texts_that_occur_early_are_a_dictionary() {
    // 700 distinct texts each: the first column has all of them at once, in the second they go on appearing.
    let slab = template_slab_of(&batch((0..12_000u64).map(|at| {
        let agent = |number: u64| format!("agent x{number}y (build {})", number * 31 % 977);
        format!("early=\"{}\" late=\"{}\" n={at}", agent(at * 9 % 700), agent(at / 6 % 2_000))
    })));
    assert!(matches!(&*variable(&slab, 0).values, SlabValues::Dictionary { ends, .. } if ends.len() == 700));
    assert!(!matches!(&*variable(&slab, 1).values, SlabValues::Dictionary { .. }));
}

/// Numbers with units are split between number and unit, inside the word; values of another form are plain texts.
#[test]
fn numbers_with_units_are_columns_of_numbers() {
    let value = |at: u64| match at {
        9_000..9_010 => ["-", "+5ms", "007ms", "5m30s", "99999999999999999999s"][at as usize % 5].to_owned(),
        _ if at.is_multiple_of(3) => format!("{}.{}s", at % 70, at % 10),
        _ => format!("{}ms", at * 7 % 5_000),
    };
    let slab = template_slab_of(&batch((0..10_000u64).map(|at| {
        format!("took={} load={}% temp={}.{}°C size={}KB", value(at), at % 90, at % 31, at % 10, at * 31 % 4_000)
    })));
    let formats = |place: usize| -> Vec<NumberFormat> {
        let column = slab.columns.iter().position(|column| std::ptr::eq(column, variable(&slab, place)));
        let children = slab.columns.iter().filter(|child| child.parent == column.map(|column| column as u32));
        children.filter_map(format_of).collect()
    };
    assert_eq!(formats(0), [NumberFormat::Decimal { digits: 1 }, NumberFormat::Integer]);
    assert_eq!(formats(1), [NumberFormat::Integer]);
    assert_eq!(formats(2), [NumberFormat::Decimal { digits: 1 }]);
    assert_eq!(formats(3), [NumberFormat::Integer]);
    let SlabValues::Templates { templates, .. } = &*variable(&slab, 0).values else { panic!("not divided") };
    assert_eq!(templates.len(), 3, "a unit each, and plain texts: {templates:?}");
    // A few distinct values are stored as a dictionary.
    let slab = template_slab_of(&batch((0..10_000u64).map(|at| format!("wait={}s n={at}", at % 60))));
    assert!(matches!(&*variable(&slab, 0).values, SlabValues::Dictionary { ends, .. } if ends.len() == 60));
}

#[test]
fn late_changes_of_values_change_the_column_kind() {
    let events = batch((0..20_000u32).map(|at| match at {
        0..9_000 => format!("n={at} d=a{} h={:04x}", at % 5, at % 3_000),
        9_000 => "n=none d=a0 h=zzz".to_owned(),
        _ => format!("n={at} d={at}-{} h={:04x}", at * 7, at),
    }));
    let slab = template_slab_of(&events);
    // A single value of another form among numbers gets a template of its own.
    assert!(matches!(&*variable(&slab, 0).values, SlabValues::Templates { templates, .. } if templates.len() == 2));
    assert!(matches!(&*variable(&slab, 1).values, SlabValues::Templates { .. }));
}

/// Paths of which many are rare: half of all distinct paths are among the first few thousand values.
#[test]
fn few_distinct_texts_become_a_dictionary_even_if_most_come_early() {
    let path = |rare: u64, at: u64| match pseudo_random(at, 3) {
        0 => letters(pseudo_random(at + 1, rare) + 17_576),
        _ => letters(pseudo_random(at + 2, 20) + 17_576),
    };
    let paths = |rare: u64| batch((0..40_000).map(|at| format!("who={} took={at}", path(rare, at))));
    let slab = template_slab_of(&paths(2_000));
    let SlabValues::Dictionary { ends, .. } = &*variable(&slab, 0).values else { panic!("not a dictionary") };
    assert!(ends.len() > 1_000 && ends.len() <= 2_000, "{}", ends.len());
    let slab = template_slab_of(&paths(1_000_000));
    assert!(matches!(*variable(&slab, 0).values, SlabValues::Texts { .. }));
}

#[test]
fn free_text_is_not_split() {
    let words = |seed: u64| {
        let mut state = seed + 1;
        let letters: Vec<u8> = (0..200)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                match (state >> 40) % 30 {
                    at @ 0..26 => b'a' + at as u8,
                    26 => b'7',
                    _ => b' ',
                }
            })
            .collect();
        letters
    };
    let events = batch((0..10_000).map(words));
    assert!(split_slab(&events).is_none());
    template_slab_of(&events);
}

/// A number that differs from row to row.
fn pseudo_random(at: u64, below: u64) -> u64 {
    let mixed = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 33) % below
}

/// A sentence that no other row has.
fn sentence(at: u64) -> String {
    (0..4 + pseudo_random(at, 5))
        .map(|word| format!("w{}", letters(pseudo_random(at * 31 + word, 5_000))))
        .collect::<Vec<_>>()
        .join(" ")
}

fn letters(number: u64) -> String {
    number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
}

/// The templates of the texts, with each column written as `_`.
fn templates_of(slab: &TemplateSlab) -> Vec<String> {
    let SlabValues::Templates { templates, .. } = &*slab.columns[0].values else { panic!("column 0 is templates") };
    let part = |part: &TemplatePart| match part {
        TemplatePart::Literal(literal) => String::from_utf8(literal.to_vec()).unwrap(),
        TemplatePart::Variable(_) => "_".to_owned(),
    };
    templates.iter().map(|template| template.parts.iter().map(part).collect()).collect()
}

/// Splits the texts by a learned outline, which must pay off.
fn learned(events: &EventBatch) -> TemplateSlab {
    let outline = outline::learning::learn_outline(events).expect("an outline pays off for these sentences");
    let slab = split_texts(events, SlabBuilder::with_outline(outline), &[], is_worthwhile).unwrap();
    check(&slab, events);
    slab
}

#[test]
fn values_of_cef_extend_to_the_next_key() {
    let events = batch((0..6_000).map(|at| {
        let (verdict, sentence) = (["blocked", "allowed"][at as usize % 2], sentence(at));
        format!(
            "Nov 20 06:{:02}:{:02} gw-{} CEF:0|Acme|IPS|1.{}|{}|{}|5|src=10.0.0.{} act={verdict} cs1Label=Rule cs1={} rule \
             cn1={} msg={sentence} a\\=b in={} out={}",
            at / 60 % 60,
            at % 60,
            at % 7,
            at % 3,
            at % 90,
            letters(at % 40),
            at % 250,
            letters(at % 30),
            at % 100,
            pseudo_random(at, 9_000),
            pseudo_random(at + 1, 9_000),
        )
    }));
    let templates = templates_of(&learned(&events));
    let tail = " cs1Label=_ cs1=_ cn1=_ msg=_ in=_ out=_";
    assert!(templates.iter().all(|template| template.ends_with(tail)), "{templates:?}");
}

#[test]
fn lines_that_begin_with_a_bracket_are_split() {
    for begin in ["[Fri Nov 20 06:00:01 2026] [core:error] [pid", "<34>1 2026-11-20T06:00:01Z host app"] {
        let events = batch((0..6_000).map(|at| format!("{begin} {}] {}", pseudo_random(at, 900), sentence(at))));
        let templates = templates_of(&learned(&events));
        assert!(templates.len() < 4 && templates[0].ends_with("] _"), "{templates:?}");
    }
    for begin in ["[{\"a\":", "<Event><System>", "<?xml"] {
        let events = batch((0..6_000).map(|at| format!("{begin} {}", sentence(at))));
        assert!(outline::learning::learn_outline(&events).is_none(), "{begin}");
    }
}

#[test]
fn structure_around_free_text_is_split() {
    let keys = ["object", "latency_ms", "probe", "replicas", "plugin", "queue", "verb", "UID", "zone", "node"];
    let events = batch((0..12_000).map(|at| {
        let head = format!(
            "{}1121 00:00:{:02}.{:06} {:7} f{}.go:{}]",
            ["I", "W", "E"][at as usize % 3],
            at / 200,
            pseudo_random(at, 1_000_000),
            pseudo_random(at, 4_000),
            letters(pseudo_random(at, 9)),
            pseudo_random(at, 900)
        );
        if pseudo_random(at, 4) == 0 {
            return format!("{head} {} a/b-{:05x}: {}", sentence(at), pseudo_random(at, 1 << 20), sentence(at + 7));
        }
        let pairs = keys.iter().enumerate().filter(|(key, _)| pseudo_random(at * 11 + *key as u64, 2) == 0);
        let pairs = pairs.map(|(key, name)| match key % 2 {
            0 => format!(" {name}=\"say {}\"", letters(pseudo_random(at, 40))),
            _ => format!(" {name}={}", pseudo_random(at, 90)),
        });
        format!("{head} \"{}\"{}", sentence(at), pairs.collect::<String>())
    }));
    let slab = learned(&events);
    assert!(templates_of(&slab).len() < 40, "{:?}", templates_of(&slab));
    // Every text has a variable for the sentence and a variable for each key, even for keys that the text lacks.
    let members = format!("_ _    _ _] \"_\"{}", "_".repeat(keys.len()));
    assert!(templates_of(&slab).contains(&members), "{:?}", templates_of(&slab));
    let inner = slab.columns.iter().filter(|column| column.parent == Some(0));
    let pairs: Vec<&Vec<Template>> = inner
        .filter_map(|column| match &*column.values {
            SlabValues::Templates { templates, .. } if templates.iter().any(|form| form.parts.is_empty()) => {
                Some(templates)
            }
            _ => None,
        })
        .collect();
    assert_eq!(pairs.len(), keys.len(), "a missing pair is a template without parts");
    for form in pairs.into_iter().flatten().filter(|form| !form.parts.is_empty()) {
        let begin = form.parts.first();
        assert!(matches!(begin, Some(TemplatePart::Literal(key)) if key.starts_with(b" ")), "{form:?}");
    }
}

#[test]
fn later_lines_form_one_variable_and_levels_are_values() {
    let events = batch((0..12_000).map(|at| {
        let level = ["INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR"][pseudo_random(at, 6) as usize];
        let class = letters(pseudo_random(at, 300));
        let mut text = format!(
            "2026-11-21 00:00:{:02},{:03} {level} [exec-{}] com.{class} - {} user=u{} took={}",
            at / 200,
            pseudo_random(at, 1_000),
            pseudo_random(at, 50),
            sentence(at),
            pseudo_random(at, 99),
            pseudo_random(at + 1, 80)
        );
        if pseudo_random(at, 5) == 0 {
            let frames = (0..pseudo_random(at, 20))
                .map(|frame| format!("\n\tat com.{}(F.java:{frame})", letters(pseudo_random(frame, 40))));
            text += &format!("\ncom.Oops: {}{}", sentence(at + 3), frames.collect::<String>());
        }
        text
    }));
    let slab = learned(&events);
    let templates = templates_of(&slab);
    assert!(templates.len() < 12, "{templates:?}");
    assert!(templates.contains(&"_ _ _ [_] _ - _ user=_ took=_".to_owned()), "{templates:?}");
    assert!(templates.contains(&"_ _ _ [_] _ - _ user=_ took=_\n_".to_owned()), "{templates:?}");
}

#[test]
fn phrases_between_values_become_literals() {
    let names = ["pay-store", "tax-ui", "stock-edge", "mail-job"];
    let events = batch((0..12_000).map(|at| {
        let name = names[pseudo_random(at, 4) as usize];
        let mut text = match pseudo_random(at, 6) {
            0 => format!(
                "The {name} could not reach {} after {} attempts. {}",
                names[at as usize % 4],
                pseudo_random(at, 9),
                sentence(at)
            ),
            _ => format!("Now {name} says: {}", sentence(at)),
        };
        if pseudo_random(at * 7 + 5, 2) == 0 {
            text += &format!(" with order {} of a customer", pseudo_random(at, 1_000));
        }
        text
    }));
    let slab = learned(&events);
    let templates = templates_of(&slab);
    for expected in
        ["Now _ says: _", "Now _ says: _ with order _ of a customer", "The _ could not reach _ after _ attempts. _"]
    {
        assert!(templates.contains(&expected.to_owned()), "{expected}: {templates:?}");
    }
}

#[test]
fn adversarial_texts_are_outlined_in_linear_time() {
    let quotes = "\"".to_owned() + &"\\\"".repeat(1 << 16) + "\"x";
    let pairs: String = (0..20_000).map(|at| format!(" k{at}=\"")).collect();
    let lines = "a b c\n".repeat(1 << 16);
    let words: String = (0..100_000).map(|at| format!("{} ", letters(at))).collect();
    let commas = "1,".repeat(1 << 17);
    let known = (0..2_000).map(|at| format!("a b=1 c {} d=\"e\" [{at}] {}", at % 3, sentence(at)));
    let long = [quotes, pairs, lines, words, commas, " =".repeat(1 << 17), "a=b ".repeat(1 << 16), "[".repeat(1 << 18)];
    outlined(&batch(known.chain(long)));
}

#[test]
fn huge_events_round_trip() {
    let mut texts = vec!["x=1 ".repeat(1 << 19), "\"".repeat(1 << 20), "a\"b".repeat(1 << 18), "word ".repeat(1 << 18)];
    texts.push("<a>".to_owned() + &">".repeat(1 << 20));
    texts.push("=".repeat(1 << 20));
    texts.push("\\".repeat(1 << 20) + "\"");
    texts.extend((0..100).map(|at| format!("x={at}")));
    template_slab_of(&batch(texts));
}

#[test]
fn loghub_samples_round_trip() {
    let Ok(files) = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/loghub")) else {
        println!("skipped: no samples of loghub here");
        return;
    };
    for file in files {
        let text = std::fs::read(file.unwrap().path()).unwrap();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| std::str::from_utf8(line).is_ok());
        template_slab_of(&batch(lines));
    }
}

/// Pieces of text that together exercise every rule of the tokenisers.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => r#"[a-c0-2 "'=,;()\[\]{}<>|&?!*.:/%_+-]{1,6}"#,
        2 => r#"[a-b]=[0-9]{1,3} "#,
        1 => r#""(GET|PUT) /[a-b?]{0,3} HTTP/[0-2.]{1,3}" (200|-) ([0-9]{1,2}|-)"#,
        1 => r#"[a-b] - [a-bü] \[20/Nov/2026 "#,
        2 => r#""[a-b]":("[a-b0-1]{0,2}"|[0-9]{1,2}),"#,
        1 => r#"</?[a-b]>"#,
        1 => "[.:]?(10|2|300|01)(\\.[0-9]{1,3}){2,4}[.:%a]?",
        1 => "\\\\?\"",
        2 => "([a-b0-1=. ]{0,4}[|]){1,6}",
        2 => "([a-b0-1=. ]{0,4}\t){1,6}",
        1 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn arbitrary_texts_round_trip(lines in proptest::collection::vec(proptest::collection::vec(piece(), 0..12), 1..40)) {
        let lines: Vec<String> = lines.iter().map(|pieces| pieces.concat()).collect();
        template_slab_of(&batch(lines.iter().cycle().take(lines.len() * 3)));
    }

    #[test]
    fn mixed_and_truncated_lines_round_trip(picks in proptest::collection::vec((0..LINES.len(), 0..LINES.len(), 0usize..200), 1..200)) {
        let cut = |line: &str, at: usize| line.chars().take(at).collect::<String>();
        template_slab_of(&batch(picks.iter().map(|(one, other, at)| cut(LINES[*one], *at) + LINES[*other])));
    }

    #[test]
    fn variables_are_ordered_and_separated_by_literals(pieces in proptest::collection::vec(piece(), 0..20)) {
        let text = pieces.concat();
        for split in [variables::split_event, variables::split_words] {
            let mut variables = Vec::new();
            split(text.as_bytes(), &mut variables);
            let mut at = 0;
            for variable in &variables {
                let may_be_empty = matches!(variable.kind, variables::VariableKind::Cell(_));
                prop_assert!(variable.end > variable.start || (may_be_empty && variable.end == variable.start));
                prop_assert!(variable.start >= at && variable.end <= text.len());
                prop_assert!(at == 0 || variable.start > at);
                let edge = |at: usize| at == 0 || at == text.len()
                    || classes::is_segmenter_breaker(text.as_bytes()[at]) || classes::is_segmenter_breaker(text.as_bytes()[at - 1]);
                prop_assert!(edge(variable.start) && edge(variable.end));
                prop_assert_eq!(variables::variable_end(variable.kind, text.as_bytes(), variable.start, true), Some(variable.end));
                at = variable.end;
            }
        }
    }
}

#[test]
fn an_address_within_a_value_is_one_variable() {
    let words = |text: &str| {
        let mut variables = Vec::new();
        variables::split_words(text.as_bytes(), &mut variables);
        variables.iter().map(|variable| text[variable.start..variable.end].to_owned()).collect::<Vec<_>>()
    };
    for (text, expected) in [
        ("10.0.0.1:443", &["10.0.0.1", "443"][..]),
        ("HIER_DIRECT/1.22.133.255", &["1.22.133.255"]),
        ("70.136.191.149.in-addr.arpa", &["70.136.191.149"]),
        ("src=10.0.0.1.", &["10.0.0.1"]),
        ("1.2.3.4.5", &["1", "2", "3", "4", "5"]),
        ("v1.2.3.4", &["v1", "2", "3", "4"]),
        ("1.2.3", &["1", "2", "3"]),
        ("1.2.3.256", &["1", "2", "3", "256"]),
        ("1.2.3.04", &["1", "2", "3", "04"]),
        ("1.2.3.4a", &["1", "2", "3", "4a"]),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
}

/// Optional fields shift the positions of others, and values at one position have different forms.
#[test]
fn positional_texts_have_columns_by_form() {
    let line = |at: u64| {
        let pick = |salt: u64, below: u64| pseudo_random(at * 31 + salt, below);
        let value = |salt: u64| match pick(salt, 6) {
            0 => format!("10.0.{}.{}", pick(salt + 1, 250), pick(salt + 2, 250)),
            1 => format!("{}", pick(salt + 1, 100_000)),
            2 => format!("be{}/srv{}", pick(salt + 1, 9), pick(salt + 2, 9)),
            3 => format!("10:{}:{}", pick(salt + 1, 60), pick(salt + 2, 60)),
            4 => "-".to_owned(),
            _ => format!("v{}.k{}", pick(salt + 1, 9), pick(salt + 2, 9)),
        };
        let parts = [0u64, 10, 20, 30, 40, 50].map(value);
        let optional = if pick(70, 3) == 0 { format!(" {{h{}}}", pick(71, 9)) } else { String::new() };
        let word = ["GET", "POST", "down"][pick(80, 3) as usize];
        format!(
            "{} {} [{}]{optional} {word} {} {} id {}:{}",
            parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], at
        )
    };
    template_slab_of(&batch((0..3_000).map(line)));
    let clients = |at: u64| match at % 97 {
        0 => format!("client 2001:db8:{:x}::{:x}:{} done", at, at * 7, 1_024 + at),
        _ => format!("client 10.1.{}.{}:{} done", at % 256, at * 3 % 256, 1_024 + at),
    };
    let slab = template_slab_of(&batch((0..4_000).map(clients)));
    let has = |wanted: NumberFormat| {
        slab.columns
            .iter()
            .any(|column| matches!(&*column.values, SlabValues::Numbers { format, .. } if *format == wanted))
    };
    assert!(has(NumberFormat::Ip4) && has(NumberFormat::Integer), "addresses and ports are numbers despite IPv6");
}

#[test]
fn traits_of_texts_know_their_common_prefix() {
    let texts = |at: u64| format!("client @0x{:08x}f asks", pseudo_random(at, u64::from(u32::MAX)));
    let slab = split_slab(&batch((0..2_000).map(texts))).expect("the lines have one template");
    let prefixes: Vec<&str> = slab.columns.iter().map(|column| &*column.traits.prefix).collect();
    let hex = slab.columns.iter().find(|column| column.traits.prefix.starts_with("0x")).map(|column| &column.traits);
    let hex = hex.unwrap_or_else(|| panic!("{prefixes:?}"));
    assert!(hex.bytes.contains(b'x') && !hex.after_prefix.contains(b'x'), "the rest has digits only");
    assert!(hex.after_prefix.contains(b'f') && hex.after_prefix.contains(b'0'), "{hex:?}");
}

#[test]
fn every_sourcetype_has_its_own_splitter() {
    let word = |word: &str| word.into();
    let meta = |sourcetype: &str| Metadata {
        index: word("main"),
        host: word("h"),
        source: word("s"),
        sourcetype: word(sourcetype),
    };
    let types = ["klog", "access", "json", "odd"];
    let mut events = EventBatch { metas: types.map(meta).to_vec(), ..EventBatch::default() };
    for at in 0..24_000u64 {
        let kind = if at % 100 == 99 { 3 } else { pseudo_random(at, 3) as u32 };
        let text = match kind {
            0 => format!(
                "I1121 00:00:{:02}.{:06} f{}.go:{}] {}",
                at % 60,
                pseudo_random(at, 1_000_000),
                letters(pseudo_random(at, 9)),
                pseudo_random(at, 900),
                sentence(at)
            ),
            1 => format!(
                "10.0.0.{} - - [20/Nov/2026:00:00:{:02} +0000] \"GET /{}/{}?q={} HTTP/1.1\" {} {} \"-\" \"curl/8\"",
                at % 200,
                at % 60,
                letters(pseudo_random(at, 60)),
                letters(pseudo_random(at, 800)),
                pseudo_random(at, 900),
                200 + at % 5,
                pseudo_random(at, 9_000)
            ),
            2 => {
                let member = |key: u64| match pseudo_random(at * 13 + key, 2) {
                    0 => format!(",\"k{key}\":{}", pseudo_random(at, 60)),
                    _ => String::new(),
                };
                format!("{{\"level\":\"INFO\"{}}}", (0..9).map(member).collect::<String>())
            }
            _ => sentence(at),
        };
        events.push(text.as_bytes(), at as i64, kind);
    }
    let slab = split_slab(&events).expect("templates are few");
    check(&slab, &events);
    let SlabValues::Templates { codes, templates } = &*slab.columns[0].values else { panic!("column 0 is templates") };
    let of_type = |wanted: u32| -> BTreeSet<u32> {
        codes.iter().zip(&events.meta).filter(|(_, meta)| **meta == wanted).map(|(code, _)| *code).collect()
    };
    for (at, few) in [(0, 60), (1, 20), (2, 4)] {
        let own = of_type(at);
        assert!(own.len() <= few, "{} templates of {}", own.len(), types[at as usize]);
        // Kinds of events do not share columns.
        let columns = |all: &BTreeSet<u32>| -> BTreeSet<u32> {
            all.iter().flat_map(|code| templates[*code as usize].variables()).collect()
        };
        for other in (0..3).filter(|other| *other != at) {
            assert!(
                columns(&own).is_disjoint(&columns(&of_type(other))),
                "{} and {}",
                types[at as usize],
                types[other as usize]
            );
        }
    }
}
