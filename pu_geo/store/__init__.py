"""The project on disk: what is in the folder, and the only code that reads or writes it."""
