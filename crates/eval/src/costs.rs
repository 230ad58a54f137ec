//! The cost of each part of a search: time, calls, rows in and out, and the data pruned before reading.
//!
//! Nothing is measured until [`Costs::measure`] provides a clock: only jobs report costs. A part's time excludes
//! the time of the parts that produce its input. It is the sum over all workers, which may exceed the search's run
//! time. Commands of subsearches count under their own names.
//!
//! Not here: the names under which clients see the parts (api), and advice (search).

use std::fmt::{self, Debug, Formatter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::record_batch::RecordBatch;
use quarry_stdx::SharedClock;

use crate::EngineError;
use crate::rows::RowIter;

/// A part of reading events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanPart {
    /// Finding the pages and rows that may match, with the help of times, filters and term dictionaries.
    Index,
    /// Reading pages; includes all the parts below.
    Pages,
    /// Reading the text of events.
    RawData,
    /// Extracting fields.
    Fields,
    /// Testing the condition.
    Filter,
    /// Computing search-time fields: aliases, calculated fields, lookups, event types, tags.
    Rules,
}

impl ScanPart {
    /// All parts.
    pub const ALL: [ScanPart; 6] =
        [ScanPart::Index, ScanPart::Pages, ScanPart::RawData, ScanPart::Fields, ScanPart::Filter, ScanPart::Rules];
}

/// Figures of one part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostFigures {
    /// Time in nanoseconds, summed over all workers.
    pub time_ns: u64,
    /// Number of calls.
    pub calls: u64,
    /// Number of rows received.
    pub rows_in: u64,
    /// Number of rows passed on.
    pub rows_out: u64,
}

/// Slabs and pages within the time range, and how many of them may hold a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneFigures {
    /// Number of slabs that overlap the time range.
    pub slabs: u64,
    /// Number of these slabs with a page that may hold a match.
    pub slabs_left: u64,
    /// Number of pages in all slabs that overlap the time range.
    pub pages: u64,
    /// Number of these pages that may hold a match.
    pub pages_left: u64,
    /// Bytes of text in the pages that were read.
    pub text_bytes: u64,
}

/// Costs of a search so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostReport {
    /// Costs of reading events, by part.
    pub scan: [CostFigures; ScanPart::ALL.len()],
    /// Costs of the commands by name, in the order in which the commands were prepared.
    pub commands: Vec<(String, CostFigures)>,
    /// Data ruled out before reading.
    pub pruned: PruneFigures,
}

impl CostReport {
    /// The figures of a part of reading events.
    pub fn scan_part(&self, part: ScanPart) -> CostFigures {
        self.scan[part as usize]
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        *self == CostReport::default()
    }
}

/// Costs of one search, shared by its workers.
#[derive(Debug, Default)]
pub struct Costs(OnceLock<Measurement>);

#[derive(Debug)]
struct Measurement {
    clock: SharedClock,
    scan: [Counter; ScanPart::ALL.len()],
    /// Counters by command name; a search has few distinct names.
    commands: Mutex<Vec<(String, Arc<Counter>)>>,
    pruned: Mutex<PruneFigures>,
    text_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Counter {
    time_ns: AtomicU64,
    calls: AtomicU64,
    rows_in: AtomicU64,
    rows_out: AtomicU64,
}

impl Counter {
    fn figures(&self) -> CostFigures {
        CostFigures {
            time_ns: self.time_ns.load(Ordering::Relaxed),
            calls: self.calls.load(Ordering::Relaxed),
            rows_in: self.rows_in.load(Ordering::Relaxed),
            rows_out: self.rows_out.load(Ordering::Relaxed),
        }
    }

    fn add_call(&self, time_ns: i64) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.add_time(time_ns);
    }

    fn add_time(&self, time_ns: i64) {
        self.time_ns.fetch_add(u64::try_from(time_ns).unwrap_or(0), Ordering::Relaxed);
    }
}

impl Costs {
    /// Starts measuring; has no effect if measurement has started before.
    pub fn measure(&self, clock: SharedClock) {
        self.0.get_or_init(|| Measurement {
            clock,
            scan: Default::default(),
            commands: Mutex::default(),
            pruned: Mutex::default(),
            text_bytes: AtomicU64::new(0),
        });
    }

    /// Runs `work` and counts it towards a part of reading events.
    pub fn measure_part<T>(&self, part: ScanPart, work: impl FnOnce() -> T) -> T {
        let Some(measurement) = self.0.get() else { return work() };
        let began_ns = measurement.clock.elapsed_ns();
        let done = work();
        measurement.scan[part as usize].add_call(measurement.clock.elapsed_ns() - began_ns);
        done
    }

    /// Counts slabs and pages before they are read.
    pub fn add_pruned(&self, count: impl FnOnce() -> PruneFigures) {
        let Some(measurement) = self.0.get() else { return };
        let new = count();
        let mut all = measurement.pruned.lock().unwrap_or_else(PoisonError::into_inner);
        all.slabs += new.slabs;
        all.slabs_left += new.slabs_left;
        all.pages += new.pages;
        all.pages_left += new.pages_left;
    }

    /// Counts the text of a page that was read.
    pub fn add_text_bytes(&self, bytes: u64) {
        if let Some(measurement) = self.0.get() {
            measurement.text_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// The meter of a command; `None` if nothing is measured.
    pub fn command_meter(&self, name: &str) -> Option<Meter> {
        let measurement = self.0.get()?;
        let mut commands = measurement.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let counter = match commands.iter().find(|(known, _)| known == name) {
            Some((_, counter)) => Arc::clone(counter),
            None => {
                let counter = Arc::<Counter>::default();
                commands.push((name.to_owned(), Arc::clone(&counter)));
                counter
            }
        };
        Some(Meter { clock: Arc::clone(&measurement.clock), counter })
    }

    /// The costs so far.
    pub fn report(&self) -> CostReport {
        let Some(measurement) = self.0.get() else { return CostReport::default() };
        let commands = measurement.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let pruned = *measurement.pruned.lock().unwrap_or_else(PoisonError::into_inner);
        CostReport {
            scan: std::array::from_fn(|part| measurement.scan[part].figures()),
            commands: commands.iter().map(|(name, counter)| (name.clone(), counter.figures())).collect(),
            pruned: PruneFigures { text_bytes: measurement.text_bytes.load(Ordering::Relaxed), ..pruned },
        }
    }
}

/// Measures one command.
#[derive(Clone)]
pub struct Meter {
    clock: SharedClock,
    counter: Arc<Counter>,
}

impl Debug for Meter {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.counter.fmt(out)
    }
}

impl Meter {
    /// Runs `work` as a call of the command on this many rows.
    pub fn call<T>(&self, rows_in: u64, work: impl FnOnce() -> T) -> T {
        let began_ns = self.clock.elapsed_ns();
        let done = work();
        self.counter.add_call(self.clock.elapsed_ns() - began_ns);
        self.counter.rows_in.fetch_add(rows_in, Ordering::Relaxed);
        done
    }

    /// Counts rows that the command passes on.
    pub fn add_rows_out(&self, rows: u64) {
        self.counter.rows_out.fetch_add(rows, Ordering::Relaxed);
    }

    /// Passes rows through a command that transforms its input iterator; the time in which the input is produced is
    /// not counted.
    pub fn meter_rows(
        &self,
        rows: RowIter,
        command: impl FnOnce(RowIter) -> Result<RowIter, EngineError>,
    ) -> Result<RowIter, EngineError> {
        let waited_ns = Arc::<AtomicU64>::default();
        let input = MeteredInput { rows, meter: self.clone(), waited_ns: Arc::clone(&waited_ns) };
        let watch = Stopwatch { meter: self.clone(), waited_ns };
        let made = watch.call(|| command(Box::new(input)))?;
        Ok(Box::new(MeteredOutput { rows: made, watch }))
    }
}

/// Measures the time of a command without the time of its input.
struct Stopwatch {
    meter: Meter,
    /// Time spent producing the command's input.
    waited_ns: Arc<AtomicU64>,
}

impl Stopwatch {
    fn call<T>(&self, work: impl FnOnce() -> T) -> T {
        let waited_ns = self.waited_ns.load(Ordering::Relaxed);
        let began_ns = self.meter.clock.elapsed_ns();
        let done = work();
        let took_ns = self.meter.clock.elapsed_ns() - began_ns;
        let waited_ns = self.waited_ns.load(Ordering::Relaxed).saturating_sub(waited_ns);
        self.meter.counter.add_call(took_ns - i64::try_from(waited_ns).unwrap_or(took_ns));
        done
    }
}

/// The rows that a command receives.
struct MeteredInput {
    rows: RowIter,
    meter: Meter,
    waited_ns: Arc<AtomicU64>,
}

impl Iterator for MeteredInput {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let began_ns = self.meter.clock.elapsed_ns();
        let next = self.rows.next();
        let took_ns = self.meter.clock.elapsed_ns() - began_ns;
        self.waited_ns.fetch_add(u64::try_from(took_ns).unwrap_or(0), Ordering::Relaxed);
        if let Some(Ok(rows)) = &next {
            self.meter.counter.rows_in.fetch_add(rows.num_rows() as u64, Ordering::Relaxed);
        }
        next
    }
}

/// The rows that a command produces.
struct MeteredOutput {
    rows: RowIter,
    watch: Stopwatch,
}

impl Iterator for MeteredOutput {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.watch.call(|| self.rows.next());
        if let Some(Ok(rows)) = &next {
            self.watch.meter.add_rows_out(rows.num_rows() as u64);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use quarry_stdx::Clock;

    use super::*;
    use crate::rows::{batch_of, of_batches};

    /// A clock that a test sets.
    #[derive(Debug, Default)]
    struct Hand(AtomicI64);

    impl Clock for Hand {
        fn now_ns(&self) -> i64 {
            self.elapsed_ns()
        }
        fn elapsed_ns(&self) -> i64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn rows(count: usize) -> RecordBatch {
        batch_of(Vec::<(String, _)>::new(), count).unwrap()
    }

    #[test]
    fn commands_are_charged_only_their_own_time() {
        let hand = Arc::<Hand>::default();
        let wait = |ns: i64| {
            let hand = Arc::clone(&hand);
            move || {
                hand.0.fetch_add(ns, Ordering::Relaxed);
            }
        };
        let costs = Costs::default();
        costs.measure(Arc::clone(&hand) as SharedClock);
        let source = of_batches(vec![rows(5), rows(3)]).inspect({
            let wait = wait(100);
            move |_| wait()
        });
        let first = costs.command_meter("eval").unwrap();
        let made = first.meter_rows(Box::new(source), |rows| {
            let wait = wait(7);
            Ok(Box::new(rows.inspect(move |_| wait())))
        });
        let second = costs.command_meter("sort").unwrap();
        let sorted = second.meter_rows(made.unwrap(), |input| {
            let all: Vec<RecordBatch> = input.map(|rows| rows.unwrap()).collect();
            wait(1_000)();
            Ok(of_batches(vec![all[0].clone()]))
        });
        assert_eq!(sorted.unwrap().count(), 1);
        costs.command_meter("eval").unwrap().call(2, wait(10));
        let report = costs.report();
        let eval = CostFigures { time_ns: 24, calls: 5, rows_in: 10, rows_out: 8 };
        let sort = CostFigures { time_ns: 1_000, calls: 3, rows_in: 8, rows_out: 5 };
        assert_eq!(report.commands, [("eval".to_owned(), eval), ("sort".to_owned(), sort)]);
    }

    #[test]
    fn scan_parts_and_pruned_data_are_summed() {
        let hand = Arc::<Hand>::default();
        let costs = Costs::default();
        let prune = || PruneFigures { slabs: 3, slabs_left: 1, pages: 9, pages_left: 2, text_bytes: 0 };
        let run = |costs: &Costs| {
            costs.measure_part(ScanPart::Filter, || hand.0.fetch_add(4, Ordering::Relaxed));
            costs.add_pruned(prune);
            costs.add_text_bytes(10);
        };
        run(&costs);
        assert!(costs.report().is_empty() && costs.command_meter("eval").is_none(), "it is not measured");
        costs.measure(Arc::clone(&hand) as SharedClock);
        run(&costs);
        run(&costs);
        let report = costs.report();
        assert_eq!(report.scan_part(ScanPart::Filter), CostFigures { time_ns: 8, calls: 2, ..CostFigures::default() });
        assert_eq!(report.scan_part(ScanPart::Index), CostFigures::default());
        let pruned = PruneFigures { slabs: 6, slabs_left: 2, pages: 18, pages_left: 4, text_bytes: 20 };
        assert_eq!(report.pruned, pruned);
    }
}
