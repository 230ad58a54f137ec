//! `quarry demo`: generates logs of one bad day, indexes them, and runs five searches that show what happened.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use quarry_event::time::NS_PER_SEC;
use quarry_eventgen::{LogFile, Plan};
use quarry_search::{ResultTable, SearchParams, SearchService};
use quarry_stdx::number::f64_of;

use crate::cli::{DemoArgs, NodeArgs, OneshotArgs, OutputForm};
use crate::data_directory::{Settings, open_read_only};
use crate::failure::Failure;
use crate::output::OutputStyle;
use crate::output::line_folding::fold_text;
use crate::server_client::Remote;
use crate::{add, output, search, terminal, zone};

/// A question about the logs with the search that answers it and an interpretation of the result.
struct Question {
    title: &'static str,
    search: &'static str,
    reading: &'static str,
}

const QUESTIONS: &[Question] = &[
    Question {
        title: "Customers say they cannot pay. When did it start, and how bad is it?",
        search: r#"source=*access.log "POST /checkout/pay" earliest="11/20/2026:13:30:00" latest="11/20/2026:15:15:00"
  | rex "\" (?<status>\d{3}) " | timechart span=15m count by status"#,
        reading: "Soon after 14:00 most payments are answered with 503; soon after 14:45 they work again.",
    },
    Question {
        title: "What does the payment service say in those minutes?",
        search: r#"source=*payments.json level=ERROR
  | stats count min(_time) as first max(_time) as last by exception, config
  | eval first=strftime(first, "%H:%M:%S"), last=strftime(last, "%H:%M:%S")"#,
        reading: "For forty minutes it runs out of database connections, always under the new configuration 2026-11-20-r2.",
    },
    Question {
        title: "Who changed it? Which address tried the most passwords on the bastion?",
        search: r#""Failed password" | rex "for (invalid user )?(?<user>\S+) from (?<src>\S+) port"
  | stats count dc(user) as users by src | sort - count | head 3"#,
        reading: "203.0.113.66, far ahead of everyone else.",
    },
    Question {
        title: "Did it get in?",
        search: r#"203.0.113.66 Accepted | table _time host _raw"#,
        reading: "Yes: as the user deploy, with a password, 23 minutes before the outage.",
    },
    Question {
        title: "What left the network?",
        search: r#"source=*firewall.log action=allowed src_ip=10.1.0.5
  | stats count sum(bytes_out) as bytes by dest_ip, rule | sort - bytes | head 3"#,
        reading: "This host sends to a single address outside, and a lot: this was more than a bad deployment.",
    },
];

/// Hosts of the sample logs, each with its logs: `shop`, and the hosts whose names are in the lines of the other logs.
const HOSTS: &[(&str, &[LogFile])] = &[
    ("shop", &[LogFile::Access, LogFile::Payments, LogFile::Orders, LogFile::Metrics]),
    ("bastion", &[LogFile::Auth]),
    ("fw-1", &[LogFile::Firewall]),
];

/// Zone of the sample logs.
const ZONE: &str = "UTC";

/// Generates the logs, indexes them and runs the searches; the index is in `data_dir` if the user named one.
pub(crate) fn run(arguments: &DemoArgs, data_dir: Option<&PathBuf>) -> Result<u8, Failure> {
    let logs = arguments.dir.join("logs");
    let data = data_dir.cloned().unwrap_or_else(|| arguments.dir.join("data"));
    let files = generate(&logs, arguments.megabytes)?;
    writeln!(io::stdout(), "\nIndexing {} files from {}", files.len(), logs.display())?;
    for (host, logs) in HOSTS {
        let of_host = files.iter().filter(|(log, _)| logs.contains(log));
        let oneshot = OneshotArgs {
            files: of_host.map(|(_, file)| file.display().to_string()).collect(),
            index: "main".to_owned(),
            sourcetype: None,
            host: Some((*host).to_owned()),
            source: None,
            again: false,
            zone: Some(ZONE.to_owned()),
            node: NodeArgs::default(),
        };
        let code = add::run(&data, &oneshot)?;
        if code != 0 {
            // If a file was not added completely, the answers would mislead.
            return Ok(code);
        }
    }
    let settings = Settings::of_data_dir(&data);
    let answering = DemoRunner::of(&data, &settings)?;
    let zone = zone::parse_option(Some(ZONE))?.unwrap_or_else(zone::machine);
    let mut out = io::stdout().lock();
    for (at, question) in QUESTIONS.iter().enumerate() {
        writeln!(
            out,
            "\n{}. {}\n   {} --data-dir {} search --zone {ZONE} '{}'\n",
            at + 1,
            question.title,
            program(),
            data.display(),
            question.search
        )?;
        let started = settings.clock.elapsed_ns();
        let (table, events) = answering.answer(question.search, &zone)?;
        let elapsed_ms = f64_of(settings.clock.elapsed_ns() - started) / f64_of(NS_PER_SEC / 1_000);
        let style = OutputStyle {
            form: OutputForm::Table,
            has_head: true,
            events,
            color: terminal::colors(crate::cli::ColorChoice::Auto),
            width: terminal::width(),
        };
        output::write(&table, style, &mut out)?;
        let reading = format!("   {} ({elapsed_ms:.0} ms)", question.reading);
        let columns = terminal::width().map_or(usize::MAX, usize::from);
        writeln!(out, "\n{}", fold_text(&reading, columns))?;
    }
    let (program, data) = (program(), data.display());
    writeln!(out, "\nAsk your own: {program} --data-dir {data} search 'error | stats count by source'")?;
    writeln!(out, "Start the server: {program} --data-dir {data} serve")?;
    writeln!(
        out,
        "and ask it: curl -u admin:changeme http://127.0.0.1:8089/services/search/jobs -d exec_mode=oneshot \\"
    )?;
    writeln!(out, "  -d output_mode=json -d 'search=search error | stats count by source'")?;
    Ok(0)
}

/// Process that answers the questions: this process, or the server that has the demo's data open.
enum DemoRunner {
    InProcess(SearchService),
    Server(Remote),
}

impl DemoRunner {
    fn of(data: &Path, settings: &Settings) -> Result<DemoRunner, Failure> {
        Ok(match Remote::find(data) {
            Some(remote) => DemoRunner::Server(remote),
            None => {
                DemoRunner::InProcess(settings.search_settings(Some(data)).service(open_read_only(data, settings)?)?)
            }
        })
    }

    /// Runs a search; returns its rows and whether they are events.
    fn answer(&self, text: &str, zone: &TimeZone) -> Result<(ResultTable, bool), Failure> {
        match self {
            DemoRunner::InProcess(service) => {
                let params =
                    SearchParams { text: text.to_owned(), zone: Some(zone.clone()), ..SearchParams::for_owner() };
                let outcome = search::run_in_process(service, params)?;
                Ok((outcome.table, outcome.events))
            }
            DemoRunner::Server(remote) => remote.search_table(text, zone),
        }
    }
}

/// The name with which this program was called.
fn program() -> String {
    std::env::args_os().next().map_or_else(|| "quarry".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Writes the sample logs, replacing existing files.
fn generate(folder: &Path, megabytes: u64) -> Result<Vec<(LogFile, PathBuf)>, Failure> {
    let cannot = |path: &Path, error: io::Error| Failure::Storage(format!("cannot write {}: {error}", path.display()));
    std::fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
    let plan = Plan { bytes: megabytes * 1_000_000, ..Plan::DEMO };
    let mut files = Vec::new();
    let mut out = io::stdout().lock();
    for log in LogFile::ALL {
        let path = folder.join(log.name());
        let file = File::create(&path).map_err(|error| cannot(&path, error))?;
        let mut writer = BufWriter::new(file);
        let events = log.write(&plan, &mut writer).and_then(|events| writer.flush().map(|()| events));
        let events = events.map_err(|error| cannot(&path, error))?;
        let bytes = path.metadata().map_or(0, |metadata| metadata.len());
        writeln!(out, "{:>7.1} MB  {events:>8} events  {}", f64_of(bytes) / 1e6, path.display())?;
        files.push((log, path));
    }
    Ok(files)
}
