"""Answers from definitions alone: nothing here imports pufferkit."""
