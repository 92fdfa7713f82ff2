"""Experiments of our own, run and summarised like those of the paper."""
