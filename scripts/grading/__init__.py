"""Grades students' policies on a scenario: a cluster, pods, and the expected result."""
