//! Reads any bytes as a forwarder's connection (S2S 2, 3 and 4, compressed or not), in pieces of any size. The result
//! must be valid batches or an error, without a panic, and memory must stay within the limits of a connection.

use std::sync::Arc;

use quarry_conf::{Layers, PropsResolver};
use quarry_event::EventBatch;
use quarry_inputs::s2s::{Forwarder, ForwarderDefaults};
use quarry_pipeline::EventTyping;

const NOW: i64 = 1_795_225_298_000_000_000;
/// Maximum memory that a connection may hold.
const HELD_BYTES_MAX: usize = 128 << 20;

thread_local! {
    static PROPS: Arc<PropsResolver> = Arc::new(PropsResolver::new(&Layers::new([])));
}

/// The first byte decides whether packets are offered, and the second is the size of the pieces; the other bytes are
/// sent.
pub(crate) fn run(data: &[u8]) {
    let [offers, size, bytes @ ..] = data else { return };
    let props = PROPS.with(Arc::clone);
    let mut forwarder = Forwarder::new(Arc::new(ForwarderDefaults {
        index: "main".to_owned(),
        host: "10.0.0.9".to_owned(),
        source: "s2s".to_owned(),
        sourcetype: "generic_single_line".to_owned(),
        tokens: None,
        offers_packets: offers % 2 == 0,
        typing: Arc::new(EventTyping::new(Arc::clone(&props))),
        props,
    }));
    for (turn, piece) in bytes.chunks(1 + usize::from(*size) * 8).enumerate() {
        forwarder.push(piece);
        let elapsed = i64::try_from(turn).unwrap_or(i64::MAX);
        while let Some(is_full) = forwarder.advance(NOW, elapsed).ok().or(None) {
            check(&mut forwarder);
            if !is_full {
                break;
            }
        }
        assert!(forwarder.held_bytes() < HELD_BYTES_MAX);
    }
    forwarder.flush_silent(true, i64::MAX);
    check(&mut forwarder);
}

fn check(forwarder: &mut Forwarder) {
    let (batches, _) = forwarder.take_batches();
    let numbered = forwarder.take_numbered();
    drop(forwarder.take_answer());
    for batch in batches.iter().chain(numbered.iter().map(|(_, batch)| batch)) {
        check_batch(batch);
    }
}

fn check_batch(batch: &EventBatch) {
    let count = batch.ends.len();
    assert_eq!((batch.time.len(), batch.meta.len()), (count, count));
    assert_eq!(batch.ends.last().copied().unwrap_or(0) as usize, batch.raw.len());
    assert!(batch.meta.iter().all(|meta| (*meta as usize) < batch.metas.len()));
    assert!(std::str::from_utf8(&batch.raw).is_ok(), "the text is UTF-8");
    assert!(batch.fields.all().rows().is_sorted());
    assert!(batch.fields.all().rows().last().is_none_or(|row| (row as usize) < count));
}
