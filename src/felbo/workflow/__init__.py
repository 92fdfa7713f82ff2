"""From files to a trained model, its evaluations and predictions: what the command line does.

A run is a folder with the model, what it was trained on, and its evaluations.
"""
