use super::*;

const BYTES: u64 = 300_000;
const START_S: i64 = 1_795_132_800;

fn events(shape: &mut dyn Shape, seed: u64) -> Vec<Event> {
    let mut rng = Rng::new(seed);
    (0..300).map(|at| shape.event(START_S * 1_000 + at * 37, &mut rng)).collect()
}

fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("quarry-shapes-{}-{name}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    folder
}

#[test]
fn a_seed_gives_the_same_events_and_another_seed_others() {
    for at in 0..shapes(1).len() {
        let texts = |seed: u64| -> Vec<String> {
            let mut shape = shapes(seed).swap_remove(at);
            events(shape.as_mut(), 7).into_iter().map(|event| event.text).collect()
        };
        assert_eq!(texts(1), texts(1));
        let (one, other) = (texts(1), texts(2));
        assert!(one.iter().zip(&other).all(|(one, other)| one != other));
    }
}

#[test]
fn every_event_has_a_value_per_column_and_belongs_to_a_file() {
    for seed in 0..20 {
        for mut shape in shapes(seed) {
            let columns = shape.columns();
            for event in events(shape.as_mut(), seed) {
                assert_eq!(event.values.len(), columns.len(), "{}", shape.name());
                assert!(event.file < shape.files().len());
                let of_kind = columns.iter().zip(&event.values).all(|(column, value)| match value {
                    Value::Absent => true,
                    Value::Text(_) => column.kind == Kind::Text,
                    Value::Integer(_) => column.kind == Kind::Integer,
                    Value::Number(_) => column.kind == Kind::Number,
                });
                assert!(of_kind, "{}: {event:?}", shape.name());
            }
        }
    }
}

#[test]
fn every_shape_is_asked_enough_and_with_values_that_exist() {
    for mut shape in shapes(5) {
        let place = folder(shape.name());
        let written = write(shape.as_mut(), 5, BYTES, START_S, &place).expect("files can be created in the folder");
        let queries = shape.queries(&written.samples);
        assert!(queries.len() >= 25, "{} has {}", shape.name(), queries.len());
        let mut names: Vec<&str> = queries.iter().map(|query| query.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), queries.len(), "{}: names repeat", shape.name());
        for query in &queries {
            // A condition with an empty value would be meaningless.
            assert!(!query.spl.contains("=\"\" ") && !query.spl.contains(" \"\" "), "{}: {}", shape.name(), query.spl);
            assert!(query.raw.contains("from lines"));
        }
        let parsed = std::fs::read_to_string(place.join("parsed.ndjson")).expect("it was written");
        assert_eq!(parsed.lines().count() as u64, written.events);
        std::fs::remove_dir_all(&place).expect("the folder was made here");
    }
}
