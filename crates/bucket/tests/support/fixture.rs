//! The events of the committed buckets `tests/fixtures/v1*.bucket`. They never change: what a released version wrote
//! must stay readable.

use quarry_event::{EventBatch, Metadata};

/// Two slabs: one of two pages, one of a few irregular events.
pub(crate) fn slabs() -> Vec<EventBatch> {
    vec![two_pages(), irregular_events()]
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
            batch.fields.push(row as u32, "Kind", &format!("Round{row}"));
            batch.fields.push(row as u32, "tag", "first");
            batch.fields.push(row as u32, "tag", "second");
        }
    }
    batch
}

fn irregular_events() -> EventBatch {
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
    batch.fields.push(1, "Straße", "ÄÖ");
    batch.fields.push(4, "empty", "");
    batch
}

/// A long word derived from a number; few numbers have the same word.
fn letters(mut number: u64) -> String {
    let mut word = String::new();
    while number > 0 {
        word.push(char::from(b'g' + (number % 20) as u8));
        number /= 20;
    }
    word
}

/// A slab of two pages whose texts are split into columns of every kind.
pub(crate) fn template_slabs() -> Vec<EventBatch> {
    let mut batch = EventBatch { index_time: 1_795_248_930_000_000_000, ..EventBatch::default() };
    let metadata = ["main", "web-01", "/var/log/app.log", "app"].map(Into::into);
    let [index, host, source, sourcetype] = metadata;
    let meta = batch.intern(&Metadata { index, host, source, sourcetype });
    for row in 0..4_150u64 {
        let mixed = (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        let time = 1_795_248_000_000_000_000 + row as i64 * 250_000_000;
        let (second, milli) = (row / 4, row % 4 * 250);
        let clock = format!("{:02}:{:02}:{:02}.{milli:03}", 8 + second / 3_600, second / 60 % 60, second % 60);
        let user = mixed % 400;
        let text = match row % 9 {
            0 => format!(
                "2026-11-21T{clock}Z cron[{}]: job nightly-{} done in 0.{:02} s",
                row % 31,
                row % 5,
                mixed % 100
            ),
            1 => format!(
                "2026-11-21T{clock}Z cron[{}]: größe {} übertragen",
                row % 31,
                ["klein", "groß"][row as usize / 9 % 2]
            ),
            8 if row % 45 == 44 => {
                format!("a line like no other: {}", ["x", "y z", "\t", "", "ä"][row as usize / 45 % 5])
            }
            _ => format!(
                "2026-11-21T{clock}Z app[{}]: level={} user=account-{user:03}-of-{} id={mixed:012x} ip=10.{}.{}.{} key={} took={}.{}ms note=\"{}\"",
                300 + row % 7,
                ["info", "warn", "error"][(mixed % 97 % 3) as usize],
                ["berlin", "paris", "oslo"][(user % 3) as usize],
                row / 1_000,
                row % 50,
                mixed % 250,
                letters(mixed),
                mixed % 500,
                mixed % 10,
                ["first try", "second try", "gave up"][(row / 50 % 3) as usize].repeat(1 + (mixed % 4) as usize),
            ),
        };
        batch.push(text.as_bytes(), time, meta);
    }
    vec![batch]
}

/// Two slabs with the same session ids: more ids than a run of a shared dictionary can have.
pub(crate) fn slabs_with_sessions() -> Vec<EventBatch> {
    let mut slabs = Vec::new();
    for slab in 0..2u64 {
        let mut batch = EventBatch { index_time: 1_795_248_930_000_000_000, ..EventBatch::default() };
        let metadata = ["main", "web-01", "/var/log/app.log", "app"].map(Into::into);
        let [index, host, source, sourcetype] = metadata;
        let meta = batch.intern(&Metadata { index, host, source, sourcetype });
        for row in 0..4_200u64 {
            let number = (slab * 4_200 + row).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let (first, second) = session(number % 1_500);
            let text = format!(
                "level={} session={:08x}-{:04x}-4{:03x}-{:04x}-{:012x} done",
                ["info", "warn"][(row % 7 / 6) as usize],
                first >> 32,
                first >> 16 & 0xffff,
                first & 0xfff,
                0x8000 | second >> 50,
                second & 0xffff_ffff_ffff,
            );
            batch.push(text.as_bytes(), 1_795_248_000_000_000_000 + row as i64 * 250_000_000, meta);
        }
        slabs.push(batch);
    }
    slabs
}

/// The random bits of a session.
fn session(number: u64) -> (u64, u64) {
    let mixed = |number: u64| {
        let mixed = (number + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 29).wrapping_mul(0x94d0_49bb_1331_11eb)
    };
    (mixed(number), mixed(number + (1 << 40)))
}
