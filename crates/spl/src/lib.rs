//! SPL: text to syntax tree with diagnostics. Knows nothing of execution.

pub mod ast;
