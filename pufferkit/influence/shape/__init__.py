"""Noise shaped to what an entry reveals: a scale for each coordinate of a rotated histogram."""
