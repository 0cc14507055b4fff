"""Instructions: PTX to Python source over all lanes."""
