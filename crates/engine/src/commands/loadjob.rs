//! `loadjob`: loads the result of an earlier search.

use quarry_eval::EngineError;
use quarry_eval::rows::{RowIter, of_batches};
use quarry_spl::ast::{LoadJobCommand, LoadedJob};

use super::Execute;
use crate::lowering::SearchEnvironment;
use crate::node::JobResult;

impl Execute for LoadJobCommand {
    fn check(&self, environment: &dyn SearchEnvironment) -> Result<(), EngineError> {
        job_of(self, environment).map(drop)
    }

    fn generate(&self, search: &dyn SearchEnvironment) -> Result<Option<RowIter>, EngineError> {
        let (sid, job) = job_of(self, search)?;
        job.messages.iter().for_each(|message| search.context().messages.push(format!("job {sid}: {message}")));
        if job.is_partial {
            search.context().stop.mark_partial();
        }
        Ok(Some(of_batches(job.rows)))
    }
}

/// The id of the job, and its result.
fn job_of(command: &LoadJobCommand, search: &dyn SearchEnvironment) -> Result<(String, JobResult), EngineError> {
    let invalid = |message: String| EngineError::Invalid { message, span: Some(command.span) };
    let sid = match &command.job {
        LoadedJob::Sid(sid) => sid.clone(),
        // Saved searches belong to apps here, so user and app of the name are ignored.
        LoadedJob::Saved { name, .. } => {
            let found = search.node().saved_job(name, command.offset, &search.context().permissions);
            found.ok_or_else(|| invalid(format!("loadjob: no run of the saved search {name} is kept")))?
        }
    };
    match search.node().job(&sid, &search.context().permissions) {
        Ok(Some(job)) if command.events && !job.events => Err(invalid(format!(
            "loadjob: the events of job {sid} are not stored, only its result: leave out events=true"
        ))),
        Ok(Some(job)) => Ok((sid, job)),
        Ok(None) => Err(invalid(format!(
            "loadjob: no job {sid} is kept; run the search again, and find its id with `| history` or, over REST, in \
             the header X-Quarry-Sid"
        ))),
        Err(fault) => Err(EngineError::at(fault.with_context("loadjob"), command.span)),
    }
}
