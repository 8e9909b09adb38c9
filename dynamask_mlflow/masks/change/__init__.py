"""What changed since? The change of an answer between two times of one sequence, and what brought it."""
