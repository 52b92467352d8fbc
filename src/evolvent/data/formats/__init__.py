"""Readers of file formats: paths in, arrays out, a DataError for anything else than the format."""
