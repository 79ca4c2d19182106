"""One file a method; each fit reads like the algorithm box of its paper."""
