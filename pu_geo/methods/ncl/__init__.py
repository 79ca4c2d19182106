"""NCL: novel category discovery among the unlabeled."""
