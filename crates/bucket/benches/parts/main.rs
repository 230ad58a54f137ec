//! Throughput of the parts of a bucket on one core, each compared with its ceiling.
//!
//! `cargo bench -p quarry-bucket --bench parts [-- NAME]` measures time with criterion, which shows the change from the
//! previous run. `QUARRY_BENCH_FILE` names a file whose first 64 MB become the slab; without it, lines are generated.
//! With `--once NAME`, a part runs once uncounted and once within [`counted`], so that `cargo xtask counts` can count
//! its instructions. Unlike time, their number does not depend on the load of the machine.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, missing_docs)]

mod parts;
mod slab;

use std::fs::File;
use std::io::{BufReader, Read};
use std::time::Duration;

use criterion::{Criterion, Throughput};
use quarry_bucket::TARGET_SLAB_RAW_BYTES;
use quarry_event::EventBatch;

use parts::{Amount, Part};
use slab::{Slabs, generate_lines};

/// Bytes of text for a part whose instructions are counted; few, because valgrind's simulated processor is slow.
const COUNTED_BYTES: usize = 4 << 20;
const SAMPLES: usize = 10;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--once", name] => once(name),
        ["--list-parts"] => parts::all(slab(1 << 20)).iter().for_each(|part| println!("{}", part.name)),
        _ => timed(),
    }
}

fn slab(bytes: usize) -> EventBatch {
    let text = match std::env::var("QUARRY_BENCH_FILE") {
        Ok(path) => {
            let mut text = Vec::new();
            BufReader::new(File::open(path).unwrap()).take(bytes as u64).read_to_end(&mut text).unwrap();
            text
        }
        Err(_) => generate_lines(bytes),
    };
    Slabs::of(&text[..]).next().unwrap()
}

fn timed() {
    let mut criterion = Criterion::default()
        .sample_size(SAMPLES)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    for Part { name, amount, mut work, ceiling_name, mut ceiling } in parts::all(slab(TARGET_SLAB_RAW_BYTES)) {
        let mut group = criterion.benchmark_group(name);
        group.throughput(match amount {
            Amount::Bytes(bytes) => Throughput::Bytes(bytes),
            Amount::Values(values) => Throughput::Elements(values),
        });
        group.bench_function("quarry", |bencher| bencher.iter(&mut work));
        group.bench_function(format!("ceiling: {ceiling_name}"), |bencher| bencher.iter(&mut ceiling));
        group.finish();
    }
    criterion.final_summary();
}

fn once(name: &str) {
    let mut parts = parts::all(slab(COUNTED_BYTES));
    let Some(part) = parts.iter_mut().find(|part| part.name == name) else {
        println!("no part is called {name}: --list-parts names them");
        return;
    };
    (part.work)();
    let (Amount::Bytes(amount) | Amount::Values(amount)) = part.amount;
    let unit = if matches!(part.amount, Amount::Bytes(_)) { "byte" } else { "value" };
    println!("{name}: {amount} {unit} gives {}", counted(&mut part.work));
}

/// Marks the counted section: valgrind finds this function by its name and counts only its instructions.
#[inline(never)]
fn counted(work: &mut parts::Work) -> u64 {
    std::hint::black_box(work())
}
