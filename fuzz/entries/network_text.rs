//! Reads any bytes as the data of a port for text, in pieces of any size: connections (with octet counting for syslog)
//! and datagrams (syslog of RFC 3164 and 5424, StatsD). The batches must be valid, without a panic.

use std::sync::Arc;

use quarry_conf::{Layers, PropsResolver};
use quarry_event::EventBatch;
use quarry_inputs::network::{Datagram, Datagrams, RawStream, Template};

const NOW: i64 = 1_795_225_298_000_000_000;
const SOURCETYPES: &[&str] = &["syslog", "statsd", "generic_single_line", "linux_secure"];

thread_local! {
    static PROPS: Arc<PropsResolver> = Arc::new(PropsResolver::new(&Layers::new([])));
}

/// The first byte chooses the sourcetype and the kind of port, and the second is the size of the pieces; the other
/// bytes are sent.
pub(crate) fn run(data: &[u8]) {
    let [choice, size, bytes @ ..] = data else { return };
    let choice = usize::from(*choice);
    let template = Arc::new(Template {
        index: "main".to_owned(),
        source: "udp:514".to_owned(),
        sourcetype: SOURCETYPES[choice % SOURCETYPES.len()].to_owned(),
        props: PROPS.with(Arc::clone),
        kind: quarry_conf::NetworkKind::Tcp,
    });
    let pieces = bytes.chunks(1 + usize::from(*size) * 4);
    let mut out = EventBatch::default();
    if choice & 4 == 0 {
        let mut stream = RawStream::new(template, "h".to_owned());
        for piece in pieces {
            stream.begin(NOW).expect("the rules are those built in");
            stream.push(piece, &mut out);
        }
        stream.finish(NOW, &mut out).expect("the rules are those built in");
        assert!(stream.is_idle());
    } else {
        let mut senders = Datagrams::new(template, choice & 8 == 0, choice & 16 == 0);
        for (at, text) in pieces.enumerate() {
            let host = if at % 3 == 0 { "a" } else { "b" };
            let datagram = Datagram { host, address: "10.0.0.1", text };
            senders.push(datagram, NOW, &mut out).expect("the rules are those built in");
        }
        senders.flush_silent(NOW, true, &mut out);
    }
    let count = out.ends.len();
    assert_eq!((out.time.len(), out.meta.len()), (count, count));
    assert_eq!(out.ends.last().copied().unwrap_or(0) as usize, out.raw.len());
    assert!(out.meta.iter().all(|meta| (*meta as usize) < out.metas.len()));
    assert!(std::str::from_utf8(&out.raw).is_ok(), "the text is UTF-8");
    assert!(out.fields.is_sorted_by_key(|field| field.row));
}
