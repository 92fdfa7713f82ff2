"""Speed benchmarks of felbo, as ratios to baselines without it."""
