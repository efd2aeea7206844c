"""What students' policies come to on a scenario: a cluster, pods, and what is expected of where they go."""
