//! The binary `quarry`: parses the command line, runs one verb, and reports errors in one place.
//!
//! Every verb is a module, which works on a data directory directly ([`data_directory`]) or through the server that has
//! the directory open ([`server_client`]). Exit codes are in [`failure`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod add;
mod bars;
mod btool;
mod bucket;
mod catalog_verbs;
mod cli;
mod completions;
mod data_directory;
mod datamodel;
mod demo;
mod disk_activity;
mod dispatch;
mod edited_files;
mod failure;
mod follow;
mod forward;
mod help;
mod identity;
mod input_indexes;
mod interrupt;
mod knowledge_faults;
mod live_inputs;
mod manual;
mod node;
mod node_client;
mod node_objects;
mod open_node;
mod output;
mod password_input;
mod port_connections;
mod preview;
mod printed_commands;
mod prometheus;
mod remarks;
mod restart;
mod s3_bench;
mod search;
mod search_progress;
mod serve;
mod server_client;
mod spl_check;
mod spl_execute;
mod spl_explain;
mod spl_tokens;
mod splunk_options;
mod splunk_verbs;
mod terminal;
mod user_verbs;
mod volume_verbs;
mod watched_paths;
mod zone;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use quarry_stdx::{log, private_folder};

use cli::{
    AddVerb, BenchVerb, BucketVerb, CatalogVerb, Cli, ColorChoice, DataModelVerb, EditVerb, IndexVerb, ListVerb,
    RemoveVerb, ShowVerb, SplVerb, Verb,
};
use failure::Failure;

fn main() -> ExitCode {
    private_folder::set_private_umask();
    log::set_layout(output::line_folding::prepare_message);
    log::set_writer(bars::write_above);
    let mut cli = match Cli::try_parse_from(splunk_options::with_two_dashes(std::env::args_os())) {
        Ok(cli) => cli,
        Err(mut error) => {
            keep_best_suggestion(&mut error);
            let code = if error.use_stderr() { failure::USAGE } else { 0 };
            printed_commands::set_data_dir(&typed_data_dir(), false);
            // If writing to the terminal fails, the error cannot be reported either.
            let _closed = show_usage(&error);
            if error.use_stderr()
                && let Some(instead) = splunk_verbs::find_equivalent(&command_words(), error.kind())
            {
                log::info(format!("\nhere: {instead}"));
            }
            return ExitCode::from(code);
        }
    };
    printed_commands::set_data_dir(&cli.data_dir, matches!(cli.verb, Verb::Serve(_) | Verb::Forward(_)));
    // Programs that run in other folders get this path, so it must be absolute. If there is no working directory, the
    // path stays relative.
    cli.data_dir = std::path::absolute(&cli.data_dir).unwrap_or(cli.data_dir);
    let ran = run(&cli);
    quarry_programs::end_all();
    match ran {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            let _closed = failure.report(&mut std::io::stderr().lock(), terminal::colors_on_stderr(cli.color));
            ExitCode::from(failure.code())
        }
    }
}

/// True if a data directory is not the default directory.
fn is_non_default(data_dir: &Path) -> bool {
    std::path::absolute(printed_commands::DATA_DIR_DEFAULT).is_ok_and(|default| default != data_dir)
}

/// Keeps only the last suggestion, which is the most similar word: for `serach`, that is `search` and not `serve`. Adds
/// a suggestion for a value with exchanged letters (`-o cvs`).
fn keep_best_suggestion(error: &mut clap::Error) {
    for kind in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue] {
        if let Some(ContextValue::Strings(words)) = error.get(kind)
            && let Some(best) = words.last()
        {
            let best = best.clone();
            error.insert(kind, ContextValue::String(best));
        }
    }
    if error.get(ContextKind::SuggestedValue).is_none()
        && let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidValue)
        && let Some(ContextValue::Strings(known)) = error.get(ContextKind::ValidValue)
        && let Some(near) = quarry_spl::closest_name(typed, known.iter().map(String::as_str))
    {
        let near = near.to_owned();
        error.insert(ContextKind::SuggestedValue, ContextValue::String(near));
    }
}

/// Prints usage errors and help, wrapped to the terminal's width. Help longer than the screen is paged.
fn show_usage(error: &clap::Error) -> std::io::Result<()> {
    let is_short = error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    let is_err = error.use_stderr() && (is_short || !terminal::is_interactive());
    let columns = if is_err { output::line_folding::stderr_width() } else { terminal::width() };
    let Some(columns) = columns else { return error.print() };
    let color = ColorChoice::Auto;
    let has_color = if is_err { terminal::colors_on_stderr(color) } else { terminal::colors(color) };
    let text = error.render();
    let text = if has_color { text.ansi().to_string() } else { text.to_string() };
    let text = output::line_folding::fold_text(&text, usize::from(columns));
    if is_err {
        return std::io::stderr().lock().write_all(text.as_bytes());
    }
    let mut out = output::pager::Pager::open(true);
    out.write_all(text.as_bytes())?;
    out.close()
}

/// The data directory of a command line that has an error in another argument.
fn typed_data_dir() -> PathBuf {
    let mut arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let given = arguments.find_map(|argument| match argument.strip_prefix("--data-dir=") {
        Some(folder) => Some(Some(folder.to_owned())),
        None => (argument == "--data-dir").then_some(None),
    });
    let folder = given.and_then(|folder| folder.or_else(|| arguments.next()));
    PathBuf::from(folder.unwrap_or_else(|| printed_commands::DATA_DIR_DEFAULT.to_owned()))
}

/// The arguments of this process without the global options.
fn command_words() -> Vec<String> {
    let mut words = Vec::new();
    let mut arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--data-dir" | "--color" => drop(arguments.next()),
            option if option.starts_with("--data-dir=") || option.starts_with("--color=") => {}
            _ => words.push(argument),
        }
    }
    words
}

fn run(cli: &Cli) -> Result<u8, Failure> {
    match &cli.verb {
        Verb::Add(AddVerb::Oneshot(arguments)) => add::run(&cli.data_dir, arguments),
        Verb::Add(AddVerb::Object(request)) => node_objects::run(&cli.data_dir, request),
        Verb::Edit(EditVerb(request))
        | Verb::Remove(RemoveVerb(request))
        | Verb::List(ListVerb(request))
        | Verb::Show(ShowVerb(request)) => node_objects::run(&cli.data_dir, request),
        Verb::Search(arguments) => search::run(cli, arguments),
        Verb::Dispatch(arguments) => dispatch::run(cli, arguments),
        Verb::Bucket(BucketVerb::List(arguments)) => bucket::list(&cli.data_dir, arguments.output),
        Verb::Bucket(BucketVerb::Stats(arguments)) => bucket::stats(&cli.data_dir, arguments.output),
        Verb::Bucket(BucketVerb::Verify(arguments)) => bucket::verify(&cli.data_dir, arguments.output),
        Verb::Bucket(BucketVerb::Compact(arguments)) => bucket::compact(&cli.data_dir, arguments.output),
        Verb::Bucket(BucketVerb::Thaw(arguments)) => bucket::thaw(&cli.data_dir, arguments),
        Verb::Bucket(BucketVerb::RebuildCatalog(arguments)) => volume_verbs::rebuild_catalog(&cli.data_dir, arguments),
        Verb::Catalog(CatalogVerb::Migrate { to }) => catalog_verbs::migrate(&cli.data_dir, *to),
        Verb::Index(IndexVerb::Migrate(arguments)) => volume_verbs::migrate(&cli.data_dir, arguments),
        Verb::Datamodel(DataModelVerb::Status(arguments)) => datamodel::status(&cli.data_dir, arguments.output),
        Verb::Datamodel(DataModelVerb::Rebuild(arguments)) => datamodel::rebuild(&cli.data_dir, &arguments.model),
        Verb::User(verb) => user_verbs::run(&cli.data_dir, verb),
        Verb::Serve(arguments) => serve::run(&cli.data_dir, arguments),
        Verb::Forward(arguments) => forward::run(&cli.data_dir, arguments),
        Verb::Btool(arguments) => btool::run(&cli.data_dir, arguments),
        Verb::Spl(SplVerb::Check(arguments)) => spl_check::run(arguments),
        Verb::Spl(SplVerb::Explain(arguments)) => spl_explain::run(cli, arguments),
        Verb::Preview(arguments) => preview::run(&cli.data_dir, arguments),
        Verb::Demo(arguments) => demo::run(arguments, is_non_default(&cli.data_dir).then_some(&cli.data_dir)),
        Verb::Bench(BenchVerb::S3(arguments)) => s3_bench::run(arguments),
        Verb::Completions { shell } => {
            completions::write(*shell, &mut std::io::stdout().lock())?;
            Ok(0)
        }
        Verb::Man { to } => manual::write(to.as_deref(), &mut std::io::stdout().lock()),
        Verb::Help { command } => {
            let mut out = output::pager::Pager::open(true);
            let code = help::run(command.as_deref(), terminal::width().map(usize::from), &mut out)?;
            out.close()?;
            Ok(code)
        }
    }
}
