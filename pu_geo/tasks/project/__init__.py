"""Jobs of the Project screen: the next round of an event."""
