"""Readers, one file per format: paths in, arrays out, a DataError for anything that is not what it should be."""
