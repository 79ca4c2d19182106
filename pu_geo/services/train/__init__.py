"""What the Train screen asks for: trainings, run cards, comparisons, models."""
