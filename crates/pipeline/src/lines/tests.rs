use super::*;

fn lines(breaker: &str, truncate: usize, chunks: &[&[u8]]) -> Vec<(String, u64, bool)> {
    let mut found = Vec::new();
    let mut lines = LineBreaker::new(breaker, truncate).unwrap();
    let mut sink = |line: Line<'_>| {
        found.push((String::from_utf8_lossy(line.text).into_owned(), line.start, line.is_truncated));
    };
    for chunk in chunks {
        lines.feed(chunk, &mut sink);
    }
    lines.drain(InputState::End, &mut sink);
    found
}

fn texts(breaker: &str, input: &str) -> Vec<String> {
    lines(breaker, 0, &[input.as_bytes()]).into_iter().map(|(text, _, _)| text).collect()
}

#[test]
fn newline_runs_separate_lines() {
    let found = lines(r"([\r\n]+)", 0, &[b"a\r", b"\n\nbc", b"d\ne"]);
    let expected = [("a".to_owned(), 0, false), ("bcd".to_owned(), 4, false), ("e".to_owned(), 8, false)];
    assert_eq!(found, expected);
}

#[test]
fn text_outside_the_group_is_kept() {
    assert_eq!(texts(r"}(,\s*)\{", "{1},{2},\n{3}"), ["{1}", "{2}", "{3}"]);
    assert_eq!(texts(r"([\r\n]+)\d{4}-", "2026-a\n at x\n2026-b\n"), ["2026-a\n at x", "2026-b"]);
    assert_eq!(texts(r"()(?=<e>)", "<e>1</e><e>2</e>"), ["<e>1</e>", "<e>2</e>"]);
    assert_eq!(texts(r"(;)|(\|)", "a;b|c"), ["a", "b", "c"]);
}

#[test]
fn long_lines_are_truncated_at_a_character_boundary() {
    for breaker in [r"([\r\n]+)", r"(\r?\n)"] {
        let found = lines(breaker, 4, &["abcüdef\nok\n".as_bytes()]);
        assert_eq!(found, [("abc".to_owned(), 0, true), ("ok".to_owned(), 9, false)], "{breaker}");
    }
}

#[test]
fn huge_lines_keep_only_their_head_in_memory() {
    for breaker in [r"([\r\n]+)", r"(\r?\n)"] {
        let chunk = vec![b'x'; 64 << 10];
        let mut lines = LineBreaker::new(breaker, 10_000).unwrap();
        let mut found = Vec::new();
        let mut sink = |line: Line<'_>| found.push((line.text.len(), line.start, line.is_truncated));
        let mut most = 0;
        for _ in 0..160 {
            lines.feed(&chunk, &mut sink);
            most = most.max(lines.capacity());
        }
        lines.feed(b"x\nnext\n", &mut sink);
        lines.drain(InputState::End, &mut sink);
        assert_eq!(found, [(10_000, 0, true), (4, (160 << 16) + 2, false)], "{breaker}");
        assert!(most <= 320 << 10, "{breaker}: {most}");
    }
}

#[test]
fn pauses_emit_only_complete_lines() {
    for breaker in [r"([\r\n]+)", r"(\r?\n)"] {
        let mut lines = LineBreaker::new(breaker, 0).unwrap();
        let mut found = Vec::new();
        let mut sink = |line: Line<'_>| found.push(line.text.to_vec());
        lines.feed(b"one\ntw", &mut sink);
        lines.drain(InputState::Pause, &mut sink);
        assert_eq!(lines.start(), 4);
        lines.feed(b"o\n", &mut sink);
        lines.drain(InputState::Pause, &mut sink);
        assert_eq!(found, [b"one".to_vec(), b"two".to_vec()], "{breaker}");
        assert_eq!(lines.start(), 8);
    }
}
