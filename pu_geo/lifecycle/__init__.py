"""A project as a whole: create, open, copy, back up, restore, remove, next round, doctor."""
