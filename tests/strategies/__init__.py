"""What tests share: random inputs, generated files, ways to call the command line."""
