"""The cost of measuring: estimates before it starts, an account afterwards, and prices."""
