"""How far pre and post lie from each other, measured. Others may use the module listed here and no other."""

__all__ = ["measure"]
