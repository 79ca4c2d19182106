"""What the Project screen asks for: projects, what people chose in them, and the app itself."""
