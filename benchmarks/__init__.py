"""Speed of felbo, as ratios to what a user would write otherwise."""
