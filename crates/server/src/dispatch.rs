//! `quarry dispatch` and `quarry search --detach`: a search as a job on the server.
//!
//! Without `--detach`, the command waits for the job and prints its result. Ctrl-C finalises the job, so that the
//! results found so far are printed. Jobs need a running server.

use std::io::Write;

use quarry_engine::SearchShape;
use quarry_stdx::{SystemClock, log};

use crate::cli::{Cli, SearchArgs};
use crate::failure::Failure;
use crate::search::EndedJob;
use crate::search_progress::SearchProgress;
use crate::server_client::Remote;
use crate::{search, terminal, zone};

/// Starts the job; returns the exit code.
pub(crate) fn run(cli: &Cli, arguments: &SearchArgs) -> Result<u8, Failure> {
    search::check_words(arguments)?;
    if let Some(file) = arguments.files.first() {
        return Err(Failure::Usage(format!("{file}: a job searches the data of its server, not files")));
    }
    let zone = zone::parse_option(arguments.zone.as_deref())?.unwrap_or_else(zone::machine);
    search::check_times(arguments, &zone)?;
    let namespace = arguments.namespace.parse()?;
    let Some(remote) = Remote::of(&arguments.node, &cli.data_dir)? else {
        let folder = cli.data_dir.display();
        return Err(Failure::Usage(format!(
            "jobs need a server, and no server has {folder} open: start `quarry serve`, name another node with \
             --uri, or run the search without a job with `quarry search`"
        )));
    };
    // A search on another node is not checked, because that node may have other apps and commands.
    if arguments.node.uri.is_none() {
        search::check(&arguments.text, &cli.data_dir, namespace.clone())?;
    }
    let remote = remote.in_namespace(namespace.as_ref());
    // The id is chosen here, so that Ctrl-C can end the job as soon as it begins.
    let id = arguments.job.id.clone().or_else(|| (!arguments.job.detach).then(search::new_id));
    let stop = search::SearchStop::install(false)?;
    if let Some(id) = id.as_ref().filter(|_| !arguments.job.detach) {
        stop.set(search::StopAction::FinishOnServer(remote.clone(), id.clone()));
    }
    let zone_name = zone::name(&zone);
    let [timeout, max_time] =
        [arguments.job.timeout, arguments.job.max_time].map(|number| number.map(|n| n.to_string()));
    let given = [
        ("earliest_time", arguments.earliest.as_deref()),
        ("latest_time", arguments.latest.as_deref()),
        ("zone", zone_name.as_deref()),
        ("id", id.as_deref()),
        ("timeout", timeout.as_deref()),
        ("max_time", max_time.as_deref()),
    ];
    let mode = if arguments.job.detach { "normal" } else { "blocking" };
    // A job keeps all fields of its events, because a later request for its result may select any field.
    let shape = SearchShape { text_only: false, ..search::printed_shape(arguments) };
    let shape = search::shape_parameters(&shape);
    let mut form = vec![("search", arguments.text.as_str()), ("exec_mode", mode)];
    form.extend(given.into_iter().filter_map(|(name, value)| Some((name, value?))));
    form.extend(shape.iter().map(|(name, value)| (*name, value.as_str())));
    let clock = SystemClock::shared();
    let started_ns = clock.elapsed_ns();
    let progress = (!arguments.job.detach).then(|| SearchProgress::start(None, &stop.interrupt));
    let sid = remote.begin_job(&form);
    drop(progress);
    let sid = sid?;
    if arguments.job.detach {
        return report_detached(&sid, arguments);
    }
    if let Some(reason) = remote.failure_of_job(&sid)? {
        return Err(Failure::Search(reason));
    }
    let ran_ns = clock.elapsed_ns() - started_ns;
    let job = EndedJob { sid, is_stopped: stop.interrupt.is_set(), ran_ns };
    let code = search::show(cli, arguments, Some(&job))?;
    if terminal::is_interactive() {
        log::info(format!("job {}", job.sid));
    }
    Ok(code)
}

/// Prints the ID of a job that continues to run, and the commands to use it.
fn report_detached(sid: &str, arguments: &SearchArgs) -> Result<u8, Failure> {
    writeln!(std::io::stdout().lock(), "{sid}")?;
    if terminal::is_interactive() {
        let node = arguments.node.to_arguments();
        log::info(format!(
            "`quarry show jobs {sid}{node}` shows its state, `quarry search '| loadjob {sid}'{node}` its results"
        ));
    }
    Ok(0)
}
