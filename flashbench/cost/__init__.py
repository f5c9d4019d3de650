"""What measuring costs: an estimate before it starts, an account afterwards, prices."""
