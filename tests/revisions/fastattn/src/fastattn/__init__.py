"""Attention in small, by somebody else."""
