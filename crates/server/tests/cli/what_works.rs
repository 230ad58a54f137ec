//! Generates `docs/splunk/what-works.md` from the tables that the program itself reads: commands, functions, settings,
//! inputs, endpoints. The names in Splunk's public manuals are listed here; the page shows a name as absent if no table
//! contains it. `UPDATE_TEXTS=1 cargo test -p quarry --test cli what_works` writes the page.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use quarry_api::{Access, ENDPOINTS, EndpointRow};
use quarry_conf::table::{ConfTable, Section, StanzaName};
use quarry_conf::tables::{CONFS_WITHOUT_TABLE, TABLES};
use quarry_spl::commands::{self, CommandHelp, Group};
use quarry_spl::functions::{EVAL_FUNCTIONS, FunctionHelp, STATS_FUNCTIONS};

/// Functions of `eval` and `where` in Splunk's search reference.
const EVAL_OF_SPLUNK: &str = "abs acos acosh asin asinh atan atan2 atanh avg bit_and bit_not bit_or bit_shift_left \
    bit_shift_right bit_xor case ceil ceiling cidrmatch coalesce commands cos cosh exact exp false floor hypot if in ipmask \
    isarray isbool isdouble isint ismv isnotnull isnull isnum isobject isstr json json_append json_array json_array_to_mv \
    json_delete json_entries json_extend json_extract json_extract_exact json_has_key_exact json_keys json_object json_set \
    json_set_exact json_valid len like ln log lookup lower ltrim match max md5 min mv_to_json_array mvappend mvcount mvdedup \
    mvfilter mvfind mvindex mvjoin mvmap mvrange mvsort mvzip now null nullif pi pow printf random relative_time replace round \
    rtrim searchmatch sha1 sha256 sha512 sigfig sin sinh spath split sqrt strftime strptime substr sum tan tanh time toarray \
    tobool todouble toint tojson tomv tonumber toobject tostring trim true typeof upper urldecode validate";

/// Functions of `stats` and related commands in Splunk's search reference; `percN` and similar functions are listed
/// without the number. Not listed are `rate_avg` and `rate_sum`, which only `mstats` has (and which are supported).
const STATS_OF_SPLUNK: &str = "avg c count dc distinct_count earliest earliest_time estdc estdc_error exactperc first last \
    latest latest_time list max mean median min mode p perc range rate stdev stdevp sum sumsq upperperc values \
    var varp";

/// Commands of Splunk's machine learning add-on, which many apps use.
const COMMANDS_OF_SPLUNK: &str = "apply deletemodel fit listmodels sample score summary";

/// Conf files of Splunk's admin manual.
const CONFS_OF_SPLUNK: &str = "alert_actions app audit authentication authorize bookmarks checklist collections commands \
    datamodels datatypesbnf default.meta deploymentclient distsearch event_renderers eventdiscoverer eventtypes federated fields \
    global-banner health indexes inputs instance.cfg limits literals macros messages metric_alerts metric_rollups multikv outputs \
    passwords procmon-filters props pubsub restmap rolling_upgrade savedsearches searchbnf segmenters server serverclass \
    source-classifier sourcetypes splunk-launch tags telemetry times transactiontypes transforms ui-prefs ui-tour user-prefs \
    user-seed viewstates visualizations web web-features wmi workflow_actions workload_policy workload_pools workload_rules";

/// Stanzas of inputs.conf in Splunk's admin manual.
const INPUTS_OF_SPLUNK: &[(&str, &str)] = &[
    ("monitor://", ""),
    ("batch://", ""),
    ("tcp", ""),
    ("tcp-ssl", ""),
    ("udp", ""),
    ("splunktcp", ""),
    ("splunktcp-ssl", ""),
    ("splunktcptoken://", ""),
    ("SSL", ""),
    ("http", ""),
    ("http://", ""),
    ("script://", ""),
    ("journald://", ""),
    ("fschange:", ""),
    ("filter:", ""),
    ("fifo://", "named pipes"),
    ("remote_queue:", "queues of cloud services"),
    ("WinEventLog://", "Windows only; forwarders send it"),
    ("perfmon://", "Windows only; forwarders send it"),
    ("admon://", "Windows only; forwarders send it"),
    ("WinRegMon://", "Windows only; forwarders send it"),
    ("WinHostMon://", "Windows only; forwarders send it"),
    ("WinNetMon://", "Windows only; forwarders send it"),
    ("WinPrintMon://", "Windows only; forwarders send it"),
    ("powershell://", "Windows only; forwarders send it"),
];

/// Endpoint families of Splunk's REST reference, from `/services`.
const ENDPOINTS_OF_SPLUNK: &[(&str, &str)] = &[
    ("alerts/", "fired alerts"),
    ("apps/", "installing apps"),
    ("auth/", "logins"),
    ("authentication/", "users and sessions"),
    ("authorization/", "roles, capabilities, tokens"),
    ("cluster/", "clusters of indexers"),
    ("configs/", "conf files"),
    ("data/commands", "custom commands"),
    ("data/indexes", "indexes"),
    ("data/inputs/", "inputs"),
    ("data/lookup-table-files", "lookup files"),
    ("data/outputs/", "forwarding"),
    ("data/props/", "props.conf"),
    ("data/transforms/", "transforms.conf"),
    ("data/ui/", "views and dashboards"),
    ("datamodel/", "data models"),
    ("deployment/", "deployment server"),
    ("kvstore/", "collections"),
    ("licenser/", "licences"),
    ("messages", "messages of the node"),
    ("properties/", "conf files by setting"),
    ("receivers/", "events over the management port"),
    ("saved/", "saved searches and event types"),
    ("scheduled/", "views on a schedule"),
    ("search/", "searches"),
    ("server/", "the node itself"),
    ("storage/", "collections and passwords"),
    ("workloads/", "shares of the machine"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Splits a list into names.
fn words(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split_whitespace()
}

/// Formats a text as a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn commands_part(page: &mut String) {
    let (idle, working): (Vec<&CommandHelp>, Vec<&CommandHelp>) =
        commands::help().iter().partition(|help| help.group == Group::NoEffect);
    writeln!(
        page,
        "## Search commands\n\n{} are supported; `quarry help COMMAND` shows each with examples.\n",
        working.len()
    )
    .unwrap();
    for group in Group::ALL.into_iter().filter(|group| *group != Group::NoEffect) {
        let names: Vec<String> =
            working.iter().filter(|help| help.group == group).map(|help| format!("`{}`", help.name)).collect();
        writeln!(page, "- **{}**: {}", group.title(), names.join(", ")).unwrap();
    }
    let idle: Vec<String> = idle.iter().map(|help| format!("`{}`", help.name)).collect();
    writeln!(page, "\nAccepted without effect: {}.\n", idle.join(", ")).unwrap();
    writeln!(page, "Not supported; a search with one of them is refused. The error names the alternative, if any:\n")
        .unwrap();
    writeln!(page, "| command | instead |\n|---|---|").unwrap();
    let mut absent: Vec<(&str, &str)> = commands::UNSUPPORTED_COMMANDS.to_vec();
    let is_known = |name: &&str| commands::is_command(name) || absent.iter().any(|(known, _)| known == name);
    let others: Vec<&str> = words(COMMANDS_OF_SPLUNK).filter(|name| !is_known(name)).collect();
    absent.extend(others.into_iter().map(|name| (name, "")));
    absent.sort_unstable();
    absent.iter().for_each(|(name, instead)| writeln!(page, "| `{name}` | {} |", cell(instead)).unwrap());
}

fn functions_part(title: &str, rows: &[FunctionHelp], of_splunk: &'static str, page: &mut String) {
    writeln!(page, "\n## {title}\n\n{} are supported:\n\n| function | result |\n|---|---|", rows.len()).unwrap();
    rows.iter().for_each(|row| writeln!(page, "| `{}` | {} |", cell(row.syntax), cell(row.summary)).unwrap());
    let absent: Vec<String> = words(of_splunk)
        .filter(|name| !rows.iter().any(|row| row.name == *name))
        .map(|name| format!("`{name}`"))
        .collect();
    let absent = if absent.is_empty() { "none of those that Splunk documents".to_owned() } else { absent.join(", ") };
    writeln!(page, "\nNot supported: {absent}.").unwrap();
}

/// Stanza name of a section, as the page writes it.
fn stanza(section: &Section) -> String {
    match section.stanza {
        StanzaName::Named(name) => format!("`[{name}]`"),
        StanzaName::Prefix(prefix) => format!("`[{prefix}…]`"),
        StanzaName::Any => "any".to_owned(),
    }
}

fn settings_part(page: &mut String) {
    writeln!(
        page,
        "\n## Settings\n\nUnsupported and unknown settings are reported when the server starts and by `quarry btool check`; \
         settings accepted without effect are not.\n"
    )
    .unwrap();
    for table in TABLES {
        writeln!(page, "### {}.conf\n\n| stanza | settings |\n|---|---|", table.conf).unwrap();
        for section in table.sections {
            let names: Vec<String> = section.rows.iter().map(|row| format!("`{}`", row.name)).collect();
            writeln!(page, "| {} | {} |", cell(&stanza(section)), cell(&names.join(", "))).unwrap();
        }
        let list = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        if !table.unsupported.is_empty() {
            writeln!(page, "\nNot supported, with a warning: {}.", list(table.unsupported)).unwrap();
        }
        if !table.unused.is_empty() {
            writeln!(page, "\nAccepted without effect: {}.", list(table.unused)).unwrap();
        }
        writeln!(page).unwrap();
    }
    writeln!(page, "### Other conf files\n\n| file | supported content |\n|---|---|").unwrap();
    CONFS_WITHOUT_TABLE.iter().for_each(|(conf, what)| writeln!(page, "| {conf}.conf | {what} |").unwrap());
    let is_read = |conf: &str| {
        ConfTable::find_table(conf).is_some() || CONFS_WITHOUT_TABLE.iter().any(|(known, _)| *known == conf)
    };
    // An app's default.meta does not have the name of a conf file, but it is read as one.
    let others =
        words(CONFS_OF_SPLUNK).filter(|conf| !is_read(conf) && *conf != "default.meta" && *conf != "collections");
    writeln!(page, "\nNot supported: {}.", others.collect::<Vec<_>>().join(", ")).unwrap();
}

fn inputs_part(page: &mut String) {
    let table = ConfTable::find_table("inputs").unwrap();
    writeln!(page, "\n## Inputs\n\n| stanza of inputs.conf | |\n|---|---|").unwrap();
    for (name, why) in INPUTS_OF_SPLUNK {
        let works = table.sections.iter().any(|section| match section.stanza {
            StanzaName::Named(known) => known == *name,
            StanzaName::Prefix(prefix) => prefix.trim_end_matches([':', '/']) == name.trim_end_matches([':', '/']),
            StanzaName::Any => false,
        });
        let verdict = if works { "supported".to_owned() } else { format!("not supported: {why}") };
        assert!(works || !why.is_empty(), "{name} is no input of the table: say why");
        writeln!(page, "| `[{name}{}]` | {verdict} |", if name.ends_with('/') { "…" } else { "" }).unwrap();
    }
    writeln!(page, "| `[SCHEME://…]` of apps | supported |").unwrap();
    writeln!(page, "\nIn addition to Splunk's inputs: OTLP, Elasticsearch bulk, Loki and Prometheus remote write on the ports of `[http]` and `[otlp]`.").unwrap();
}

fn endpoints_part(page: &mut String) {
    writeln!(page, "\n## REST\n\n| method | endpoint | requires | |\n|---|---|---|---|").unwrap();
    for row in ENDPOINTS.iter().filter(|row| row.alias_of.is_none()) {
        let takes = match row.access {
            Access::Open => "nothing".to_owned(),
            Access::LoggedIn => "a login".to_owned(),
            Access::Capability(capability) => format!("`{capability}`"),
        };
        writeln!(page, "| {} | `{}` | {takes} | {} |", row.method, row.path, row.summary).unwrap();
    }
    let aliases: BTreeSet<(String, String)> = ENDPOINTS.iter().filter_map(alias_of_collection).collect();
    writeln!(page, "\nFurther paths, with all that is below them:\n\n| path | as |\n|---|---|").unwrap();
    for (alias, collection) in aliases {
        writeln!(page, "| `{alias}` | `{collection}` |").unwrap();
    }
    writeln!(page, "\nSplunk's endpoints by family:\n\n| family | | here |\n|---|---|---|").unwrap();
    for (family, what) in ENDPOINTS_OF_SPLUNK {
        let has = ENDPOINTS.iter().any(|row| row.path.trim_start_matches("/services/").starts_with(family));
        writeln!(page, "| `{family}` | {what} | {} |", if has { "those above" } else { "none" }).unwrap();
    }
    writeln!(page, "\nThe command `rest` has further endpoints: see [rest](../spl/rest.md).").unwrap();
}

/// An alias of a collection with the collection's path; `None` for the paths below it.
fn alias_of_collection(row: &EndpointRow) -> Option<(String, String)> {
    let collection = row.alias_of.as_deref()?;
    (row.path.matches('/').count() == 3 && row.method == "GET").then(|| (row.path.clone(), collection.to_owned()))
}

/// Sentences of the manual about differences from Splunk, by page.
fn differences_part(page: &mut String) {
    writeln!(page, "\n## Where answers differ\n\nFrom the pages of the manual:\n\n| page | |\n|---|---|").unwrap();
    let mut pages: Vec<PathBuf> =
        std::fs::read_dir(root().join("spec/spl")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    for path in pages {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let prose = text.split("## Examples").next().unwrap_or_default();
        let paragraphs = prose.split("\n\n").flat_map(|paragraph| paragraph.split("\n- "));
        for paragraph in paragraphs.filter(|paragraph| paragraph.contains("Splunk") && !paragraph.starts_with('|')) {
            let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
            let reported: Vec<&str> =
                line.split_inclusive(". ").filter(|part| part.contains("Splunk")).map(str::trim).collect();
            let reported = reported.join(" ").trim_start_matches("- ").to_owned();
            writeln!(page, "| [{name}](../spl/{name}.md) | {} |", cell(&reported)).unwrap();
        }
    }
}

#[test]
fn the_compatibility_page_matches_the_tables() {
    let mut page = "# Compatibility with Splunk\n\nCompared with Splunk Enterprise, as its public manuals describe it. This page is generated from the tables that the program uses; a test keeps it up to date.\n\n".to_owned();
    commands_part(&mut page);
    let of_eval: Vec<FunctionHelp> = EVAL_FUNCTIONS.iter().map(|row| row.help).collect();
    let of_stats: Vec<FunctionHelp> = STATS_FUNCTIONS.iter().map(|row| row.help).collect();
    functions_part("Functions of eval", &of_eval, EVAL_OF_SPLUNK, &mut page);
    functions_part("Functions of stats", &of_stats, STATS_OF_SPLUNK, &mut page);
    settings_part(&mut page);
    inputs_part(&mut page);
    endpoints_part(&mut page);
    differences_part(&mut page);
    writeln!(page, "\nNot supported at all: scheduled searches and alerts, dashboards and a web interface, clusters, a deployment server, licences.").unwrap();
    let place = root().join("docs/splunk/what-works.md");
    if std::env::var_os("UPDATE_TEXTS").is_some() {
        std::fs::write(&place, &page).unwrap();
    }
    let there = std::fs::read_to_string(&place).unwrap_or_default();
    let changed = there.lines().zip(page.lines()).find(|(there, now)| there != now);
    assert!(there == page, "write docs/splunk/what-works.md anew with UPDATE_TEXTS=1; the first change: {changed:?}");
}

#[test]
fn names_of_splunk_are_listed_once() {
    for list in [EVAL_OF_SPLUNK, STATS_OF_SPLUNK, COMMANDS_OF_SPLUNK, CONFS_OF_SPLUNK] {
        assert_eq!(words(list).collect::<BTreeSet<_>>().len(), words(list).count());
    }
}
