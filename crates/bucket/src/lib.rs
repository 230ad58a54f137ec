//! The bucket container: slabs, text column, lexicon, term filter; bytes in, bytes out.
