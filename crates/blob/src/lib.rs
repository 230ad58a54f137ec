//! Immutable objects on a local folder or in memory.
