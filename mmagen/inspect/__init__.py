"""Plans and operations as text."""
