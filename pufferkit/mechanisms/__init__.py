"""Mechanisms: from beliefs, a query and epsilon to a calibration of the noise."""
