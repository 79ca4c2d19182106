"""Pieces that several screens share: the damage view, the scatter, job cards, widgets of what is stored."""
