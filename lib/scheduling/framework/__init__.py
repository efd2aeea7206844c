"""The scheduling framework: its extension points, and the runtime that calls plugins there."""
