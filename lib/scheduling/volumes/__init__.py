"""Where pods with volumes can run: which volumes their claims have, or could get, on a node."""
