//! Text output of programs: its lines pass through the index pipeline, like those of a file.

use std::sync::Arc;

use quarry_conf::PropsResolver;
use quarry_event::{EventBatch, TimeNs};
use quarry_pipeline::{Pipeline, PipelineContext, SourceInfo};
use quarry_stdx::Fault;

use super::OutputReader;

/// Reader of text output.
#[derive(Debug)]
pub struct TextReader {
    info: SourceInfo,
    props: Arc<PropsResolver>,
    pipeline: Option<Box<Pipeline>>,
    unreported: Option<String>,
}

impl TextReader {
    /// Creates a reader for output of the source `info`.
    pub fn new(info: SourceInfo, props: Arc<PropsResolver>) -> TextReader {
        TextReader { info, props, pipeline: None, unreported: None }
    }
}

impl OutputReader for TextReader {
    fn push(&mut self, bytes: &[u8], now: TimeNs, out: &mut EventBatch) -> Result<(), Fault> {
        let pipeline = match &mut self.pipeline {
            Some(pipeline) => {
                pipeline.set_now(now, None);
                pipeline
            }
            none => {
                let context = PipelineContext { now, zone: None, modified: None, orders: None };
                let made = Pipeline::new_lenient(self.info.clone(), &self.props, context)?;
                self.unreported = made.settings_error().map(ToString::to_string);
                none.insert(Box::new(made))
            }
        };
        pipeline.push(bytes, out);
        Ok(())
    }

    fn pause(&mut self, now: TimeNs, out: &mut EventBatch) {
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.set_now(now, None);
            pipeline.pause(out);
        }
    }

    fn finish(&mut self, now: TimeNs, out: &mut EventBatch) {
        if let Some(mut pipeline) = self.pipeline.take() {
            pipeline.set_now(now, None);
            pipeline.finish(out);
            self.unreported = pipeline.refused_index().map(str::to_owned);
        }
    }

    fn take_faults(&mut self) -> Vec<String> {
        let refused = || self.pipeline.as_ref().and_then(|pipeline| pipeline.refused_index()).map(str::to_owned);
        self.unreported.take().or_else(refused).into_iter().collect()
    }
}
