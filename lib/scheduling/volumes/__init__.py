"""Where pods with volumes can run: which volumes their claims have, or could have, on a node."""
