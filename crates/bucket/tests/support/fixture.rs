//! The events of the committed bucket `tests/fixtures/v1.bucket`. They never change: what a released version wrote
//! must stay readable.

use quarry_event::{EventBatch, IndexedField, Metadata};

/// Two slabs: one of two pages, one of a few odd events.
pub(crate) fn slabs() -> Vec<EventBatch> {
    vec![two_pages(), odd_events()]
}

fn two_pages() -> EventBatch {
    let mut batch = EventBatch { index_time: 1_795_248_930_000_000_000, ..EventBatch::default() };
    for row in 0..4_100i64 {
        let host = if row < 4_090 { "web-01" } else { "web-02" };
        let meta = batch.intern(&Metadata {
            index: "main".into(),
            host: host.into(),
            source: "/var/log/app.log".into(),
            sourcetype: "syslog".into(),
        });
        let text = format!("Request {} took {} ms", row / 64, row % 8);
        batch.push(text.as_bytes(), 1_795_248_000_000_000_000 + row * 250_000_000, meta);
        if row % 1_000 == 0 {
            let field =
                |name: &str, value: String| IndexedField { row: row as u32, name: name.into(), value: value.into() };
            batch.fields.push(field("Kind", format!("Round{row}")));
            batch.fields.push(field("tag", "first".into()));
            batch.fields.push(field("tag", "second".into()));
        }
    }
    batch
}

fn odd_events() -> EventBatch {
    let mut batch = EventBatch { index_time: -5, ..EventBatch::default() };
    let texts = [
        "",
        "Größe=日本 İstanbul ΑΣ",
        "a%20b%2fc 10.0.0.1:8080 user@example.org",
        "84dc9f24-23a7-406a-a4f6-f2cb96248c0c a-rather-long-piece-of_text_with_a_pieceofmorethansixteenbytes",
        "line one\nline two\n",
    ];
    for (row, text) in texts.into_iter().enumerate() {
        let meta = batch.intern(&Metadata {
            index: "main".into(),
            host: format!("Host{row}").into(),
            source: "udp:514".into(),
            sourcetype: "odd".into(),
        });
        let times = [i64::MIN, i64::MAX, 0, -1, 1_795_248_000_123_456_789];
        batch.push(text.as_bytes(), times[row], meta);
    }
    batch.fields.push(IndexedField { row: 1, name: "Straße".into(), value: "ÄÖ".into() });
    batch.fields.push(IndexedField { row: 4, name: "empty".into(), value: "".into() });
    batch
}
