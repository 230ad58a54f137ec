//! Lexicons written and read back.
