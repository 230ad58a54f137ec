use arrow::record_batch::RecordBatch;

use crate::expr::{CompiledExpr, ExprContext};
use crate::rows::{ColumnReader, batch_of};

/// 2024-11-20 13:14:15.250 UTC.
const NOW: i64 = 1_732_108_455_250_000_000;

/// The text of an expression without fields; values of a multivalue are joined by `,`, null is `-`.
fn run(text: &str) -> String {
    let context = ExprContext::new(NOW, jiff::tz::TimeZone::UTC);
    let expr = match quarry_spl::parse_expression(text) {
        Ok(expr) => expr,
        Err(remarks) => return format!("parse: {remarks:?}"),
    };
    let expr = match CompiledExpr::new(&expr, &context) {
        Ok(expr) => expr,
        Err(error) => return format!("error: {error}"),
    };
    let rows: RecordBatch = batch_of(Vec::<(&str, _)>::new(), 1).unwrap();
    let array = expr.evaluate(&rows).unwrap();
    let value = ColumnReader::new(&array).value(0).into_owned();
    value.text().map_or("-".to_owned(), |text| text.replace('\n', ","))
}

fn check(cases: &[(&str, &str)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(text, wanted)| {
            let got = run(text);
            (got != *wanted).then(|| format!("{text}: got {got}, wanted {wanted}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_documented_function_is_there() {
    const NODES: &[&str] = &[
        "true",
        "false",
        "null",
        "if",
        "case",
        "validate",
        "coalesce",
        "isnull",
        "isnotnull",
        "in",
        "mvfilter",
        "mvmap",
        "searchmatch",
    ];
    let names = quarry_spl::functions::EVAL_FUNCTIONS.iter().map(|function| function.help.name);
    let wrong: Vec<&str> = names.filter(|name| NODES.contains(name) == super::find(name).is_some()).collect();
    assert!(wrong.is_empty(), "either a body or a node of expressions: {wrong:?}");
    let unknown: Vec<&str> =
        super::bodies().map(|(name, _)| *name).filter(|name| super::find(name).is_none()).collect();
    assert!(unknown.is_empty(), "a body without a row in quarry_spl: {unknown:?}");
}

#[test]
fn numbers() {
    check(&[
        ("abs(-5)", "5"),
        ("abs(-5.5)", "5.5"),
        ("ceil(1.2)", "2"),
        ("ceiling(-1.2)", "-1"),
        ("floor(1.9)", "1"),
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("round(3.14159, 2)", "3.14"),
        ("round(1.005, 2)", "1.01"),
        ("round(100, 2)", "100.00"),
        ("round(0.004, 2)", "0.00"),
        ("round(-0.004, 2)", "0.00"),
        ("round(98765432109876.55, 2)", "98765432109876.55"),
        ("round(5447357681683.894, 2)", "5447357681683.89"),
        ("round(987654321098765.55, 2)", "987654321098765.50"),
        ("round(\"987654321098765.55\", 2)", "987654321098765.55"),
        ("round(\"12345678901234567890\", 2)", "12345678901234567890.00"),
        ("round(1e17, 2)", "100000000000000000.00"),
        ("round(\"99999999999999.995\", 2)", "100000000000000.00"),
        ("round(\"x\")", "-"),
        ("sqrt(9)", "3"),
        ("sqrt(-1)", "-"),
        ("exp(0)", "1"),
        ("ln(exp(2))", "2"),
        ("log(1000)", "3"),
        ("log(8, 2)", "3"),
        ("log(0)", "-"),
        ("pow(2, 10)", "1024"),
        ("pi()", "3.141592653589793"),
        ("exact(3.0)", "3"),
        ("sigfig(\"1e-2147483647\" * \"0.5\")", "0"),
        ("sigfig(\"1e-2147483647\" + \"1e-2147483647\")", "0"),
        ("min(3, \"10\", 2.5)", "2.5"),
        ("max(3, \"10\", 2.5)", "10"),
        ("max(3, \"abc\")", "abc"),
        ("min(mvappend(\"5\", \"4\"), 9)", "4"),
        ("bit_and(9007199254740993, 9007199254740995)", "9007199254740993"),
        ("bit_xor(\"9007199254740993\", 1)", "9007199254740992"),
        ("sum(1, \"x\", 2.5)", "3.5"),
        ("avg(1, 2, 6)", "3"),
        ("sum(\"x\")", "-"),
        ("median(9007199254740993, 1, 9007199254740995)", "9007199254740993"),
        ("median(9007199254740993, 9007199254740995)", "9007199254740994"),
        ("median(\"x\")", "-"),
        ("median(3, \"1\", mvappend(\"2\", \"x\"), 10)", "2.5"),
        ("sumsq(94906267, 1)", "9007199515875290"),
        ("sumsq(\"x\")", "-"),
        ("atan2(0, 1)", "0"),
        ("cos(0)", "1"),
        ("hypot(3, 4)", "5"),
    ]);
}

#[test]
fn texts() {
    check(&[
        ("len(\"héé\")", "3"),
        ("len(1.50)", "3"),
        ("lower(\"ÀBC\")", "àbc"),
        ("upper(\"abc\")", "ABC"),
        ("upper(mvappend(\"a\", \"b\"))", "A,B"),
        ("substr(\"abcdef\", 2, 3)", "bcd"),
        ("substr(\"abcdef\", -2)", "ef"),
        ("substr(\"abc\", 0)", "abc"),
        ("substr(\"aébc\", 2, 1)", "é"),
        ("substr(\"abc\", 9)", ""),
        ("trim(\"  x\t\")", "x"),
        ("trim(\"xxaxx\", \"x\")", "a"),
        ("ltrim(\"  x \")", "x "),
        ("rtrim(\"  x \")", "  x"),
        ("replace(\"1/14/2017\", \"^(\\\\d{1,2})/(\\\\d{1,2})/\", \"\\\\2/\\\\1/\")", "14/1/2017"),
        ("replace(\"aaa\", \"a\", \"$5\")", "$5$5$5"),
        ("replace(\"abc\", \"(?<!a)c\", \"X\")", "abX"),
        ("split(\"a;b;;c\", \";\")", "a,b,,c"),
        ("split(\"abc\", \"\")", "a,b,c"),
        ("split(\";a;;;b;\", \";;\")", ";a,;b;"),
        ("split(\"aéßéb\", \"é\")", "a,ß,b"),
        ("split(\"ab\", \"abc\")", "ab"),
        ("urldecode(\"http%3A%2F%2Fx%zz\")", "http://x%zz"),
        ("tostring(1 == 1)", "True"),
        ("tostring(255, \"hex\")", "0xFF"),
        ("tostring(12345.6789, \"commas\")", "12,345.68"),
        ("tostring(1234567, \"commas\")", "1,234,567"),
        ("tostring(9007199254740993, \"commas\")", "9,007,199,254,740,993"),
        ("tostring(-2.675, \"commas\")", "-2.68"),
        ("tostring(-0.001, \"commas\")", "0.00"),
        ("tostring(\"18446744073709551615\", \"commas\")", "18,446,744,073,709,551,615"),
        ("tostring(\"12345678901234567890\", \"commas\")", "12,345,678,901,234,567,890"),
        ("tostring(\"1700000001.125456789\", \"commas\")", "1,700,000,001.13"),
        ("tostring(9007199254740993, \"hex\")", "0x20000000000001"),
        ("tostring(-5.9, \"binary\")", "-101"),
        ("tostring(-0.5, \"hex\")", "0x0"),
        ("tostring(\"1700000000.999999999\", \"hex\")", "0x6553F100"),
        ("tostring(-0.0000001, \"duration\")", "00:00:00"),
        ("tostring(-1.5, \"duration\")", "-00:00:01.500000"),
        ("tostring(615, \"duration\")", "00:10:15"),
        ("tostring(90061, \"duration\")", "1+01:01:01"),
        ("tostring(\"x\", \"commas\")", "x"),
        ("tonumber(\"0A4\", 16)", "164"),
        ("tonumber(\"0x1f\", 16)", "31"),
        ("tonumber(\"0x-5\", 16)", "-"),
        ("tonumber(\"1e3\")", "1000"),
        ("tonumber(\"007\")", "7"),
        ("tonumber(\" 5\")", "-"),
        ("tonumber(\"x\")", "-"),
        ("commands(\"index=a [search b | fields c] | stats count | where x=\\\"|\\\"\")", "search,stats,where"),
        ("commands(\"| makeresults | eval a=1\")", "makeresults,eval"),
    ]);
}

#[test]
fn formatted_prints() {
    check(&[
        ("printf(\"%d|%5d|%-5d|%05d|%+d\", 42, 42, 42, 42, 42)", "42|   42|42   |00042|+42"),
        ("printf(\"%x %X %#x %o\", 255, 255, 255, 8)", "ff FF 0xff 10"),
        ("printf(\"%s|%10s|%-4s|%.2s\", \"abc\", \"abc\", \"abc\", \"abc\")", "abc|       abc|abc |ab"),
        ("printf(\"%f %.2f %8.3f\", 1.5, 2.345, 3.14159)", "1.500000 2.35    3.142"),
        ("printf(\"%e %E %g %g\", 1500, 0.00015, 0.0001, 1500000000)", "1.500000e+03 1.500000E-04 0.0001 1.5e+09"),
        ("printf(\"%'d\", 1234567)", "1,234,567"),
        ("printf(\"%*d\", 5, 42)", "   42"),
        ("printf(\"100%%\")", "100%"),
        ("printf(\"%c%c\", \"xyz\", \"é\")", "xé"),
        ("printf(\"%c,%c,%c,%c\", 65, \"Foo\", \"945\", 55296)", "A,F,α,5"),
        ("printf(\"%a\", 3)", "0x1.8p+1"),
        ("printf(\"%d\")", "0"),
    ]);
}

#[test]
fn conditions_and_types() {
    check(&[
        ("match(\"10.1.2.3\", \"^\\\\d+\\\\.\")", "True"),
        ("match(\"foobar\", \"foo(?=bar)\")", "True"),
        ("like(\"foobar\", \"foo%\")", "True"),
        ("like(\"fooBar\", \"%bar\")", "False"),
        ("cidrmatch(\"10.0.0.0/8\", \"10.9.8.7\")", "True"),
        ("cidrmatch(\"10.0.0.0/8\", \"11.9.8.7\")", "False"),
        ("cidrmatch(\"2001:db8::/32\", \"2001:db8::1\")", "True"),
        ("cidrmatch(\"192.168.1.1\", \"192.168.1.1\")", "True"),
        ("cidrmatch(\"0.0.0.0/0\", \"x\")", "False"),
        ("in(\"b\", \"a\", \"b\")", "True"),
        ("isnum(\"5\")", "True"),
        ("isnum(\"x\")", "False"),
        ("isint(5.5)", "False"),
        ("isstr(\"x\")", "True"),
        ("isbool(1 = 1)", "True"),
        ("typeof(12)", "Number"),
        ("typeof(\"abc\")", "String"),
        ("typeof(true())", "Boolean"),
        ("typeof(null())", "Invalid"),
        ("if(nullif(\"a\", \"a\") = \"a\", 1, 2)", "2"),
    ]);
}

#[test]
fn multivalues() {
    check(&[
        ("mvcount(split(\"a,b\", \",\"))", "2"),
        ("mvcount(null())", "-"),
        ("mvindex(split(\"a,b,c\", \",\"), -1)", "c"),
        ("mvindex(split(\"a,b,c\", \",\"), 0, 1)", "a,b"),
        ("mvindex(split(\"a,b,c\", \",\"), -2, -1)", "b,c"),
        ("mvindex(split(\"a,b,c\", \",\"), 5)", "-"),
        ("mvindex(\"x\", 0)", "x"),
        ("mvindex(\"x\", 1)", "-"),
        ("mvindex(\"x\", -3, -1)", "x"),
        ("mvindex(\"x\", -2, 5)", "x"),
        ("mvindex(\"x\", 0, -2)", "-"),
        ("mvindex(\"x\", -2)", "-"),
        ("mvjoin(split(\"a,b\", \",\"), \"; \")", "a; b"),
        ("mvappend(\"a\", null(), split(\"b,c\", \",\"))", "a,b,c"),
        ("mvdedup(split(\"b,a,b\", \",\"))", "b,a"),
        ("mvfind(split(\"x,yy,z\", \",\"), \"^y\")", "1"),
        ("mvfind(\"x\", \"y\")", "-"),
        ("mvrange(1, 6, 2)", "1,3,5"),
        ("mvrange(0, 172801, \"1d\")", "0,86400,172800"),
        ("mvrange(\"1732108454.140891\", \"1732108455.140891\", \"1s\")", "1732108454.140891"),
        ("mvsort(split(\"b,10,9,a\", \",\"))", "10,9,a,b"),
        ("mvzip(split(\"a,b\", \",\"), split(\"1,2,3\", \",\"), \":\")", "a:1,b:2"),
    ]);
}

#[test]
fn times() {
    check(&[
        ("now()", "1732108455"),
        ("time()", "1732108455.25"),
        ("relative_time(now(), \"-1d@d\")", "1731974400"),
        ("relative_time(now(), \"1d@d\")", "1732147200"),
        ("relative_time(now(), \"2h\")-relative_time(now(), \"+2h\")", "0"),
        ("strftime(1732108455.25, \"%Y-%m-%d %H:%M:%S.%3N\")", "2024-11-20 13:14:15.250"),
        ("strftime(\"x\", \"%Y\")", "-"),
        ("strptime(\"2024-11-20 13:14:15\", \"%Y-%m-%d %H:%M:%S\")", "1732108455"),
        ("strptime(\"2024-11-20 13:14:15.123456\", \"%Y-%m-%d %H:%M:%S.%6N\")", "1732108455.123456"),
        ("strptime(\"13:14\", \"%H:%M\")", "1732108440"),
        ("strptime(\"2024-11\", \"%Y-%m\")", "-"),
        ("strptime(\"x\", \"%Y-%m-%d\")", "-"),
    ]);
    for modifier in ["0", "", "5", "1732108455", "2024-11-20"] {
        let refused = run(&format!("relative_time(now(), \"{modifier}\")"));
        assert!(refused.starts_with("error: relative_time()"), "{modifier}: {refused}");
    }
}

#[test]
fn json_documents() {
    const DOCUMENT: &str = r#""{\"b\":1,\"a\":{\"x\":[{\"y\":\"p\"},{\"y\":\"q\"}],\"d.t\":true},\"z\":null}""#;
    let with = |call: &str| call.replace("DOC", DOCUMENT);
    let cases = [
        ("json_extract(DOC, \"b\")", "1"),
        ("json_extract(DOC, \"a.x{}.y\")", r#"["p","q"]"#),
        ("json_extract(DOC, \"a.x{1}.y\")", "q"),
        ("json_extract(DOC, \"a.x{0}\")", r#"{"y":"p"}"#),
        ("json_extract(DOC, \"b\", \"q\")", "[1,null]"),
        ("json_extract(DOC, \"nothing\")", "-"),
        ("json_extract(DOC, \"z\")", "-"),
        ("json_extract(\"{bad\", \"a\")", "-"),
        ("json_keys(DOC)", r#"["b","a","z"]"#),
        ("json_valid(DOC)", "True"),
        ("json_valid(\"{\")", "False"),
        ("json_set(DOC, \"b\", \"two\")", r#"{"b":"two","a":{"x":[{"y":"p"},{"y":"q"}],"d.t":true},"z":null}"#),
        ("json_set(\"{}\", \"k.l\", 3)", r#"{"k":{"l":3}}"#),
        ("json_append(\"{\\\"a\\\":[1]}\", \"a\", \"x\")", r#"{"a":[1,"x"]}"#),
        (
            "json_object(\"a\", 1, \"b\", \"x\", \"c\", true(), \"d\", json_array(1, \"y\"))",
            r#"{"a":1,"b":"x","c":true,"d":[1,"y"]}"#,
        ),
        ("json_array()", "[]"),
        ("spath(DOC, \"a.x{}.y\")", "p,q"),
    ];
    let wrong: Vec<String> = cases
        .iter()
        .map(|(text, wanted)| (with(text), *wanted))
        .filter_map(|(text, wanted)| {
            let got = run(&text);
            (got != wanted).then(|| format!("{text}: got {got}, wanted {wanted}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Calls a function on texts without the parser.
fn direct(name: &str, args: &[&str]) -> Option<String> {
    let state = super::CallState::default();
    let call =
        super::Call { now: NOW, zone: &jiff::tz::TimeZone::UTC, state: &state, prepared: &super::Prepared::Nothing };
    let mut args: Vec<super::Value<'_>> = args.iter().map(|text| super::Value::borrowed_text(text)).collect();
    let value = (super::find(name)?.run)(&mut args, &call);
    value.text().map(|text| text.into_owned())
}

#[test]
fn json_documents_change() {
    let (deep, endless) = (vec!["a"; 200].join("."), vec!["a"; 100_000].join("."));
    let cases: [(&str, &[&str], &str); 11] = [
        (
            "json_append",
            &[r#"{"a":[{"b":[1]},{"b":[2]},{"b":3}]}"#, "a{}.b", "9"],
            r#"{"a":[{"b":[1,9]},{"b":[2,9]},{"b":3}]}"#,
        ),
        ("json_set", &[r#"[{"b":1},2,{"b":3}]"#, "{}.b", "9"], r#"[{"b":9},2,{"b":9}]"#),
        ("json_set", &[r#"{"a":{},"c":null}"#, "a.b{0}", "9", "c.d{}", "9"], r#"{"a":{},"c":null}"#),
        ("json_set", &["{}", &deep, "1"], "{}"),
        ("json_set", &["{}", &endless, "1"], "{}"),
        ("json_delete", &[r#"{"a":1,"b":{"c":2,"d":3}}"#, "a", "b.c"], r#"{"b":{"d":3}}"#),
        ("json_append", &[r#"{"a":[1]}"#, "a", "[2]"], r#"{"a":[1,[2]]}"#),
        ("json_extend", &[r#"{"a":[1]}"#, "a", "[2,3]"], r#"{"a":[1,2,3]}"#),
        ("json_array_to_mv", &[r#"[1,"b",{"c":null}]"#], "1\nb\n{\"c\":null}"),
        ("mv_to_json_array", &["1"], r#"["1"]"#),
        ("mv_to_json_array", &["1", "true"], "[1]"),
    ];
    for (name, args, wanted) in cases {
        assert_eq!(direct(name, args).as_deref(), Some(wanted), "{name} {args:?}");
    }
    assert_eq!(direct("json_delete", &["{", "a"]), None);
}

#[test]
fn values_that_are_too_long_are_refused_before_they_are_built() {
    use std::borrow::Cow;

    use super::{Call, CallState, Prepared, Value, find};

    let (zone, prepared) = (jiff::tz::TimeZone::UTC, Prepared::Nothing);
    let texts = |text: &'static str| Value::Multi(vec![Cow::Borrowed(text); 1_000]);
    let long: &'static str = Box::leak("x".repeat(100_000).into_boxed_str());
    for (name, mut args, fails) in [
        ("mvzip", vec![texts("a"), texts("b"), Value::borrowed_text(long)], true),
        ("mvappend", vec![texts(long), texts(long)], true),
        ("mvjoin", vec![texts("a"), Value::borrowed_text(long)], false),
        ("printf", vec![Value::owned_text("%9999d".repeat(2_000))], false),
    ] {
        let state = CallState::default();
        let call = Call { now: NOW, zone: &zone, state: &state, prepared: &prepared };
        assert_eq!((find(name).unwrap().run)(&mut args, &call), Value::Null, "{name}");
        assert_eq!(state.check().is_err(), fails, "{name}");
    }
}

#[test]
fn hashes() {
    check(&[
        ("md5(\"abc\")", "900150983cd24fb0d6963f7d28e17f72"),
        ("sha1(\"abc\")", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("sha256(\"abc\")", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ]);
    assert!(run("sha512(\"abc\")").starts_with("ddaf35a193617abacc417349ae204131"));
}

#[test]
fn declared_volatility_matches_function_behaviour() {
    use quarry_spl::functions::Volatility;

    use super::{Call, CallState, Prepared, bodies, find};
    use crate::rows::Value;

    let samples = ["3", "2", "a,b", "10.0.0.0/8", "{\"a\":[1]}", "13:05", "%H:%M", "-1d@d"];
    let zone = jiff::tz::TimeZone::UTC;
    let value = |name: &str, now: i64, seed: u64, args: [&str; 3]| {
        let function = find(name).unwrap();
        let (state, prepared) = (CallState::new(seed), Prepared::Nothing);
        let count = function.row.help.arity.max.unwrap_or(args.len()).min(args.len());
        let mut values: Vec<Value<'_>> = args.into_iter().take(count).map(Value::borrowed_text).collect();
        (function.run)(&mut values, &Call { now, zone: &zone, state: &state, prepared: &prepared }).into_owned()
    };
    for (name, _) in bodies() {
        let volatility = find(name).unwrap().row.volatility;
        for (first, second) in samples.iter().flat_map(|first| samples.iter().map(move |second| (first, second))) {
            let args = [*first, *second, "1"];
            let once = value(name, NOW, 1, args);
            if volatility != Volatility::Volatile {
                assert_eq!(once, value(name, NOW, 2, args), "{name}{args:?} is volatile");
            }
            if volatility == Volatility::Immutable {
                assert_eq!(once, value(name, NOW + 86_400_000_000_000, 1, args), "{name}{args:?} is not immutable");
            }
        }
    }
}
