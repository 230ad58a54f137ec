//! Index-time processing: decode, break, merge, timestamp; and the extraction rules of search time.
