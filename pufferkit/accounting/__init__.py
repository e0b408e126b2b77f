"""What has been spent, and by which theorem."""
