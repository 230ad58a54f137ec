//! Columns that make the location of a field uncertain in some rows.
//!
//! Not here: detection of such columns ([`super::key_end`], [`super::segments`]); their rows
//! ([`mod@super::ambiguous_rows`]).

use quarry_event::template::ByteSet;

/// Bytes that end an unquoted value and are no part of the next one, nor of a key.
pub(super) const SEPARATORS: ByteSet = ByteSet::of(b" \t\r\n,;|&");

/// A column, and which of its values make the location of a field uncertain in their rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AmbiguousColumn {
    /// Values that contain the end of the field's key ([`super::key_end`]).
    WithKey(u32),
    /// Values that do not end with a separator: they may continue in the text after them.
    Unseparated(u32),
}

/// The columns as ambiguous if a value contains the end of the field's key.
pub(super) fn keys_in_columns(columns: &[u32]) -> Box<[AmbiguousColumn]> {
    columns.iter().copied().map(AmbiguousColumn::WithKey).collect()
}

/// Whether a value does not end with a separator.
pub(super) fn is_unseparated(value: &[u8]) -> bool {
    !value.last().is_some_and(|last| SEPARATORS.contains(*last))
}
