"""What every room stands on: errors, names, whole files, placed random numbers, checked configuration."""
