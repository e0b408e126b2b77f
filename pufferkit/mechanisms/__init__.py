"""From beliefs, a query and epsilon to the noise that is needed."""
