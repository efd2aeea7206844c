"""The soak: hours of pods and nodes that come and go."""
