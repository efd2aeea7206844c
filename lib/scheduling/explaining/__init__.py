"""Why plugins reject nodes, and what may help: for people who ask. The loop loads none of it."""
