//! Passes any bytes to the pipeline as a source, in pieces of any size. The batches must be valid, without a panic.

use jiff::tz::TimeZone;
use quarry_conf::{Layers, PropsResolver};
use quarry_event::EventBatch;
use quarry_pipeline::{Pipeline, PipelineContext, SourceInfo};

/// Sourcetypes to choose from; with the empty one, the pipeline guesses.
const SOURCETYPES: &[&str] = &["", "syslog", "access_combined", "_json", "csv", "log4j", "generic_single_line"];

thread_local! {
    static PROPS: PropsResolver = PropsResolver::new(&Layers::new([]));
}

/// The first byte chooses the sourcetype, and the second is the size of the pieces; the other bytes are the source.
pub(crate) fn run(data: &[u8]) {
    let [choice, size, bytes @ ..] = data else { return };
    let sourcetype = SOURCETYPES[usize::from(*choice) % SOURCETYPES.len()];
    let info = SourceInfo {
        index: "main".into(),
        host: "host".into(),
        host_is_fixed: false,
        source: "/var/log/a.log".into(),
        sourcetype: (!sourcetype.is_empty()).then(|| sourcetype.into()),
    };
    let context = PipelineContext { now: 1_795_248_930_000_000_000, zone: Some(TimeZone::UTC), modified: None, orders: None };
    let Ok(mut pipeline) = PROPS.with(|props| Pipeline::new(info, props, context)) else { return };
    let mut batch = EventBatch::default();
    for piece in bytes.chunks(1 + usize::from(*size)) {
        pipeline.push(piece, &mut batch);
    }
    pipeline.finish(&mut batch);
    let count = batch.ends.len();
    assert_eq!((batch.time.len(), batch.meta.len()), (count, count));
    assert_eq!(batch.ends.last().copied().unwrap_or(0) as usize, batch.raw.len());
    assert!(batch.meta.iter().all(|meta| (*meta as usize) < batch.metas.len()));
    let text = std::str::from_utf8(&batch.raw).expect("the text is UTF-8");
    assert!(batch.ends.is_sorted() && batch.ends.iter().all(|end| text.is_char_boundary(*end as usize)));
    assert!(batch.fields.all().rows().is_sorted());
}
