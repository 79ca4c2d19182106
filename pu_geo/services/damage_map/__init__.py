"""What the Damage map screen asks for: the map in numbers, its audit, its versions."""
