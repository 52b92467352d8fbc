"""Foundations of every other package: errors, registries, extensions, files, locks, random streams, configuration."""
