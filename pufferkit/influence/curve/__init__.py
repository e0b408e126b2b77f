"""The influence curve: from event-level epsilon to Pufferfish epsilon."""
