"""The pieces of the Project screen: its texts, with those of the file picker."""
