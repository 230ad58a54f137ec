//! Recognition of files that were read before and are too short to be identified by their first bytes.

use proptest::prelude::*;

use super::World;

/// Operations on short files; numbers denote files.
#[derive(Clone, Debug)]
enum Step {
    Line { file: usize, padding: usize },
    HalfLine { file: usize },
    Look,
    Wait,
    Rename { file: usize },
    CopyAndEmpty { file: usize },
    Rewrite { file: usize },
    Remove { file: usize },
    Restart,
}

fn any_step() -> impl Strategy<Value = Step> {
    let file = 0usize..2;
    prop_oneof![
        8 => (file.clone(), 0usize..30).prop_map(|(file, padding)| Step::Line { file, padding }),
        1 => file.clone().prop_map(|file| Step::HalfLine { file }),
        4 => Just(Step::Look),
        1 => Just(Step::Wait),
        2 => file.clone().prop_map(|file| Step::Rename { file }),
        2 => file.clone().prop_map(|file| Step::CopyAndEmpty { file }),
        1 => file.clone().prop_map(|file| Step::Rewrite { file }),
        1 => file.prop_map(|file| Step::Remove { file }),
        2 => Just(Step::Restart),
    ]
}

/// Logs that programs write, and all lines they wrote.
struct Logs {
    world: World,
    expected: Vec<String>,
    open: [String; 2],
    rotated: usize,
    /// First line of every file, the same for all files; empty for none.
    header: &'static str,
    headers: usize,
}

impl Logs {
    fn name(file: usize) -> String {
        format!("{}.log", ["a", "b"][file])
    }

    /// Name of the next rotated file, which sorts before or after the original and so is scanned before or after it.
    fn next_name(&mut self, file: usize) -> String {
        self.rotated += 1;
        if self.rotated.is_multiple_of(2) {
            format!("0{}.{}", self.rotated, Logs::name(file))
        } else {
            format!("{}.{}", Logs::name(file), self.rotated)
        }
    }

    fn append(&mut self, file: usize, text: &str) {
        let name = Logs::name(file);
        let is_empty = self.world.path(&name).metadata().map_or(0, |metadata| metadata.len()) == 0;
        if is_empty && !self.header.is_empty() {
            self.world.append(&name, &format!("{}\n", self.header));
            self.headers += 1;
        }
        self.world.append(&name, text);
    }

    /// True if no line is incomplete, so that waiting cannot cut one.
    fn is_calm(&self) -> bool {
        self.open.iter().all(String::is_empty)
    }

    /// Whether a file exists and ends with a whole line, so that operations apply to it.
    fn is_whole(&self, file: usize) -> bool {
        self.open[file].is_empty() && self.world.path(&Logs::name(file)).exists()
    }

    fn run(&mut self, at: usize, step: &Step) {
        match step {
            Step::Line { file, padding } => {
                let text = format!("{at}{}", "x".repeat(*padding));
                self.append(*file, &format!("{text}\n"));
                let line = std::mem::take(&mut self.open[*file]) + &text;
                self.expected.push(line);
            }
            Step::HalfLine { file } => {
                self.append(*file, &format!("half{at} "));
                self.open[*file].push_str(&format!("half{at} "));
            }
            Step::Look => self.world.scan_and_read(),
            Step::Restart => self.world.restart(),
            Step::Wait if self.is_calm() => self.world.wait(4.0),
            Step::Rename { file } if self.is_whole(*file) => {
                let to = self.next_name(*file);
                self.world.rename(&Logs::name(*file), &to);
            }
            Step::CopyAndEmpty { file } if self.is_whole(*file) => {
                let to = self.next_name(*file);
                self.world.copy(&Logs::name(*file), &to);
                self.world.empty(&Logs::name(*file));
            }
            // Waits first: no reader can find data that was overwritten unread, and two bytes are read only after a
            // second, because they may begin a byte order mark.
            Step::Rewrite { file } if self.is_calm() && self.is_whole(*file) => {
                self.world.wait(1.5);
                self.world.empty(&Logs::name(*file));
            }
            Step::Remove { file } if self.is_calm() && self.is_whole(*file) => {
                self.world.wait(1.5);
                std::fs::remove_file(self.world.path(&Logs::name(*file))).unwrap();
            }
            _ => {}
        }
    }
}

fn logs(header: &'static str) -> Logs {
    Logs { world: World::new(""), expected: Vec::new(), open: Default::default(), rotated: 0, header, headers: 0 }
}

fn run(header: &'static str, steps: &[Step]) -> (Vec<String>, Vec<String>, usize) {
    let mut logs = logs(header);
    steps.iter().enumerate().for_each(|(at, step)| logs.run(at, step));
    logs.world.wait(8.0);
    let mut expected = logs.expected;
    expected.extend(logs.open.into_iter().filter(|text| !text.is_empty()));
    expected.sort();
    let mut events = logs.world.events();
    events.sort();
    (events, expected, logs.headers)
}

#[test]
fn copies_of_unread_logs_wait_for_the_original() {
    let mut world = World::new("");
    world.append("b.log", "first\nsecond\n");
    world.scan_and_read();
    world.append("b.log", "third\n");
    world.copy("b.log", "a.log");
    // The copy is scanned first, while its origin has the same content.
    world.scan_and_read();
    world.wait(2.0);
    world.assert_events(&["first", "second", "third"]);
    world.empty("b.log");
    world.append("b.log", "fourth\n");
    world.restart();
    world.wait(20.0);
    world.assert_events(&["first", "second", "third", "fourth"]);
}

#[test]
fn copies_of_abandoned_logs_are_read_after_a_wait() {
    let mut world = World::over("monitor", "a*", "");
    let stanza = world.stanza.clone();
    world.stanza = stanza.replace("/a*", "/b*");
    world.restart();
    world.append("b.log", "first\n");
    world.wait(2.0);
    world.stanza = stanza;
    world.restart();
    world.append("b.log", "second\n");
    world.copy("b.log", "a.log");
    world.wait(5.0);
    assert_eq!(world.events().len(), 1, "reading its origin may continue");
    world.wait(20.0);
    world.assert_events(&["first", "first", "second"]);
}

#[test]
fn short_logs_with_equal_start_are_distinguished() {
    let mut world = World::new("");
    world.append("a.log", "start\n");
    world.append("b.log", "start\n");
    world.wait(5.0);
    world.assert_events(&["start"]);
    // Files with equal content are copies until one of them grows.
    world.append("b.log", "of b\n");
    world.wait(5.0);
    world.append("a.log", "of a\n");
    world.wait(5.0);
    world.append("b.log", "more of b\n");
    world.restart();
    world.wait(5.0);
    world.assert_events(&["start", "start", "of b", "of a", "more of b"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Every line is stored once, whatever happens to short files between scans.
    #[test]
    fn every_line_of_short_files_is_stored_once(steps in prop::collection::vec(any_step(), 1..40)) {
        let (events, expected, _) = run("", &steps);
        prop_assert_eq!(events, expected);
    }

    /// The same if all files begin with the same line.
    #[test]
    fn common_first_lines_do_not_confuse_files(steps in prop::collection::vec(any_step(), 1..40)) {
        let (mut events, expected, headers) = run("same", &steps);
        let before = events.len();
        events.retain(|event| event != "same");
        prop_assert!(before - events.len() <= headers, "{} of {headers}", before - events.len());
        prop_assert_eq!(events, expected);
    }
}
