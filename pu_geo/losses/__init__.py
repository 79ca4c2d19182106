"""Formulas with gradients, one family a file, named as in their papers. Torch only."""
