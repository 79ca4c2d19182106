"""Readers of other people's files, in a child process with limits."""
