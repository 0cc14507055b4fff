"""The Python call that runs any PTX: arguments, device memory, tensor maps, entries by name."""
