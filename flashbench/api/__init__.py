"""What `import flashbench` offers besides functions: the same as the commands, in a notebook."""
