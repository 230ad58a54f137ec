//! The command line: what can be typed, with its help. Running it is the other modules' work.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use quarry_conf::Namespace;

use crate::failure::{Failure, exit_codes};
use crate::s3_bench::S3BenchArgs;

/// Searches machine data: raw logs in, SPL answers out.
#[derive(Debug, Parser)]
#[command(
    name = "quarry",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = exit_codes()
)]
pub(crate) struct Cli {
    /// Folder of the data, configuration and catalog.
    #[arg(long, global = true, default_value = "quarry-data", value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// When to colour the output.
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN")]
    pub(crate) color: ColorChoice,
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// When output is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// Only on a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Add data to an index.
    #[command(subcommand)]
    Add(AddVerb),
    /// Run a search over the data folder, or over files without indexing them.
    Search(SearchArgs),
    /// Look at the buckets on disk.
    #[command(subcommand)]
    Bucket(BucketVerb),
    /// Look after where indexes keep their buckets.
    #[command(subcommand)]
    Index(IndexVerb),
    /// Look at summaries of accelerated data models.
    #[command(subcommand)]
    Datamodel(DataModelVerb),
    /// Look after the users who may log in.
    #[command(subcommand)]
    User(UserVerb),
    /// Run the server.
    Serve(ServeArgs),
    /// Run the inputs without a store and send their events to indexers, as outputs.conf says.
    Forward(ForwardArgs),
    /// Show merged configuration: `btool CONF list [STANZA] [--debug]`.
    Btool(BtoolArgs),
    /// Look at SPL without running it.
    #[command(subcommand)]
    Spl(SplVerb),
    /// Tell what adding a file would make of it, and why: events, times, sourcetype, the settings that do it.
    Preview(PreviewArgs),
    /// Generate sample logs, index them and run five searches over them.
    Demo(DemoArgs),
    /// Measure what a node depends on.
    #[command(subcommand)]
    Bench(BenchVerb),
    /// Write what a shell needs to complete this command line: `source <(quarry completions bash)`.
    Completions {
        /// bash, zsh, fish, elvish or powershell.
        shell: clap_complete::Shell,
    },
    /// Show help for a search command, or list them all.
    Help {
        /// SPL command, e.g. stats.
        command: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AddVerb {
    /// Index files once: names, globs or folders; .gz and .zst are unpacked; `-` is standard input.
    Oneshot(OneshotArgs),
}

#[derive(Args, Debug)]
pub(crate) struct OneshotArgs {
    /// Files, globs, folders, or `-`.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Index that takes the events.
    #[arg(long, default_value = "main")]
    pub(crate) index: String,
    /// Sourcetype; guessed from the data when absent.
    #[arg(long)]
    pub(crate) sourcetype: Option<String>,
    /// Host field; this machine's name when absent.
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Source field; the file's path when absent.
    #[arg(long)]
    pub(crate) source: Option<String>,
    /// Index the files even if the same bytes were indexed before.
    #[arg(long)]
    pub(crate) again: bool,
    /// Time zone of times that name none, e.g. Europe/Berlin; TZ in props.conf counts before it, and the machine's zone
    /// when it is absent.
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct SearchArgs {
    /// The search, e.g. 'error | stats count by host'.
    #[arg(value_name = "SPL")]
    pub(crate) text: String,
    /// Search these files directly; .gz and .zst are unpacked; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Start of the time range, inclusive: -24h@h, 2026-11-20T00:00:00Z, epoch seconds.
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) earliest: Option<String>,
    /// End of the time range, exclusive.
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) latest: Option<String>,
    /// Form of the output.
    #[arg(short, long, default_value = "table", value_name = "FORM")]
    pub(crate) output: OutputForm,
    /// With -o csv: cells that a spreadsheet would take for formulas get an apostrophe in front.
    #[arg(long)]
    pub(crate) csv_safe: bool,
    /// A record per row, a line per field: same as -o vertical.
    #[arg(long, conflicts_with = "output")]
    pub(crate) vertical: bool,
    /// Order in which events come: newest first as in Splunk, or oldest first as in a file.
    #[arg(long, default_value = "newest", value_name = "ORDER")]
    pub(crate) order: EventOrder,
    /// Write straight to the terminal, not through $PAGER.
    #[arg(long)]
    pub(crate) no_pager: bool,
    /// Time zone of times typed and shown, and of times in FILEs that name none, e.g. Europe/Berlin; the machine's zone
    /// when absent.
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// Sourcetype of FILEs; guessed when absent.
    #[arg(long)]
    pub(crate) sourcetype: Option<String>,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

/// Where a search belongs.
#[derive(Args, Debug)]
pub(crate) struct NamespaceArgs {
    /// App whose searches it is one of: what the app has and what other apps share with it; all there is when absent.
    #[arg(long, value_name = "APP")]
    pub(crate) app: Option<String>,
    /// User whose own knowledge in the app counts, too.
    #[arg(long, value_name = "USER", requires = "app")]
    pub(crate) user: Option<String>,
}

impl SearchArgs {
    /// The form that is asked for.
    pub(crate) fn form(&self) -> OutputForm {
        match self.output {
            _ if self.vertical => OutputForm::Vertical,
            OutputForm::Csv if self.csv_safe => OutputForm::SafeCsv,
            output => output,
        }
    }
}

impl NamespaceArgs {
    /// The namespace; none when no app is named.
    pub(crate) fn namespace(&self) -> Result<Option<Namespace>, Failure> {
        let Some(app) = &self.app else { return Ok(None) };
        let user = self.user.as_deref().unwrap_or("nobody");
        Namespace::new(user, app).map_err(|error| Failure::Usage(error.to_string()))
    }
}

/// Forms of search output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    /// Aligned columns; events show time and text.
    Table,
    /// Header line, RFC 4180; several values joined by a line break.
    Csv,
    /// The same without formulas: cells that begin with = + - @ get an apostrophe; same as -o csv --csv-safe.
    #[value(name = "csv-safe")]
    SafeCsv,
    /// Array of objects.
    Json,
    /// One object a line.
    Ndjson,
    /// The text of each event as it is.
    Raw,
    /// A record per row, a line per field.
    Vertical,
}

/// Orders of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventOrder {
    /// By time, newest first.
    Newest,
    /// By time, oldest first; those of one time in the order in which they came.
    Oldest,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BucketVerb {
    /// One line per bucket.
    List(BucketArgs),
    /// Sizes per index.
    Stats(BucketArgs),
    /// Read every byte and check it.
    Verify(BucketArgs),
    /// Merge neighbouring buckets into larger, better packed ones.
    Compact(BucketArgs),
    /// Make an archived bucket, the folder that `coldToFrozenDir` got, searchable again.
    Thaw(ThawArgs),
    /// Make a lost catalog anew from the buckets on remote volumes.
    RebuildCatalog(RebuildCatalogArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum IndexVerb {
    /// Move the buckets of an index to where indexes.conf puts it by now: to a remote volume, or back from one.
    Migrate(MigrateArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum DataModelVerb {
    /// How far the summaries of each model are, how large, and what went wrong.
    Status(BucketArgs),
    /// Remove the summaries of a model; the server makes them anew.
    Rebuild(RebuildArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserVerb {
    /// One line per user, with the roles.
    List(BucketArgs),
    /// Add a user; the password is asked for, or read from standard input.
    Add {
        /// Login name.
        name: String,
        /// Role of the user; several times for several.
        #[arg(long = "role", default_value = "user", value_name = "ROLE")]
        roles: Vec<String>,
    },
    /// Change a password, which is asked for, or read from standard input; sessions of the user end.
    Passwd {
        /// Login name.
        name: String,
    },
    /// Remove a user; its sessions end.
    Remove {
        /// Login name.
        name: String,
    },
}

#[derive(Args, Debug)]
pub(crate) struct RebuildArgs {
    /// The data model.
    pub(crate) model: String,
}

#[derive(Args, Debug)]
pub(crate) struct ThawArgs {
    /// Folder of the bucket, such as `/archive/db_1763596800_1763510400_12`.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Index of its events.
    #[arg(long, default_value = "main", value_name = "NAME")]
    pub(crate) index: String,
}

#[derive(Args, Debug)]
pub(crate) struct RebuildCatalogArgs {
    /// Id of the data folder whose buckets come back; without it, those that volumes have are listed.
    #[arg(long, value_name = "ID")]
    pub(crate) store: Option<String>,
    /// Form of the list.
    #[arg(short, long, default_value = "table", value_name = "FORM")]
    pub(crate) output: ListForm,
}

#[derive(Args, Debug)]
pub(crate) struct MigrateArgs {
    /// The index.
    #[arg(value_name = "INDEX")]
    pub(crate) index: String,
    /// Volume of indexes.conf, or `local` for the data folder.
    #[arg(long, value_name = "VOLUME|local")]
    pub(crate) to: String,
}

#[derive(Args, Debug)]
pub(crate) struct BucketArgs {
    /// Form of the output.
    #[arg(short, long, default_value = "table", value_name = "FORM")]
    pub(crate) output: ListForm,
}

/// Forms of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListForm {
    /// Aligned columns.
    Table,
    /// Array of objects.
    Json,
    /// Header line, RFC 4180.
    Csv,
}

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Management address: REST, SDKs and the command line.
    #[arg(long, default_value = "127.0.0.1:8089", value_name = "ADDR")]
    pub(crate) mgmt: String,
    /// Speak no TLS on the management address, which must then be one of this machine alone.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Address of the web interface; nothing is served there yet.
    #[arg(long, value_name = "ADDR")]
    pub(crate) web: Option<String>,
    /// Address of the HTTP event collector.
    #[arg(long, value_name = "ADDR")]
    pub(crate) hec: Option<String>,
    /// Address for forwarders, besides the ports that inputs.conf names with [splunktcp://PORT].
    #[arg(long, value_name = "ADDR")]
    pub(crate) s2s: Option<String>,
}

/// Arguments of `quarry forward`.
#[derive(Debug, Args)]
pub(crate) struct ForwardArgs {
    /// Address for the HTTP Event Collector; without it, where inputs.conf says when there are tokens.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) hec: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct BtoolArgs {
    /// Configuration file without its ending: props, indexes, limits, ...; or `check`, which tells what is wrong in all.
    pub(crate) conf: String,
    /// What to do with a file; `list` is all there is.
    #[arg(value_parser = ["list"])]
    pub(crate) action: Option<String>,
    /// Only this stanza.
    pub(crate) stanza: Option<String>,
    /// Show the file each setting comes from.
    #[arg(long)]
    pub(crate) debug: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SplVerb {
    /// Parse every search of a JSON-lines file and count what is supported.
    Check(SplCheckArgs),
    /// Tell what a search would read and where its commands run; with a data folder also how much is left to read.
    Explain(SplExplainArgs),
}

#[derive(Args, Debug)]
pub(crate) struct SplExplainArgs {
    /// The search.
    #[arg(value_name = "SPL")]
    pub(crate) text: String,
    /// Start of the time range, inclusive.
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) earliest: Option<String>,
    /// End of the time range, exclusive.
    #[arg(long, allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) latest: Option<String>,
    /// Time zone of times typed and shown; the machine's zone when absent.
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// Form of the output.
    #[arg(short, long, default_value = "text", value_name = "FORM")]
    pub(crate) output: ExplainForm,
    #[command(flatten)]
    pub(crate) place: NamespaceArgs,
}

/// Forms of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainForm {
    /// To be read.
    Text,
    /// One object.
    Json,
}

#[derive(Args, Debug)]
pub(crate) struct SplCheckArgs {
    /// JSON-lines file.
    pub(crate) file: PathBuf,
    /// Field that holds the search.
    #[arg(long, default_value = "search")]
    pub(crate) field: String,
    /// Run each search too, on no events and on one that it asks for, with stand-ins for what it needs.
    #[arg(long)]
    pub(crate) execute: bool,
    /// Form of the output.
    #[arg(short, long, default_value = "table", value_name = "FORM")]
    pub(crate) output: ListForm,
}

#[derive(Args, Debug)]
pub(crate) struct PreviewArgs {
    /// The file; .gz and .zst are unpacked, `-` is standard input.
    pub(crate) file: PathBuf,
    /// Sourcetype; guessed when absent.
    #[arg(long)]
    pub(crate) sourcetype: Option<String>,
    /// Time zone of times that name none, e.g. Europe/Berlin; TZ in props.conf counts before it, and the machine's zone
    /// when it is absent.
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// Events shown.
    #[arg(short = 'n', long, default_value_t = crate::preview::EVENTS_DEFAULT, value_name = "COUNT")]
    pub(crate) events: usize,
    /// Form of the output.
    #[arg(short, long, default_value = "text", value_name = "FORM")]
    pub(crate) output: PreviewForm,
}

/// Forms of a preview.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreviewForm {
    /// For people.
    Text,
    /// One JSON object.
    Json,
    /// The stanza of props.conf alone.
    Conf,
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Folder for the sample logs and their index.
    #[arg(long, default_value = "demo-data", value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Megabytes of sample logs.
    #[arg(long, default_value_t = 50, value_name = "MB")]
    pub(crate) megabytes: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchVerb {
    /// How fast an object store is: puts, gets, lists and deletes objects of its own; who asks is taken from AWS_* variables.
    S3(S3BenchArgs),
}
