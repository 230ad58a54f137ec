//! Options of `quarry bench s3`, and the parsers of their values.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cli::ListForm;

#[derive(Args, Debug)]
pub(crate) struct S3BenchArgs {
    /// URLs of the store's servers, comma-separated; AWS by default.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub(crate) endpoint: Vec<String>,
    /// The S3 bucket, which must exist.
    #[arg(long, value_name = "NAME")]
    pub(crate) container: String,
    /// Prefix of the run's keys; its objects are deleted at the end.
    #[arg(long, default_value = "quarry-bench", value_name = "KEY")]
    pub(crate) prefix: String,
    /// Region that requests are signed for.
    #[arg(long, default_value = "us-east-1", value_name = "REGION")]
    pub(crate) region: String,
    /// Use virtual-hosted URLs, CONTAINER.HOST instead of HOST/CONTAINER.
    #[arg(long)]
    pub(crate) virtual_host: bool,
    /// Trusted CA certificates (PEM) in addition to those of the system.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Operations to measure, in this order.
    #[arg(long, value_delimiter = ',', default_value = "put,stat,list,get,delete", value_name = "OPERATIONS")]
    pub(crate) operations: Vec<S3Operation>,
    /// Measure storing objects; several of these options measure in the order put, stat, list, get, delete.
    #[arg(long, conflicts_with = "operations")]
    pub(crate) put: bool,
    /// Measure checking whether an object exists.
    #[arg(long, conflicts_with = "operations")]
    pub(crate) stat: bool,
    /// Measure listing the run's objects.
    #[arg(long, conflicts_with = "operations")]
    pub(crate) list: bool,
    /// Measure reading whole objects; without --put, some are stored first.
    #[arg(long, conflicts_with = "operations")]
    pub(crate) get: bool,
    /// Measure deleting the run's objects.
    #[arg(long, conflicts_with = "operations")]
    pub(crate) delete: bool,
    /// Number of concurrent requests.
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1024))]
    pub(crate) concurrency: usize,
    /// Size of an object: 4MiB, 512KiB, 1000000.
    #[arg(long, default_value = "4MiB", value_name = "SIZE")]
    pub(crate) size: Bytes,
    /// Duration of each operation: 10s, 2m. Deletes end when all objects are deleted.
    #[arg(long, default_value = "10s", value_name = "TIME")]
    pub(crate) duration: Seconds,
    /// Report format; json includes figures for each second.
    #[arg(short, long, default_value = "table", value_name = "FORMAT")]
    pub(crate) output: ListForm,
}

impl S3BenchArgs {
    /// The operations to measure, in order, and whether the objects that they need are stored before, unmeasured.
    pub(crate) fn phases(&self) -> (Vec<S3Operation>, bool) {
        let flags = [
            (self.put, S3Operation::Put),
            (self.stat, S3Operation::Stat),
            (self.list, S3Operation::List),
            (self.get, S3Operation::Get),
            (self.delete, S3Operation::Delete),
        ];
        let chosen: Vec<S3Operation> = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, it)| it).collect();
        match chosen.is_empty() {
            true => (self.operations.clone(), false),
            false => (chosen, !self.put),
        }
    }
}

/// An operation of an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum S3Operation {
    /// Store new objects.
    Put,
    /// Check whether an object exists.
    Stat,
    /// List the run's objects.
    List,
    /// Read whole objects.
    Get,
    /// Delete the run's objects.
    Delete,
}

impl S3Operation {
    /// Name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            S3Operation::Put => "put",
            S3Operation::Stat => "stat",
            S3Operation::List => "list",
            S3Operation::Get => "get",
            S3Operation::Delete => "delete",
        }
    }
}

/// A number of bytes with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

impl FromStr for Bytes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Bytes, &'static str> {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let unit: u64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "kb" => 1000,
            "m" | "mib" => 1 << 20,
            "mb" => 1_000_000,
            "g" | "gib" => 1 << 30,
            "gb" => 1_000_000_000,
            _ => return Err("a size must be a number followed by B, KiB, MiB or GiB"),
        };
        let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        bytes.filter(|bytes| (1..=Bytes::MAX).contains(bytes)).map(Bytes).ok_or("a size must be between 1 B and 4 GiB")
    }
}

impl Bytes {
    const MAX: u64 = 4 << 30;
}

/// A duration with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(pub(crate) Duration);

impl FromStr for Seconds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Seconds, &'static str> {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let unit = match &text[digits.len()..] {
            "" | "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return Err("a time must be a number followed by s, m or h"),
        };
        let seconds = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds));
        seconds.map(|seconds| Seconds(Duration::from_secs(seconds))).ok_or("a time must be between 1 s and 24 h")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_have_units() {
        let sizes = ["1", "512KiB", "4MiB", "1000kb", "4GiB", "0", "5GiB", "x", "4 MiB", "1TiB", "-1", ""]
            .map(|text| text.parse::<Bytes>().ok().map(|bytes| bytes.0));
        let expected = [Some(1), Some(512 << 10), Some(4 << 20), Some(1_000_000), Some(4 << 30)];
        assert_eq!((&sizes[..5], &sizes[5..]), (&expected[..], &[None; 7][..]));
        let times = ["10s", "2m", "1h", "7", "0s", "25h", "s", "1d"]
            .map(|text| text.parse::<Seconds>().ok().map(|time| time.0.as_secs()));
        assert_eq!(times, [Some(10), Some(120), Some(3600), Some(7), None, None, None, None]);
    }
}
