//! Lookup of the buckets of a time range, on every database.

use quarry_event::TimeRange;

use super::*;
use crate::overlap::tests::statement_of_one;

/// Generator of pseudo-random numbers.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// A length of any magnitude, often at or beside a power of two.
    fn length(&mut self) -> i64 {
        let power = 1_i64 << self.below(63);
        match self.below(3) {
            0 => power,
            1 => power - 1 + self.below(5).cast_signed() - 2,
            _ => power.saturating_add(self.below(1 << 30).cast_signed()),
        }
        .max(0)
    }

    /// A time of any magnitude.
    fn time(&mut self) -> i64 {
        match self.below(20) {
            0 => i64::MIN,
            1 => i64::MAX,
            2..11 => self.length(),
            _ => -self.length(),
        }
    }
}

/// Live buckets of many spans in `indexes` indexes, and a few that are not live.
fn filled(catalog: &Catalog, indexes: u64, draw: &mut RandomNumbers) -> Vec<BucketRow> {
    let mut all = Vec::new();
    for number in 1..=600 {
        let index = format!("index{}", draw.below(indexes));
        let time_min = draw.time();
        let time_max = time_min.saturating_add(draw.length());
        let template = if number % 3 == 0 { compacted } else { row };
        all.push(BucketRow { time_min, time_max, ..template(number, &index, BucketState::Live) });
    }
    all.push(BucketRow { time_min: i64::MIN, time_max: i64::MAX, ..row(601, "index0", BucketState::Live) });
    let found = |row: &BucketRow| FoundBucket { row: row.clone(), deleted: None, replaces: Vec::new() };
    catalog.add_found(&all.iter().map(found).collect::<Vec<_>>()).unwrap();
    catalog.begin_seal(&row(700, "index0", BucketState::Sealing)).unwrap();
    catalog.retire(&[5, 6]).unwrap();
    all.retain(|row| row.number != 5 && row.number != 6);
    all
}

fn span_of(row: &BucketRow) -> BucketSpan {
    BucketSpan { number: row.number, time_min: row.time_min, time_max: row.time_max }
}

fn exactly_the_overlapping_buckets_are_found(place: &Place) {
    for (seed, indexes) in [(1, 1), (2, 7), (3, 100)] {
        let catalog = place.fresh().open().unwrap();
        let mut draw = RandomNumbers(seed);
        let all = filled(&catalog, indexes, &mut draw);
        let names: Vec<String> = (0..indexes).map(|number| format!("index{number}")).collect();
        let mut ranges = vec![TimeRange::ALL, TimeRange { earliest: None, latest: Some(i64::MIN) }];
        for _ in 0..150 {
            let (from, length) = (draw.time(), draw.length());
            let latest = Some(from.saturating_add(length));
            ranges.push(match draw.below(8) {
                0 => TimeRange { earliest: None, latest },
                1 => TimeRange { earliest: Some(from), latest: None },
                // A range that begins at the end of a bucket, or ends at the beginning of a bucket.
                2 => TimeRange { earliest: Some(all[draw.below(500) as usize].time_max), latest: None },
                3 => TimeRange { earliest: None, latest: Some(all[draw.below(500) as usize].time_min) },
                _ => TimeRange { earliest: Some(from), latest },
            });
        }
        for range in ranges {
            let first = draw.below(indexes) as usize;
            let count = 1 + draw.below(indexes - first as u64) as usize;
            let asked: Vec<&str> = names[first..first + count].iter().map(String::as_str).collect();
            let is_found =
                |row: &&BucketRow| asked.contains(&&*row.index) && range.overlaps(row.time_min, row.time_max);
            let expected: Vec<BucketSpan> = all.iter().filter(is_found).map(span_of).collect();
            assert_eq!(catalog.overlapping(&asked, &range).unwrap(), expected, "{asked:?} {range:?}");
        }
        assert_eq!(catalog.overlapping(&[], &TimeRange::ALL).unwrap(), []);
        assert_eq!(catalog.overlapping(&["index0", "index0"], &TimeRange::ALL).unwrap().len(), {
            all.iter().filter(|row| row.index == "index0").count()
        });
    }
}

/// The plan of the statement for one index, as the database describes it.
fn plan(catalog: &Catalog, explain: &str) -> String {
    let mut statement = statement_of_one().to_owned();
    for number in (1..=11).rev() {
        statement = statement.replace(&format!("?{number}"), "77");
    }
    let statement = statement.replace("772", "'main'");
    assert!(!statement.contains('?'), "{statement}");
    let rows = catalog.read(|act| act.rows(&format!("{explain} {statement}"), &[], |row| Ok(format!("{:?}", row.0))));
    rows.unwrap().join("\n")
}

#[test]
fn the_index_by_span_answers_in_sqlite() {
    let catalog = Place::sqlite().open().unwrap();
    let plan = plan(&catalog, "EXPLAIN QUERY PLAN");
    let by_index = "USING COVERING INDEX bucket_by_span (index_name=? AND <expr>=? AND time_min>? AND time_min<?)";
    assert_eq!(plan.matches(by_index).count(), 9, "{plan}");
    assert_eq!(plan.matches("bucket_by_span").count(), 10, "{plan}");
}

#[test]
fn the_index_by_span_answers_in_postgresql() {
    let catalog = Place::postgresql().open().unwrap();
    let mut rows: Vec<FoundBucket> = Vec::new();
    for number in 1..=3_000_u64 {
        let time = number.cast_signed() << 40;
        let row = BucketRow { time_min: time, time_max: time + 5, ..row(number, "main", BucketState::Live) };
        rows.push(FoundBucket { row, deleted: None, replaces: Vec::new() });
    }
    catalog.add_found(&rows).unwrap();
    catalog.database.run_script("ANALYZE bucket");
    let plan = plan(&catalog, "EXPLAIN");
    assert_eq!(plan.matches("bucket_by_span").count(), 10, "{plan}");
    assert!(!plan.contains("Seq Scan"), "{plan}");
}

mod on_sqlite {
    use crate::tests::Place;

    #[test]
    fn exactly_the_overlapping_buckets_are_found() {
        super::exactly_the_overlapping_buckets_are_found(&Place::sqlite());
    }
}

mod on_postgresql {
    use crate::tests::Place;

    #[test]
    fn exactly_the_overlapping_buckets_are_found() {
        super::exactly_the_overlapping_buckets_are_found(&Place::postgresql());
    }
}
