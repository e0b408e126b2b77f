"""Tables that stay on a Spark cluster."""
