"""Formulas on finished arrays, without gradients. No torch."""
