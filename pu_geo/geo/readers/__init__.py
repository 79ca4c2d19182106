"""Readers of other people's files, in a child process with limits.

Others may use the modules listed here and no other. Files come in through `in_child`; what `footprint_files` and `xbd` read
is read in the process that calls them, so that only the child may have them read a file of other people.
"""

__all__ = ["file_kinds", "footprint_files", "in_child", "raw_footprints", "xbd", "xbd_folder"]
