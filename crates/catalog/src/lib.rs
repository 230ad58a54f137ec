//! The truth about buckets, checkpoints and WAL position, in SQLite.
