"""Streamlit pieces that two or more pages use, and the browser component."""
