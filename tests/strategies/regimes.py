"""Two regimes that emit three levels, for tests of fits."""

import numpy as np

STAYING = np.array([[0.95, 0.05], [0.1, 0.9]])
EMISSION = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
