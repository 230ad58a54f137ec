//! The command line: its verbs and options with their help. The other modules run the verbs.

pub(crate) mod object_kinds;
pub(crate) mod objects;

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use quarry_conf::Namespace;

use crate::failure::{Failure, exit_codes};
use crate::printed_commands::quote;
use crate::s3_bench::S3BenchArgs;

pub(crate) use objects::{AddVerb, EditVerb, ListVerb, RemoveVerb, ShowVerb};

/// Machine data search: raw logs in, SPL answers out.
#[derive(Debug, Parser)]
#[command(
    name = "quarry",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = exit_codes()
)]
pub(crate) struct Cli {
    /// Data directory: data, configuration and catalog.
    #[arg(long, global = true, default_value = crate::printed_commands::DATA_DIR_DEFAULT, value_name = "DIR")]
    pub(crate) data_dir: PathBuf,
    /// Control when the output is coloured.
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN")]
    pub(crate) color: ColorChoice,
    /// Command to run.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Condition for coloured output.
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
    /// Add files to an index once, or create an input, index, user or other object.
    #[command(subcommand)]
    Add(AddVerb),
    /// Change an input, index, user or other object.
    #[command(subcommand)]
    Edit(EditVerb),
    /// Remove an input, index, user, job or other object.
    #[command(subcommand)]
    Remove(RemoveVerb),
    /// List inputs, indexes, users, jobs and other objects.
    #[command(subcommand)]
    List(ListVerb),
    /// Show all settings of an object.
    #[command(subcommand)]
    Show(ShowVerb),
    /// Run a search over the data directory, or over files without indexing them.
    Search(SearchArgs),
    /// Run a search as a job on the server and print its results.
    Dispatch(SearchArgs),
    /// List, verify, merge and thaw the buckets on disk.
    #[command(subcommand)]
    Bucket(BucketVerb),
    /// Move the buckets of an index to or from a remote volume.
    #[command(subcommand)]
    Index(IndexVerb),
    /// Copy the catalog to PostgreSQL, or back to a file.
    #[command(subcommand)]
    Catalog(CatalogVerb),
    /// Show or remove summaries of accelerated data models.
    #[command(subcommand)]
    Datamodel(DataModelVerb),
    /// Manage the users who may log in.
    #[command(subcommand)]
    User(UserVerb),
    /// Run the server.
    Serve(ServeArgs),
    /// Run the inputs without a store and forward their events to indexers, according to outputs.conf.
    Forward(ForwardArgs),
    /// Show merged configuration: `btool CONF list [STANZA] [--debug]`.
    Btool(BtoolArgs),
    /// Check or explain SPL without running it.
    #[command(subcommand)]
    Spl(SplVerb),
    /// Show how a file would be indexed, and why: events, times, sourcetype, the settings involved.
    Preview(PreviewArgs),
    /// Generate sample logs, index them and run five searches over them.
    Demo(DemoArgs),
    /// Measure the performance of an object store.
    #[command(subcommand)]
    Bench(BenchVerb),
    /// Print a shell completion script: `source <(quarry completions bash)`.
    Completions {
        /// bash, zsh, fish, elvish or powershell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page (`quarry man > quarry.1`), or write the pages of all verbs to a folder.
    Man {
        /// Folder for the pages of all verbs.
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
    },
    /// Show help for a search command, or list them all.
    Help {
        /// SPL command, e.g. stats.
        command: Option<String>,
    },
}

/// Index files once: names, globs or directories; compressed files are decompressed; `-` is standard input. With --uri
/// the files are sent to another node.
#[derive(Args, Debug)]
pub(crate) struct OneshotArgs {
    /// Files, globs, directories, or `-`.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Index to add the events to.
    #[arg(long, default_value = "main")]
    pub(crate) index: String,
    /// Sourcetype; detected from the data by default.
    #[arg(long)]
    pub(crate) sourcetype: Option<String>,
    /// Host field; this machine's name by default.
    #[arg(long, alias = "hostname")]
    pub(crate) host: Option<String>,
    /// Source field; the file's path by default.
    #[arg(long, alias = "rename-source")]
    pub(crate) source: Option<String>,
    /// Index the files even if the same bytes were indexed before.
    #[arg(long)]
    pub(crate) again: bool,
    /// Time zone of timestamps without one, e.g. Europe/Berlin; TZ in props.conf takes precedence; default: the
    /// machine's zone.
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct SearchArgs {
    /// The search, e.g. 'error | stats count by host'.
    #[arg(value_name = "SPL")]
    pub(crate) text: String,
    /// Search these files directly; compressed files are decompressed; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Start of the time range, inclusive: -24h@h, 2026-11-20T00:00:00Z, epoch seconds.
    #[arg(long, alias = "earliest_time", allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) earliest: Option<String>,
    /// End of the time range, exclusive.
    #[arg(long, alias = "latest_time", allow_hyphen_values = true, value_name = "TIME")]
    pub(crate) latest: Option<String>,
    /// Output format.
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: OutputForm,
    /// Maximum number of rows; 0 means all.
    #[arg(long, alias = "max_count", default_value_t = 0, value_name = "N")]
    pub(crate) maxout: usize,
    /// Whether tables and CSV start with a header line.
    #[arg(long, action = ArgAction::Set, default_value = "true", value_name = "BOOL",
          value_parser = BoolishValueParser::new())]
    pub(crate) header: bool,
    /// With -o csv: prefix cells that a spreadsheet would read as formulas with an apostrophe.
    #[arg(long)]
    pub(crate) csv_safe: bool,
    /// A record per row, a line per field: the same as -o vertical.
    #[arg(long, conflicts_with = "output")]
    pub(crate) vertical: bool,
    /// Order of events: newest first as in Splunk, or oldest first as in a file.
    #[arg(long, default_value = "newest", value_name = "ORDER")]
    pub(crate) order: EventOrder,
    /// Write directly to the terminal, not through $PAGER.
    #[arg(long)]
    pub(crate) no_pager: bool,
    /// Time zone of times typed and shown, and of timestamps without one in FILEs, e.g. Europe/Berlin; default: the
    /// machine's zone.
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// Sourcetype of FILEs; detected by default.
    #[arg(long)]
    pub(crate) sourcetype: Option<String>,
    /// Show events as a server receives them, until interrupted.
    #[arg(short = 'f', long, conflicts_with_all = ["detach", "id", "timeout", "max_time"])]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) splunks: SplunkArgs,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// Options of a search that runs as a job on a server.
#[derive(Args, Clone, Debug)]
pub(crate) struct JobArgs {
    /// Start a job on the server, print its ID and exit. `quarry show jobs ID` shows its state, `| loadjob ID` its
    /// results.
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true",
          value_name = "BOOL", value_parser = BoolishValueParser::new())]
    pub(crate) detach: bool,
    /// ID of the job; chosen by the server if absent.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Seconds that the server keeps the job after its search has ended.
    #[arg(long, alias = "ttl", value_name = "SECONDS")]
    pub(crate) timeout: Option<u64>,
    /// Seconds after which the job is finalized with the results so far.
    #[arg(long, alias = "max_time", value_name = "SECONDS")]
    pub(crate) max_time: Option<u64>,
}

/// Options of Splunk's command line that scripts pass.
#[derive(Args, Clone, Debug)]
pub(crate) struct SplunkArgs {
    /// Whether previews are printed; only `false` is supported.
    #[arg(long, hide = true, value_name = "BOOL", value_parser = BoolishValueParser::new())]
    pub(crate) preview: Option<bool>,
    /// Whether lines longer than the terminal are folded.
    #[arg(long, hide = true, value_name = "BOOL", value_parser = BoolishValueParser::new())]
    pub(crate) wrap: Option<bool>,
    /// Whether previews are printed only when they change; only `false` is supported.
    #[arg(long, hide = true, value_name = "BOOL", value_parser = BoolishValueParser::new())]
    pub(crate) batch: Option<bool>,
}

/// The node to ask, and the credentials.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Another node")]
pub(crate) struct NodeArgs {
    /// Management port of another node, used instead of the data directory: https://HOST:8089.
    #[arg(long, value_name = "URI")]
    pub(crate) uri: Option<String>,
    /// User to log in as. Without a password, it is taken from QUARRY_PASSWORD, prompted for, or read from standard
    /// input.
    #[arg(long, value_name = "USER[:PASSWORD]")]
    pub(crate) auth: Option<String>,
    /// Authentication token instead of user and password.
    #[arg(long, value_name = "TOKEN", conflicts_with = "auth")]
    pub(crate) token: Option<String>,
    /// PEM file with the node's certificate or its CA; the system's CAs if absent.
    #[arg(long, value_name = "FILE", requires = "uri")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// Do not verify the node's certificate.
    #[arg(long, requires = "uri", conflicts_with = "ca_cert")]
    pub(crate) insecure: bool,
}

/// App and user of a search or an object.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NamespaceArgs {
    /// App of the search or object. A search in an app sees the app's knowledge and what other apps share; by default,
    /// a search sees the knowledge of all apps.
    #[arg(long, value_name = "APP")]
    pub(crate) app: Option<String>,
    /// Owner of the object, or user whose private knowledge in the app the search sees as well.
    #[arg(long, alias = "owner", value_name = "USER", requires = "app")]
    pub(crate) user: Option<String>,
}

impl NodeArgs {
    /// The options as they are added to a printed command, each with a blank before it. Secrets are omitted.
    pub(crate) fn to_arguments(&self) -> String {
        let user = self.auth.as_deref().map(|auth| auth.split(':').next().unwrap_or_default());
        let ca_cert = self.ca_cert.as_ref().map(|file| file.display().to_string());
        let options = [
            ("--uri", self.uri.as_deref()),
            ("--auth", user),
            ("--token", self.token.as_ref().map(|_| "TOKEN")),
            ("--ca-cert", ca_cert.as_deref()),
        ];
        let typed = options.iter().filter_map(|(name, value)| Some(format!(" {name} {}", quote((*value)?))));
        typed.chain(self.insecure.then(|| " --insecure".to_owned())).collect()
    }
}

impl SearchArgs {
    /// The requested output format.
    pub(crate) fn form(&self) -> OutputForm {
        match self.output {
            _ if self.vertical => OutputForm::Vertical,
            OutputForm::Csv if self.csv_safe => OutputForm::SafeCsv,
            output => output,
        }
    }
}

impl JobArgs {
    /// Whether an option of a job other than `--detach` is given.
    pub(crate) fn is_given(&self) -> bool {
        self.id.is_some() || self.timeout.is_some() || self.max_time.is_some()
    }
}

impl NodeArgs {
    /// Whether a node or credentials are given.
    pub(crate) fn is_given(&self) -> bool {
        self.uri.is_some() || self.auth.is_some() || self.token.is_some()
    }
}

impl NamespaceArgs {
    /// The namespace; none if no app is given.
    pub(crate) fn parse(&self) -> Result<Option<Namespace>, Failure> {
        let Some(app) = &self.app else { return Ok(None) };
        let user = self.user.as_deref().unwrap_or("nobody");
        Namespace::new(user, app).map_err(|error| Failure::Usage(error.to_string()))
    }
}

/// Output formats of searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    /// Aligned columns; events show time and text.
    #[value(alias = "auto")]
    Table,
    /// Header line, RFC 4180; multivalues joined by line breaks.
    Csv,
    /// CSV without formulas, as -o csv --csv-safe.
    #[value(name = "csv-safe")]
    SafeCsv,
    /// One JSON array of objects.
    Json,
    /// One JSON object per line.
    Ndjson,
    /// The unchanged text of each event.
    #[value(alias = "rawdata")]
    Raw,
    /// A record per row, a line per field.
    Vertical,
}

/// Orders of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventOrder {
    /// By time, newest first.
    Newest,
    /// By time, oldest first; equal times by arrival.
    Oldest,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BucketVerb {
    /// One line per bucket.
    List(BucketArgs),
    /// Sizes per index.
    Stats(BucketArgs),
    /// Read and verify every byte.
    Verify(BucketArgs),
    /// Merge neighbouring buckets into larger, better compressed ones.
    Compact(BucketArgs),
    /// Thaw an archived bucket: make the directory that `coldToFrozenDir` received searchable again.
    Thaw(ThawArgs),
    /// Rebuild a lost catalog from the buckets on remote volumes.
    RebuildCatalog(RebuildCatalogArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum IndexVerb {
    /// Move the buckets of an index to the location that indexes.conf now names: to a remote volume, or back from one.
    Migrate(MigrateArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum CatalogVerb {
    /// Copy the catalog to the database of `[catalog] url` in server.conf, or from there to a file, and use it there.
    /// Stop the server first; the previous catalog is kept.
    Migrate {
        /// New location of the catalog.
        #[arg(value_name = "PLACE")]
        to: CatalogTo,
    },
}

/// Kinds of catalogs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CatalogTo {
    /// The configured database.
    Postgresql,
    /// The file `catalog.sqlite` in the data directory.
    Sqlite,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DataModelVerb {
    /// Show progress, size and errors of the summaries of each model.
    Status(BucketArgs),
    /// Remove the summaries of a model; the server rebuilds them.
    Rebuild(RebuildArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserVerb {
    /// List users with their roles.
    List(BucketArgs),
    /// Add a user; the password is prompted for, or read from standard input.
    Add {
        /// Login name.
        name: String,
        /// Role of the user; can be repeated.
        #[arg(long = "role", default_value = "user", value_name = "ROLE")]
        roles: Vec<String>,
    },
    /// Change a password, which is prompted for, or read from standard input; ends the user's sessions.
    Passwd {
        /// Login name.
        name: String,
    },
    /// Remove a user and end its sessions.
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
    /// Directory of the bucket, such as `/archive/db_1763596800_1763510400_12`.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Index of its events.
    #[arg(long, default_value = "main", value_name = "NAME")]
    pub(crate) index: String,
}

#[derive(Args, Debug)]
pub(crate) struct RebuildCatalogArgs {
    /// Id of the data directory whose buckets are restored; without it, the ids found on the volumes are listed.
    #[arg(long, value_name = "ID")]
    pub(crate) store: Option<String>,
    /// Output format.
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: ListForm,
}

#[derive(Args, Debug)]
pub(crate) struct MigrateArgs {
    /// Index whose buckets are moved.
    #[arg(value_name = "INDEX")]
    pub(crate) index: String,
    /// Volume of indexes.conf, or `local` for the data directory.
    #[arg(long, value_name = "VOLUME|local")]
    pub(crate) to: String,
}

#[derive(Args, Debug)]
pub(crate) struct BucketArgs {
    /// Output format.
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: ListForm,
}

/// Output formats of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListForm {
    /// Aligned columns.
    Table,
    /// One JSON array of objects.
    Json,
    /// Header line, RFC 4180.
    Csv,
}

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Management address: REST, SDKs and the command line.
    #[arg(long, default_value = "127.0.0.1:8089", value_name = "ADDR")]
    pub(crate) mgmt: String,
    /// Disable TLS on the management address, which must then be a loopback address.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Address of the web interface; not served yet.
    #[arg(long, value_name = "ADDR")]
    pub(crate) web: Option<String>,
    /// Address of the HTTP Event Collector.
    #[arg(long, value_name = "ADDR")]
    pub(crate) hec: Option<String>,
    /// Address for forwarders, in addition to the ports that inputs.conf names with [splunktcp://PORT].
    #[arg(long, value_name = "ADDR")]
    pub(crate) s2s: Option<String>,
}

/// Arguments of `quarry forward`.
#[derive(Debug, Args)]
pub(crate) struct ForwardArgs {
    /// Address of the HTTP Event Collector; by default the address in inputs.conf, if there are tokens.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) hec: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct BtoolArgs {
    /// Configuration file without its extension: props, indexes, limits, ...; or `check`, which reports errors in all
    /// files.
    pub(crate) conf: String,
    /// Action for a file; `list` is the only one.
    #[arg(value_parser = ["list"])]
    pub(crate) action: Option<String>,
    /// Only this stanza.
    pub(crate) stanza: Option<String>,
    /// Show the file of each setting.
    #[arg(long)]
    pub(crate) debug: bool,
    /// Only settings in effect that come from the files of this app.
    #[arg(long, value_name = "APP")]
    pub(crate) app: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SplVerb {
    /// Parse every search of a JSON-lines file and count what is supported.
    Check(SplCheckArgs),
    /// Show what a search would read and where its commands run; with a data directory also how much would be read.
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
    /// Time zone of times typed and shown; the machine's zone by default.
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// Output format.
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub(crate) output: ExplainForm,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
}

/// Output formats of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExplainForm {
    /// Text.
    Text,
    /// One JSON object.
    Json,
}

#[derive(Args, Debug)]
pub(crate) struct SplCheckArgs {
    /// JSON-lines file.
    pub(crate) file: PathBuf,
    /// Field with the search.
    #[arg(long, default_value = "search")]
    pub(crate) field: String,
    /// Also run each search, on no events and on one matching event, with stand-ins for what it needs.
    #[arg(long)]
    pub(crate) execute: bool,
    /// Output format.
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: ListForm,
}

#[derive(Args, Debug)]
pub(crate) struct PreviewArgs {
    /// The file, which may be compressed; `-` is standard input.
    pub(crate) file: PathBuf,
    /// Sourcetype; detected by default.
    #[arg(long)]
    pub(crate) sourcetype: Option<String>,
    /// Host of the input, for which props.conf may set TZ; this machine's name by default.
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Time zone of timestamps without one, e.g. Europe/Berlin; TZ in props.conf takes precedence; default: the
    /// machine's zone.
    #[arg(long, value_name = "ZONE")]
    pub(crate) zone: Option<String>,
    /// Number of events shown.
    #[arg(short = 'n', long, default_value_t = crate::preview::EVENTS_DEFAULT, value_name = "COUNT")]
    pub(crate) events: usize,
    /// Output format.
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub(crate) output: PreviewForm,
}

/// Output formats of a preview.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PreviewForm {
    /// Text.
    Text,
    /// One JSON object.
    Json,
    /// Only the stanza of props.conf.
    Conf,
}

#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Directory for the sample logs and their index.
    #[arg(long, default_value = "demo-data", value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Megabytes of sample logs.
    #[arg(long, default_value_t = 50, value_name = "MB")]
    pub(crate) megabytes: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchVerb {
    /// Measure an object store: puts, gets, lists and deletes its own objects; credentials are read from AWS_*
    /// variables.
    S3(S3BenchArgs),
}
