"""Trainings and what they make: runs, models, cards, comparisons."""
