"""The pieces of the Train screen: method cards, live panel, runs, comparison, features, models."""
