//! The commands of SPL: one file per command, and the table of all commands.
//!
//! A command's file contains its node of the syntax tree, its parser ([`Syntax`]) and the properties that the planner
//! reads without running the command ([`Semantics`]). The file of a command that is rewritten to others contains an
//! `INFO` and a `parse` that returns the nodes of those commands. `each_command!` lists all commands; the enum
//! [`Command`], look-up by name, help and the methods of commands are generated from this list. Execution is in the
//! engine, whose files have the same names.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

mod info;
mod measurements;
mod registry;
mod substitution;
mod unsupported_commands;

use crate::analyse::{FieldNeeds, TIME, matches_pattern};
use crate::ast::*;
use crate::dependencies::Dependencies;
use crate::diagnostic::Diagnostic;
use crate::parse::{ParseResult, Parser};

pub use info::{CommandInfo, Group, Kind};
pub use mcatalog::metric_values;
pub use pivot::{PivotSearches, pivot_searches};
pub use registry::{CommandHelp, help, is_command};
pub(crate) use registry::{entry, help_of};
pub(crate) use relevancy::set_words;
pub use unsupported_commands::UNSUPPORTED_COMMANDS;
pub(crate) use unsupported_commands::unsupported_hint;

/// Calls a macro with the table of all commands: first the commands with a node in the syntax tree, each as [`Command`]
/// variant, file and node type; then the commands that are rewritten to others, each by its file.
#[macro_export]
macro_rules! each_command {
    ($then:ident) => {
        $then! {
            nodes {
                Accum(accum::AccumCommand),
                AddInfo(addinfo::AddInfoCommand),
                AddTotals(addtotals::AddTotalsCommand),
                AnalyzeFields(analyzefields::AnalyzeFieldsCommand),
                Anomalies(anomalies::AnomaliesCommand),
                AnomalousValue(anomalousvalue::AnomalousValueCommand),
                AnomalyDetection(anomalydetection::AnomalyDetectionCommand),
                Append(append::AppendCommand),
                AppendCols(appendcols::AppendColsCommand),
                AppendPipe(appendpipe::AppendPipeCommand),
                Apply(apply::ApplyCommand),
                Arules(arules::ArulesCommand),
                Associate(associate::AssociateCommand),
                AutoRegress(autoregress::AutoRegressCommand),
                Bin(bin::BinCommand),
                BucketDir(bucketdir::BucketDirCommand),
                Chart(chart::ChartCommand),
                Cluster(cluster::ClusterCommand),
                Cofilter(cofilter::CofilterCommand),
                Collect(collect::CollectCommand),
                Concurrency(concurrency::ConcurrencyCommand),
                Convert(convert::ConvertCommand),
                Correlate(correlate::CorrelateCommand),
                Custom(script::CustomCommand),
                DataModel(datamodel::DataModelCommand),
                DbInspect(dbinspect::DbInspectCommand),
                Dedup(dedup::DedupCommand),
                Delete(delete::DeleteCommand),
                DeleteModel(deletemodel::DeleteModelCommand),
                Delta(delta::DeltaCommand),
                Diff(diff::DiffCommand),
                Dump(dump::DumpCommand),
                Erex(erex::ErexCommand),
                Eval(eval::EvalCommand),
                EventStats(eventstats::EventStatsCommand),
                Extract(extract::ExtractCommand),
                FieldFormat(fieldformat::FieldFormatCommand),
                Fields(fields::FieldsCommand),
                FieldSummary(fieldsummary::FieldSummaryCommand),
                FillDown(filldown::FillDownCommand),
                FillNull(fillnull::FillNullCommand),
                Fit(fit::FitCommand),
                Foreach(foreach::ForeachCommand),
                Format(format::FormatCommand),
                FromJson(fromjson::FromJsonCommand),
                Gauge(gauge::GaugeCommand),
                GenTimes(gentimes::GenTimesCommand),
                Head(head::HeadCommand),
                History(history::HistoryCommand),
                InputLookup(inputlookup::InputLookupCommand),
                IpLocation(iplocation::IpLocationCommand),
                Join(join::JoinCommand),
                KMeans(kmeans::KMeansCommand),
                ListModels(listmodels::ListModelsCommand),
                LoadJob(loadjob::LoadJobCommand),
                Localize(localize::LocalizeCommand),
                Lookup(lookup::LookupCommand),
                MakeContinuous(makecontinuous::MakeContinuousCommand),
                MakeMv(makemv::MakeMvCommand),
                MakeResults(makeresults::MakeResultsCommand),
                Map(map::MapCommand),
                Metadata(metadata::MetadataCommand),
                MultiKv(multikv::MultiKvCommand),
                MultiReport(multireport::MultiReportCommand),
                MultiSearch(multisearch::MultiSearchCommand),
                MvCombine(mvcombine::MvCombineCommand),
                MvExpand(mvexpand::MvExpandCommand),
                NoMv(nomv::NoMvCommand),
                Noop(noop::NoopCommand),
                Outlier(outlier::OutlierCommand),
                OutputLookup(outputlookup::OutputLookupCommand),
                Predict(predict::PredictCommand),
                RangeMap(rangemap::RangeMapCommand),
                Regex(regex::RegexCommand),
                Relevancy(relevancy::RelevancyCommand),
                Rename(rename::RenameCommand),
                Replace(replace::ReplaceCommand),
                Require(require::RequireCommand),
                Rest(rest::RestCommand),
                Return(r#return::ReturnCommand),
                Reverse(reverse::ReverseCommand),
                Rex(rex::RexCommand),
                SavedSearch(savedsearch::SavedSearchCommand),
                Score(score::ScoreCommand),
                Search(search::SearchCommand),
                SearchTxn(searchtxn::SearchTxnCommand),
                SelfJoin(selfjoin::SelfJoinCommand),
                SendAlert(sendalert::SendAlertCommand),
                Set(set::SetCommand),
                SetFields(setfields::SetFieldsCommand),
                Sort(sort::SortCommand),
                Spath(spath::SpathCommand),
                Stats(stats::StatsCommand),
                Strcat(strcat::StrcatCommand),
                StreamStats(streamstats::StreamStatsCommand),
                Summary(summary::SummaryCommand),
                Table(table::TableCommand),
                Tags(tags::TagsCommand),
                Tail(tail::TailCommand),
                TimeChart(timechart::TimeChartCommand),
                TimeWrap(timewrap::TimeWrapCommand),
                ToJson(tojson::ToJsonCommand),
                Top(top::TopCommand),
                Transaction(transaction::TransactionCommand),
                Transpose(transpose::TransposeCommand),
                TrendLine(trendline::TrendLineCommand),
                Tstats(tstats::TstatsCommand),
                TypeAhead(typeahead::TypeAheadCommand),
                Typer(typer::TyperCommand),
                Union(union::UnionCommand),
                Uniq(uniq::UniqCommand),
                Untable(untable::UntableCommand),
                WalkLex(walklex::WalkLexCommand),
                Where(r#where::WhereCommand),
                XmlKv(xmlkv::XmlKvCommand),
                XmlUnescape(xmlunescape::XmlUnescapeCommand),
                XPath(xpath::XPathCommand),
                XySeries(xyseries::XySeriesCommand),
            }
            short {
                addcoltotals,
                contingency,
                eventcount,
                excerpt,
                folderize,
                from,
                geom,
                geostats,
                inputcsv,
                makejson,
                mcatalog,
                mcollect,
                metasearch,
                mstats,
                outputcsv,
                outputtext,
                pivot,
                rare,
                reltime,
                rtorder,
                sendemail,
                sichart,
                sirare,
                sistats,
                sitimechart,
                sitop,
            }
        }
    };
}

/// The capability that a command of an app requires.
pub const CUSTOM_CAPABILITY: &str = "run_custom_command";

/// Description and parser of a command.
pub(crate) trait Syntax: Sized {
    /// Aliases, help line and kind.
    const INFO: CommandInfo;
    /// Parses the command's arguments, up to the end of the command; anything left over is an error.
    fn parse(parser: &mut Parser<'_>, call: Call<'_>) -> ParseResult<Self>;
}

/// The context in which a command is parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// Name as written, in lower case: the main name or one of [`CommandInfo::aliases`].
    pub(crate) name: &'a str,
    /// Whether the command is the first of a search.
    pub(crate) is_first: bool,
}

/// Properties of a command that the planner uses without running it.
pub(crate) trait Semantics {
    /// Fields that the command's input rows need so that its output has the fields `after`. When in doubt, all fields:
    /// extra fields cost time, missing fields give wrong results.
    fn fields_before(&self, after: FieldNeeds) -> FieldNeeds;

    /// The command's kind with these options; `declared` is the kind in [`Syntax::INFO`].
    fn kind(&self, declared: Kind) -> Kind {
        declared
    }

    /// The name in messages: by default the main name; for commands whose aliases differ, for example in the required
    /// capability, the name as written.
    fn name<'a>(&'a self, declared: &'a str) -> &'a str {
        declared
    }

    /// Splunk's name of the capability that the command requires with these options; `declared` is the capability
    /// in [`Syntax::INFO`].
    fn capability(&self, declared: Option<&'static str>) -> Option<&'static str> {
        declared
    }

    /// Commands that represent this command in analyses until its subsearches have run and it can be parsed.
    fn placeholder_commands(&self) -> &[Command] {
        &[]
    }

    /// Whether the command always returns a table of results; otherwise it returns events if its input is events.
    /// `declared` comes from [`CommandInfo::returns_table`].
    fn returns_table(&self, declared: bool) -> bool {
        declared
    }

    /// The kind of rows with which the command begins a search.
    fn begins_with(&self) -> Beginning<'_> {
        Beginning::Rows
    }

    /// The search that the command's arguments contain or name, if it is parsed only when the command runs.
    fn inner_search(&self) -> Option<InnerSearchText<'_>> {
        match self.begins_with() {
            Beginning::SavedSearch(saved) => Some(InnerSearchText::Saved(&saved.name)),
            _ => None,
        }
    }

    /// The fields that the command creates; `None` if they are known only at run time. Used only for hints.
    fn created_fields(&self) -> Option<CreatedFields> {
        None
    }

    /// Fields that the command reads but that may be missing. Used only for hints.
    fn optional_fields(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// The fields that the command writes, if it leaves all other fields of the rows unchanged; `None` if it may
    /// change others.
    fn written_fields(&self) -> Option<Vec<&str>> {
        None
    }

    /// Whether all rows that the command returns have the fields that it reads. Used only for hints.
    fn guarantees_read_fields(&self) -> bool {
        self.written_fields().is_some_and(|written| written.is_empty())
    }

    /// Whether the command's output rows have the times of its input rows.
    fn keeps_times(&self) -> bool {
        self.written_fields().is_some_and(|written| !written.contains(&TIME))
    }

    /// Whether the command produces the same output for a row in every search, so that partial states after it can be
    /// cached.
    fn is_repeatable(&self) -> bool {
        false
    }

    /// The command's subsearches, in order, including subsearches in its conditions.
    fn subsearches(&self) -> Vec<&Pipeline> {
        Vec::new()
    }

    /// The command's side effect; `None` if it only reads.
    fn effect(&self) -> Option<Effect<'_>> {
        None
    }

    /// Adds the lookup tables, data models and saved searches that the command's own arguments name; `following` are
    /// the commands after it.
    fn add_dependencies(&self, _following: &[Stage], _needs: &mut Dependencies) {}

    /// Adds lints: warnings about a command that runs but was probably not meant this way.
    fn find_lints(&self, _place: &StageContext<'_>, _found: &mut Vec<Diagnostic>) {}
}

/// The kind of rows with which a command begins a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beginning<'a> {
    /// Events that the command selects.
    Events(&'a SearchCommand),
    /// Transactions of events.
    Transactions(&'a SearchTxnCommand),
    /// Aggregates of index-time fields, of a data model or of metrics.
    Aggregates(&'a TstatsCommand),
    /// Rows of a lookup table.
    LookupTable,
    /// Events of the object of a data model.
    DataModel(&'a DataModelCommand, &'a DataModelName),
    /// Results of a saved search.
    SavedSearch(&'a SavedSearchCommand),
    /// Results of its subsearches.
    Subsearches,
    /// Results of a search to which the command is rewritten.
    Search {
        /// The search whose results come first.
        search: &'a Pipeline,
        /// Whether the search sees only index-time fields of events; otherwise, search-time rules apply.
        is_indexed: bool,
    },
    /// One row with only `_time`.
    EmptyRow,
    /// Rows that are not events; no rows if the command only processes rows of other commands.
    Rows,
}

/// A search that a command keeps as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InnerSearchText<'a> {
    /// The saved search of this name.
    Saved(&'a str),
    /// A search in which values of rows may be substituted.
    Search(&'a str),
    /// The commands of a `foreach`, with made-up field names in place of its placeholders such as `<<FIELD>>`.
    Commands(String),
}

/// The fields that a command creates and the fields that it removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CreatedFields {
    /// Names of the created fields; patterns if fields are renamed by pattern.
    pub(crate) names: Vec<String>,
    /// Whether the command's output rows have no other fields.
    pub(crate) alone: bool,
    /// Removed fields or patterns, each with its new name or pattern if it is renamed. A removed field may also be
    /// among the created fields.
    pub(crate) removed: Vec<(String, Option<String>)>,
}

impl CreatedFields {
    pub(crate) fn none() -> Option<CreatedFields> {
        Some(CreatedFields::default())
    }

    /// The command creates these fields and keeps all other fields; `None` if some names are known only at run time.
    pub(crate) fn adding<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<CreatedFields> {
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        (!names.iter().any(|name| name.contains(['*', '{', '$'])))
            .then_some(CreatedFields { names, ..CreatedFields::default() })
    }

    /// The command renames or removes these fields; each pair is a removed field and its new name, or two patterns
    /// with the same number of `*`.
    pub(crate) fn renaming<'n>(
        pairs: impl Iterator<Item = (&'n str, Option<&'n str>)> + Clone,
    ) -> Option<CreatedFields> {
        let names: Vec<String> = pairs.clone().filter_map(|(_, to)| to).map(str::to_owned).collect();
        let removed = pairs.map(|(from, to)| (from.to_owned(), to.map(str::to_owned))).collect();
        let is_known = !names.iter().any(|name| name.contains(['{', '$']));
        is_known.then_some(CreatedFields { names, removed, alone: false })
    }

    /// Whether the command creates a field, or may create it by a pattern.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|made| matches_field(made, name))
    }

    /// The new name of a removed field, `Some(None)` if it is removed without one; `None` if the command keeps the
    /// field.
    pub(crate) fn removal_of(&self, name: &str) -> Option<Option<String>> {
        // The first matching pair applies, because it removes the field before later pairs are applied.
        let (pattern, new) = self.removed.iter().find(|(removed, _)| matches_field(removed, name))?;
        Some(new.as_ref().map(|new| rename_by_pattern(name, pattern, new)))
    }

    /// The command's rows have exactly these fields.
    pub(crate) fn exactly<'n>(names: impl IntoIterator<Item = &'n str>) -> Option<CreatedFields> {
        CreatedFields::adding(names).map(|made| CreatedFields { alone: true, ..made })
    }
}

/// Whether a name or pattern matches a field; only patterns that begin with `_` match internal fields.
fn matches_field(pattern: &str, name: &str) -> bool {
    matches_pattern(pattern, name) && (pattern.starts_with('_') || !name.starts_with('_'))
}

/// The new name of a field that a pattern renames; `new` itself unless it and `pattern` each have exactly one `*`.
fn rename_by_pattern(name: &str, pattern: &str, new: &str) -> String {
    let middle = pattern.split_once('*').and_then(|(before, after)| name.strip_prefix(before)?.strip_suffix(after));
    match middle {
        Some(middle) if new.matches('*').count() == 1 => new.replace('*', middle),
        _ => new.to_owned(),
    }
}

/// A lasting effect of a command beyond the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// Writes the lookup table of this name; the context says where a new table is created.
    Table(&'a str, Option<TableContext>),
    /// Adds events to the index of this name.
    Index(&'a str),
    /// Saves or deletes the model of this name.
    Model(&'a str),
    /// Deletes events, writes files, runs programs.
    Other,
}

/// Position of a command in its search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StageContext<'a> {
    /// The whole search.
    pub(crate) text: &'a str,
    /// Position from the command's name to its last argument.
    pub(crate) span: Span,
    /// Whether the command is the first.
    pub(crate) is_first: bool,
}

macro_rules! define_commands {
    (nodes { $($variant:ident($module:ident::$node:ident),)* } short { $($short:ident,)* }) => {
        $(mod $module;)*
        $(mod $short;)*

        /// Nodes of the syntax tree, and their component types.
        pub(crate) mod nodes {
            pub use super::substitution::*;
            pub use super::measurements::*;
            $(pub use super::$module::*;)*
        }

        /// A command of a search.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Command {
            $(#[doc = concat!("See [`", stringify!($node), "`].")] $variant($node),)*
            /// A command with subsearches in place of parts of its text.
            Substitution(SubstitutionCommand),
            /// Measurements of metrics as rows.
            Measurements(MeasurementsCommand),
        }

        /// Every command, as the parser looks it up.
        const ENTRIES: &[registry::Entry] = &[
            $(registry::Entry {
                name: registry::name_of_module(stringify!($module)),
                info: &<$node as Syntax>::INFO,
                parse: |parser, call| <$node as Syntax>::parse(parser, call).map(|node| vec![Command::$variant(node)]),
            },)*
            $(registry::Entry {
                name: registry::name_of_module(stringify!($short)),
                info: &$short::INFO,
                parse: |parser, call| $short::parse(parser, call).map(Vec::from),
            },)*
        ];

        impl Command {
            /// The command's main name, description and node.
            fn described(&self) -> (&'static str, &'static CommandInfo, &dyn Semantics) {
                match self {
                    $(Command::$variant(node) => {
                        const NAME: &str = registry::name_of_module(stringify!($module));
                        (NAME, &<$node as Syntax>::INFO, node)
                    })*
                    Command::Substitution(node) => ("", &SubstitutionCommand::INFO, node),
                    Command::Measurements(node) => ("", &MeasurementsCommand::INFO, node),
                }
            }
        }

        $(impl From<$node> for Command {
            fn from(node: $node) -> Command {
                Command::$variant(node)
            }
        })*
    };
}

each_command!(define_commands);

/// The single command to which another command is rewritten.
impl From<Command> for Vec<Command> {
    fn from(command: Command) -> Vec<Command> {
        vec![command]
    }
}

impl Command {
    /// The command's interface for the planner.
    pub(crate) fn node(&self) -> &dyn Semantics {
        self.described().2
    }

    /// The command's subsearches, in order, including subsearches in its conditions.
    pub fn subsearches(&self) -> Vec<&Pipeline> {
        self.node().subsearches()
    }

    /// The kind of rows with which the command begins a search.
    pub fn begins_with(&self) -> Beginning<'_> {
        self.node().begins_with()
    }

    /// The search that the command's arguments contain or name, if it is parsed only when the command runs.
    pub fn inner_search(&self) -> Option<InnerSearchText<'_>> {
        self.node().inner_search()
    }

    /// The fields that the command writes, if it leaves all other fields of the rows unchanged; `None` if it may
    /// change others.
    pub fn written_fields(&self) -> Option<Vec<&str>> {
        self.node().written_fields()
    }

    /// Whether all rows that the command returns have the fields that it reads.
    pub fn guarantees_read_fields(&self) -> bool {
        self.node().guarantees_read_fields()
    }

    /// Whether the command's output rows have the times of its input rows.
    pub fn keeps_times(&self) -> bool {
        self.node().keeps_times()
    }

    /// Whether the command produces the same output for a row in every search, so that partial states after it can be
    /// cached.
    pub fn is_repeatable(&self) -> bool {
        self.node().is_repeatable()
    }

    /// The command's side effect; `None` if it only reads.
    pub fn effect(&self) -> Option<Effect<'_>> {
        self.node().effect()
    }

    /// The lookup tables, data models and saved searches that the command's arguments name, except those that its
    /// subsearches name.
    pub fn own_dependencies(&self) -> Dependencies {
        let mut needs = Dependencies::default();
        self.node().add_dependencies(&[], &mut needs);
        needs
    }

    /// The kind of row processing.
    pub fn kind(&self) -> Kind {
        let (_, info, node) = self.described();
        node.kind(info.kind)
    }

    /// Whether the command always returns a table of results.
    pub(crate) fn returns_table(&self) -> bool {
        let (_, info, node) = self.described();
        node.returns_table(info.returns_table)
    }

    /// Whether this lower-case name is one of the command's names.
    pub fn is_named(&self, name: &str) -> bool {
        let (main, info, _) = self.described();
        main == name || info.aliases.contains(&name) || self.name() == name
    }

    /// The name in messages: the name as written if the aliases differ, otherwise the main name.
    pub fn name(&self) -> &str {
        let (name, _, node) = self.described();
        node.name(name)
    }

    /// Splunk's name of the capability that the command requires in addition to `search`.
    pub(crate) fn capability(&self) -> Option<&'static str> {
        let (_, info, node) = self.described();
        node.capability(info.capability)
    }
}
