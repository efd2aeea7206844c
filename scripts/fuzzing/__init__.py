"""Fuzzing: what reads input is given inputs that nobody meant. Each must end in an expected error."""
