//! Reading and building the columns that flow between commands.
//!
//! Physical types: Utf8View, Int64, Float64, Boolean, Timestamp(ns) for `_time`, List<Utf8View> for multivalue, Null.
//! The text form is canonical, a type is only an optimisation (see `quarry_event::value`).
