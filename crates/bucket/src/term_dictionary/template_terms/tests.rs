//! Terms of slabs made by hand, compared with the tokens of their rebuilt texts.

use std::collections::{BTreeMap, BTreeSet};

use quarry_event::segment::{for_each_token, lower_token};
use quarry_event::template::NumberFormat;

use super::*;
use crate::term_dictionary::Namespace;
use crate::term_dictionary::hash::{PAIR_BYTES, hash_term};

/// Every lower-cased token of the rebuilt texts with its pages.
fn truth(slab: &TemplateSlab) -> BTreeMap<Vec<u8>, u64> {
    let column = &slab.columns[0];
    let SlabValues::Templates { templates, codes } = &*column.values else { panic!("column 0 is templates") };
    let mut filler = Filler { slab, next: vec![0; slab.columns.len()], text: Vec::new() };
    let (mut truth, mut lower) = (BTreeMap::<Vec<u8>, u64>::new(), Vec::new());
    for (page, places) in value_ranges_by_page(column) {
        for code in &codes[places] {
            filler.text.clear();
            filler.fill(&templates[*code as usize]);
            for_each_token(&filler.text, |token| {
                lower_token(token, &mut lower);
                *truth.entry(lower.clone()).or_default() |= 1 << page;
            });
        }
    }
    truth
}

struct Terms {
    term_dictionary: BTreeMap<Vec<u8>, u64>,
    rare: BTreeSet<u64>,
}

fn terms(slab: &TemplateSlab) -> Terms {
    let (mut table, mut rare) = (TermTable::new(Namespace::Tokens), Vec::new());
    add_terms(slab, &mut table, &mut rare);
    table.finish();
    let mut bytes = [0; PAIR_BYTES];
    let term_dictionary =
        table.entries().iter().map(|entry| (table.term(entry, &mut bytes).to_vec(), entry.pages)).collect();
    Terms { term_dictionary, rare: rare.into_iter().collect() }
}

/// Every token must be rare or have at least its pages in the term dictionary.
fn assert_covers(slab: &TemplateSlab) -> Terms {
    let terms = terms(slab);
    for (token, pages) in truth(slab) {
        let known = terms.term_dictionary.get(&token).copied().unwrap_or(0);
        let rare = terms.rare.contains(&hash_term(Namespace::Tokens, &token));
        assert!(rare || pages & !known == 0, "{} in {pages:b}, found {known:b}", token.escape_ascii());
    }
    terms
}

fn template(parts: &[Result<&str, u32>]) -> Template {
    let part = |part: &Result<&str, u32>| match part {
        Ok(literal) => TemplatePart::Literal(literal.as_bytes().into()),
        Err(column) => TemplatePart::Variable(*column),
    };
    Template { parts: parts.iter().map(part).collect() }
}

fn joined(texts: &[&str]) -> (Vec<u8>, Vec<u32>) {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for text in texts {
        bytes.extend_from_slice(text.as_bytes());
        ends.push(bytes.len() as u32);
    }
    (bytes, ends)
}

fn traits_of(texts: &[&str]) -> ValueTraits {
    let mut traits = ValueTraits::default();
    texts.iter().enumerate().for_each(|(at, text)| traits.add(text.as_bytes(), at == 0));
    traits
}

fn templates(parent: Option<u32>, all: &[Template], codes: &[u32], page_starts: &[u32]) -> SlabColumn {
    let values = SlabValues::Templates { templates: all.to_vec(), codes: codes.to_vec() }.into();
    SlabColumn { parent, path: 0, values, traits: ValueTraits::default(), page_starts: page_starts.to_vec() }
}

fn dictionary(parent: u32, all: &[&str], codes: &[u32], page_starts: &[u32]) -> SlabColumn {
    let (bytes, ends) = joined(all);
    let values = SlabValues::Dictionary { bytes, ends, codes: codes.to_vec() }.into();
    SlabColumn { parent: Some(parent), path: 0, values, traits: traits_of(all), page_starts: page_starts.to_vec() }
}

fn plain(parent: u32, all: &[&str], page_starts: &[u32]) -> SlabColumn {
    let (bytes, ends) = joined(all);
    let values = SlabValues::Texts { bytes, ends }.into();
    SlabColumn { parent: Some(parent), path: 0, values, traits: traits_of(all), page_starts: page_starts.to_vec() }
}

fn numbers(parent: u32, format: NumberFormat, all: &[i64], page_starts: &[u32]) -> SlabColumn {
    let mut traits = ValueTraits::default();
    for (at, number) in all.iter().enumerate() {
        let mut text = Vec::new();
        format.write(*number, &mut text);
        traits.add(&text, at == 0);
    }
    let values = SlabValues::Numbers { format, numbers: all.to_vec() }.into();
    SlabColumn { parent: Some(parent), path: 0, values, traits, page_starts: page_starts.to_vec() }
}

fn hash(token: &str) -> u64 {
    hash_term(Namespace::Tokens, token.as_bytes())
}

#[test]
fn repeated_tokens_are_in_the_dictionary_and_rare_tokens_are_hashed() {
    let slab = TemplateSlab {
        cells: Vec::new(),
        fields: Vec::new(),
        extractions: Vec::new(),
        extracted_names: None,
        columns: vec![
            templates(
                None,
                &[template(&[Ok("User="), Err(1), Ok(" took "), Err(2), Ok("ms")]), template(&[Ok("stop "), Err(3)])],
                &[0, 1, 0, 0],
                &[0, 2, 4],
            ),
            dictionary(0, &["Anna.B", "carl"], &[0, 0, 1], &[0, 1, 3]),
            numbers(0, NumberFormat::Integer, &[70, -71, 72], &[0, 1, 3]),
            plain(0, &["x-Y17"], &[0, 1, 1]),
        ],
    };
    let Terms { term_dictionary, rare } = assert_covers(&slab);
    // `ms` follows the number without a breaker, so number and unit are one token (`70ms`). Each token with the pages
    // that contain it:
    let expected =
        [("user", 3), ("anna", 3), ("b", 3), ("carl", 2), ("took", 3), ("stop", 1), ("70ms", 1), ("71ms", 2)];
    for (token, pages) in expected {
        assert_eq!(term_dictionary.get(token.as_bytes()), Some(&pages), "{token}");
    }
    for token in ["70", "71", "x", "y17"] {
        assert!(rare.contains(&hash(token)), "{token}");
        assert!(!term_dictionary.contains_key(token.as_bytes()), "{token}");
    }
}

#[test]
fn templates_with_clean_edges_are_not_filled() {
    let slab = TemplateSlab {
        cells: Vec::new(),
        fields: Vec::new(),
        extractions: Vec::new(),
        extracted_names: None,
        columns: vec![
            templates(None, &[template(&[Ok("id="), Err(1), Ok(" 100% "), Err(2)])], &[0, 0], &[0, 1, 2]),
            numbers(0, NumberFormat::Hex { digits: 4 }, &[0xab, 0xcd], &[0, 1, 2]),
            dictionary(0, &["done", "gone"], &[0, 1], &[0, 1, 2]),
        ],
    };
    let Terms { term_dictionary, rare } = assert_covers(&slab);
    let expected: &[(&str, u64)] = &[("100", 3), ("done", 1), ("gone", 2), ("id", 3)];
    assert!(
        term_dictionary
            .iter()
            .map(|(term, pages)| (std::str::from_utf8(term).unwrap(), *pages))
            .eq(expected.iter().copied())
    );
    assert_eq!(rare, BTreeSet::from([hash("00ab"), hash("00cd")]));
}

#[test]
fn nested_templates_straddle_inside_and_at_their_ends() {
    let slab = TemplateSlab {
        cells: Vec::new(),
        fields: Vec::new(),
        extractions: Vec::new(),
        extracted_names: None,
        columns: vec![
            templates(None, &[template(&[Ok("a"), Err(1), Ok(".b")]), template(&[Err(2)])], &[0, 1, 0], &[0, 2, 3]),
            templates(Some(0), &[template(&[Err(3), Ok("x "), Err(4)]), template(&[Ok("-y")])], &[0, 1], &[0, 1, 2]),
            plain(0, &["whole text"], &[0, 1, 1]),
            dictionary(1, &["-", "q"], &[1], &[0, 1, 1]),
            dictionary(1, &["z"], &[0], &[0, 1, 1]),
        ],
    };
    let Terms { term_dictionary, .. } = assert_covers(&slab);
    assert_eq!(term_dictionary.get(&b"aqx"[..]), Some(&1));
    assert_eq!(term_dictionary.get(&b"y"[..]), Some(&2));
}

#[test]
fn neighbours_of_empty_variables_may_form_tokens() {
    let slab = TemplateSlab {
        cells: Vec::new(),
        fields: Vec::new(),
        extractions: Vec::new(),
        extracted_names: None,
        columns: vec![
            templates(None, &[template(&[Ok("left"), Err(1), Ok("right")])], &[0, 0], &[0, 1, 2]),
            dictionary(0, &["", "-"], &[0, 1], &[0, 1, 2]),
        ],
    };
    let Terms { term_dictionary, .. } = assert_covers(&slab);
    assert_eq!(term_dictionary.get(&b"leftright"[..]), Some(&1));
}

#[test]
fn percent_encoded_breakers_straddle_edges() {
    for (literal, texts) in [
        ("u=a%", ["20b", "x"]),
        ("u=a%2", ["0b", "-"]),
        ("u=a%252", ["0b", "."]),
        ("u=a%25", ["20b", "."]),
        ("u=.%", ["7c", ""]),
    ] {
        let slab = TemplateSlab {
            cells: Vec::new(),
            fields: Vec::new(),
            extractions: Vec::new(),
            extracted_names: None,
            columns: vec![
                templates(None, &[template(&[Ok(literal), Err(1)])], &[0, 1, 0].map(|_| 0), &[0, 1, 3]),
                dictionary(0, &texts, &[0, 1, 0], &[0, 1, 3]),
            ],
        };
        assert_covers(&slab);
        let slab = TemplateSlab {
            cells: Vec::new(),
            fields: Vec::new(),
            extractions: Vec::new(),
            extracted_names: None,
            columns: vec![
                templates(None, &[template(&[Err(1), Ok("20c"), Err(2)])], &[0, 0], &[0, 1, 2]),
                plain(0, &["k%", "l"], &[0, 1, 2]),
                plain(0, &["-1", "%41"], &[0, 1, 2]),
            ],
        };
        assert_covers(&slab);
    }
}

#[test]
fn long_texts_stay_in_the_term_dictionary_page_by_page() {
    let long = "the quick brown fox jumps over the lazy dog and does it again and again and again";
    let slab = TemplateSlab {
        cells: Vec::new(),
        fields: Vec::new(),
        extractions: Vec::new(),
        extracted_names: None,
        columns: vec![
            templates(None, &[template(&[Err(1)])], &[0, 0], &[0, 1, 2]),
            plain(0, &[long, "short fox"], &[0, 1, 2]),
        ],
    };
    let Terms { term_dictionary, rare } = assert_covers(&slab);
    assert_eq!(term_dictionary.get(&b"fox"[..]), Some(&3));
    assert_eq!(term_dictionary.get(&b"short"[..]), Some(&2));
    assert!(rare.is_empty());
}

/// Texts whose ends form tokens and percent-encoded breakers with their neighbours.
const PIECES: [&str; 16] =
    ["", "a", "7", "-", "%", "%2", "0", "20", "b c", "%252", "x%", " ", "6é", "k=%3b.", "long words here", "5."];

/// A slab with templates and values chosen by `next(below)`.
fn arbitrary_slab(next: &mut impl FnMut(usize) -> usize) -> TemplateSlab {
    const ROWS_PER_PAGE: usize = 4;
    const PAGES: usize = 3;
    let starts_of = |rows: &[usize]| -> Vec<u32> {
        (0..=PAGES).map(|page| rows.iter().filter(|row| **row < page * ROWS_PER_PAGE).count() as u32).collect()
    };
    let piece = |next: &mut dyn FnMut(usize) -> usize| PIECES[next(PIECES.len())];
    let all: Vec<Template> = (0..3)
        .map(|_| {
            let mut parts = Vec::new();
            for column in (1..=4u32).filter(|_| next(3) > 0).collect::<Vec<_>>() {
                parts.push(Ok(piece(next)));
                parts.push(Err(column));
            }
            parts.push(Ok(piece(next)));
            parts.retain(|part| *part != Ok(""));
            template(&parts)
        })
        .collect();
    let codes: Vec<u32> = (0..ROWS_PER_PAGE * PAGES).map(|_| next(all.len()) as u32).collect();
    let rows_of = |column: u32| -> Vec<usize> {
        (0..codes.len()).filter(|row| all[codes[*row] as usize].has_variable(column)).collect()
    };
    let mut columns = vec![templates(None, &all, &codes, &starts_of(&(0..codes.len()).collect::<Vec<_>>()))];
    let texts = [piece(next), piece(next), piece(next)];
    let rows = rows_of(1);
    columns.push(dictionary(0, &texts, &rows.iter().map(|_| next(3) as u32).collect::<Vec<_>>(), &starts_of(&rows)));
    let rows = rows_of(2);
    let short: Vec<&str> = rows.iter().map(|_| piece(next)).collect();
    columns.push(plain(0, &short, &starts_of(&rows)));
    let rows = rows_of(3);
    let values: Vec<i64> = rows.iter().map(|_| next(300) as i64).collect();
    columns.push(numbers(0, NumberFormat::Integer, &values, &starts_of(&rows)));
    let rows = rows_of(4);
    let inner = [template(&[Ok("p"), Err(5), Ok(piece(next))]), template(&[Err(5)]), template(&[Ok("-n")])];
    let inner_codes: Vec<u32> = rows.iter().map(|_| next(inner.len()) as u32).collect();
    columns.push(templates(Some(0), &inner, &inner_codes, &starts_of(&rows)));
    let rows: Vec<usize> = rows.iter().zip(&inner_codes).filter(|(_, code)| **code < 2).map(|(row, _)| *row).collect();
    let texts = [piece(next), piece(next)];
    columns.push(dictionary(4, &texts, &rows.iter().map(|_| next(2) as u32).collect::<Vec<_>>(), &starts_of(&rows)));
    TemplateSlab { columns, ..TemplateSlab::default() }
}

#[test]
fn tokens_of_arbitrary_templates_are_covered() {
    let mut state = 1u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..4_000 {
        assert_covers(&arbitrary_slab(&mut next));
    }
}

#[test]
fn only_the_words_at_an_unclear_edge_are_tokenised_with_the_value() {
    let parts: &[Result<&str, u32>] = &[Ok("id="), Err(1), Ok(" took about "), Err(2), Ok("ms, user "), Err(3)];
    let slab = TemplateSlab {
        cells: Vec::new(),
        fields: Vec::new(),
        extractions: Vec::new(),
        extracted_names: None,
        columns: vec![
            templates(None, &[template(parts), template(&[Ok("only "), Err(2)])], &[0, 1, 0], &[0, 2, 3]),
            numbers(0, NumberFormat::Integer, &[811, 812], &[0, 1, 2]),
            numbers(0, NumberFormat::Integer, &[70, 71, 72], &[0, 2, 3]),
            plain(0, &["x17", "x18"], &[0, 1, 2]),
        ],
    };
    let Terms { term_dictionary, .. } = assert_covers(&slab);
    let found: Vec<(&str, u64)> =
        term_dictionary.iter().map(|(term, pages)| (std::str::from_utf8(term).unwrap(), *pages)).collect();
    let expected = [("70ms", 1), ("72ms", 2), ("about", 3), ("id", 3), ("only", 1), ("took", 3), ("user", 3)];
    assert_eq!(found, expected);
}
