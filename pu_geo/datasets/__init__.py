"""Published data sets as their makers lay them out on disk, and the ways papers make positive-unlabeled data of them."""
