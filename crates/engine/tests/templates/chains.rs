//! Commands between the events and a report have the same results on coded columns as on texts.

use quarry_event::TimeRange;

use super::compare;

const EXPRESSIONS: &[&str] = &[
    r#"eval x=upper(level) | stats count by x"#,
    r#"eval x=lower(user), y=len(x) | stats count, sum(y) by x"#,
    r#"eval x=if(match(level, "^I"), "yes", "no") | stats count by x"#,
    r#"eval x=if(level=="INFO", status, user) | stats count by x"#,
    r#"eval x=coalesce(level, "none") | stats count by x"#,
    r#"eval x=coalesce(level, user, "none") | stats count by x"#,
    r#"eval x=case(level=="INFO", 1, like(level, "W%"), "two", isnull(level), 0.5) | stats count by x"#,
    r#"eval x=case(level=="INFO", status=404, true(), "x") | stats count by x"#,
    r#"eval x=if(isnull(user), case(level=="INFO", true(), true(), "x"), "y") | eval y=typeof(x) | stats count by x, y"#,
    r#"eval x=substr(level, 1, 1)."-".status | stats count by x"#,
    r#"eval x=tonumber(v) | stats count, sum(x) by x"#,
    r#"eval x=tonumber(status) + 1 | stats sum(x) by level"#,
    r#"eval x=status+1, y=status."", z=typeof(status) | stats count by x, y, z"#,
    r#"eval x=took*2 | stats sum(x), max(x), min(x) by level"#,
    r#"eval x=took+num, y=took/2, z=took%3 | stats sum(x), sum(y), sum(z)"#,
    r#"eval x=took+"s" | stats dc(x)"#,
    r#"eval x=num | stats values(x)"#,
    r#"eval x=round(num) | stats count by x"#,
    r#"eval x=neg*-1 | stats sum(x)"#,
    r#"eval x=big+1 | stats values(x)"#,
    r#"eval x=user_id%10, y=user_id/10, z=user_id-1 | stats sum(y), sum(z) by x"#,
    r#"eval x=typeof(took), y=typeof(level), z=typeof(missing), w=typeof(v) | stats count by x, y, z, w"#,
    r#"eval x=if(cidrmatch("10.0.0.0/15", ip), "near", "far") | stats count by x"#,
    r#"eval x=replace(ip, "\.\d+$", ".0") | stats count by x"#,
    r#"eval x=replace(level, "([A-Z])", "\1_") | stats count by x"#,
    r#"eval x=split(level, "A") | stats count by x"#,
    r#"eval x=mvcount(split(ip, ".")), y=mvindex(split(ip, "."), 1) | stats count by x, y"#,
    r#"eval x=mvmap(tags{}, upper(tags{})) | stats count by x"#,
    r#"eval x=mvfilter(match('tags{}', "y")) | stats count by x"#,
    r#"eval x=mvappend(level, user) | stats count by x"#,
    r#"eval x=strftime(status, "%H:%M:%S") | stats count by x"#,
    r#"eval x=random()%1, y=level.x | stats count by y"#,
    r#"eval x=null(), y=nullif(level, "INFO") | stats count by y"#,
    r#"eval x=b | stats count, count(x) by x"#,
    r#"eval x="<".b.">", y=len(empty) | stats count by x, y"#,
    r#"eval x=if(len(b)==0, "empty", "full") | stats count by x"#,
    r#"eval x=md5(level) | stats count by x"#,
    r#"eval level=lower(level), level=level."!" | stats count by level"#,
    r#"eval {level}=status | stats sum(INFO), sum(WARN) by host"#,
    r#"eval x=level, y=x | rename y as z | stats count by x, z"#,
    r#"eval x=host."/".sourcetype | stats count by x"#,
    r#"eval x=tostring(status, "hex"), y=printf("%05d", status) | stats count by x, y"#,
    r#"eval x=if(searchmatch("level=INFO"), 1, 0) | stats sum(x)"#,
    r#"eval x=if(status>300 AND level!="INFO", upper(level), lower(level)) | stats count by x"#,
    r#"eval x=if(status>300 OR like(user, "%o%"), user, level) | stats count by x"#,
    r#"eval x=validate(status>100, "small", level=="INFO", "other") | stats count by x"#,
    r#"eval d=date_hour, x=_time%60 | stats count by x"#,
];

const CONDITIONS: &[&str] = &[
    r#"where match(msg, "after \d5%")"#,
    r#"where match(level, "^[IW]")"#,
    r#"where NOT match(level, "^[IW]")"#,
    r#"where match(url, "page=\d$")"#,
    r#"where like(level, "I%") AND status=200"#,
    r#"where status=200 AND like(level, "I%")"#,
    r#"where level="INFO" OR isnull(status)"#,
    r#"where level="INFO" XOR status=200"#,
    r#"where isnull(level)"#,
    r#"where isnotnull(level) AND level!=user"#,
    r#"where level IN ("INFO", "WARN")"#,
    r#"where status IN (200, "404")"#,
    r#"where status IN (level, 200)"#,
    r#"where status>300.5"#,
    r#"where took>8.5 AND took<=100"#,
    r#"where took=8.8"#,
    r#"where took!="8.80""#,
    r#"where num>=3 AND num<7.25"#,
    r#"where num=3"#,
    r#"where neg < -10"#,
    r#"where v=7"#,
    r#"where v="007""#,
    r#"where v<8"#,
    r#"where took>num"#,
    r#"where ip="10.1.0.3" OR ip>"10.3""#,
    r#"where cidrmatch("10.2.0.0/16", ip)"#,
    r#"where len(user)>3"#,
    r#"where tonumber(status)>=404"#,
    r#"where if(level="INFO", true(), "no")"#,
    r#"where coalesce(level="INFO", user="bob")"#,
    r#"where level"#,
    r#"where b="""#,
    r#"where 'tags{}'="x""#,
    r#"where host="web1" AND sourcetype="kv""#,
    r#"where status>level"#,
    r#"search level=info status>=200"#,
    r#"search level=I* OR user=bob"#,
    r#"search NOT level=I*"#,
    r#"search ip=10.2.0.0/16"#,
    r#"search took>8.5"#,
    r#"search level IN (INFO, w*)"#,
    r#"search user=* AND NOT status=200"#,
    r#"search *=404"#,
    r#"regex level="^I""#,
    r#"regex level!="^I""#,
    r#"regex status="^[24]0""#,
    r#"regex ip="\.7$""#,
    r#"regex tags{}="y""#,
    r#"regex missing="x""#,
];

const COMMANDS: &[&str] = &[
    r#"rex field=level "(?<first>.)(?<rest>\w*)" | stats count by first, rest"#,
    r#"rex field=msg "connection (?<n>\d+)" | stats dc(n), sum(n)"#,
    r#"rex field=msg "(?<tail>every\d)" | stats count by tail, level"#,
    r#"rex field=ip "(?<net>\d+\.\d+)\.(?<device>.*)" | stats count by net"#,
    r#"rex field=status "(?<level>\d)" | stats count by level"#,
    r#"rex field=level max_match=0 "(?<c>[A-Z])" | stats count by c"#,
    r#"rex field=level offset_field=place "(?<c>[AEIOU])" | stats count by c, place"#,
    r#"rex field=level "(?<level>N.*)" | stats count by level"#,
    r#"rex field=took "(?<whole>\d+)\." | eval x=whole*2 | stats sum(x)"#,
    r#"rex field=user mode=sed "s/[aeiou]/_/g" | stats count by user"#,
    r#"rex field=user mode=sed "y/abc/xyz/" | stats count by user"#,
    r#"rex field=level "(?<first>.)" | rex field=first "(?<vowel>[AEIOU])" | stats count by first, vowel"#,
    r#"fillnull value=none level user missing | stats count by level, user, missing"#,
    r#"fillnull level status took | stats count by level, status, took"#,
    r#"fillnull value=7 v num | stats count, sum(v) by num"#,
    r#"rename level as severity, status AS level | stats count by severity, level"#,
    r#"rename missing as level | stats count by level"#,
    r#"fields level, status | stats count by level, status"#,
    r#"fields - status | stats count by level, status"#,
    r#"table level status | stats count by level, status"#,
    r#"bin span=100 status | stats count by status"#,
    r#"bin span=2 took AS t | stats count by t"#,
    r#"bin span=5 num | stats count by num, level"#,
    r#"bin _time span=2m | stats count by _time, level"#,
    r#"lookup urgencies level OUTPUT urgency owner | stats count by urgency, owner"#,
    r#"lookup urgencies level OUTPUTNEW urgency AS user | stats count by user"#,
    r#"lookup urgencies level AS status OUTPUT urgency | stats count by urgency, status"#,
    r#"lookup urgencies level AS v OUTPUT owner | stats count by v, owner"#,
    r#"lookup urgencies level AS user, urgency AS level OUTPUT owner | stats count by owner"#,
    r#"makemv delim="a" user | stats count by user"#,
    r#"makemv tokenizer="([A-Z])" level | stats count by level"#,
    r#"makemv delim="." ip | mvexpand ip | stats count by ip, level"#,
    r#"mvexpand tags{} | stats count by tags{}, level"#,
    r#"spath input=level path=a output=x | stats count by x, level"#,
    r#"spath path=status output=x | stats count by x"#,
    r#"eval j="{\"l\":\"".level."\",\"s\":".status."}" | spath input=j path=l output=user | stats count by user"#,
    r#"eval x=upper(level) | where x="INFO" | rex field=x "(?<y>N.)" | fillnull value="-" y | stats count by y, user"#,
    r#"where status>=300 | eval x=level."/".user | top 20 x"#,
    r#"eval x=substr(user, 1, 1) | chart count over x by level"#,
    r#"eval x=substr(user, 1, 1) | timechart span=5m count by x"#,
    r#"where match(level, "N") | stats first(level), last(user), values(status) by host"#,
    r#"eval x=lower(level) | eventstats count by x | stats values(count) by x"#,
    r#"eval x=lower(level) | sort x | table x level"#,
    r#"eval x=lower(level) | dedup x | table x level"#,
    r#"eval x=lower(level), y=user | table x y status took ip"#,
];

fn of(heads: &[&str], tails: &[&str], range: TimeRange) {
    compare(heads.iter().flat_map(|head| tails.iter().map(move |tail| (format!("search {head} | {tail}"), range))));
}

const PART: TimeRange = TimeRange { earliest: Some(10_000_000_000), latest: Some(1_020_000_000_000) };

#[test]
fn expressions_give_the_same_results() {
    of(&["*", "NOT level=INFO"], EXPRESSIONS, TimeRange::ALL);
}

#[test]
fn conditions_between_commands_give_the_same_results() {
    let tails: Vec<String> =
        CONDITIONS.iter().map(|condition| format!("{condition} | stats count, dc(user_id) by level, status")).collect();
    let tails: Vec<&str> = tails.iter().map(String::as_str).collect();
    of(&["*", "alice OR zebra"], &tails, TimeRange::ALL);
    let counts: Vec<String> = CONDITIONS.iter().map(|condition| format!("{condition} | stats count")).collect();
    let counts: Vec<&str> = counts.iter().map(String::as_str).collect();
    of(&["*"], &counts, PART);
}

#[test]
fn commands_give_the_same_results() {
    of(&["*", "status=404 OR level=WARN"], COMMANDS, TimeRange::ALL);
    of(&["*"], COMMANDS, PART);
}
