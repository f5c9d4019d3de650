"""What attention means to flashbench: shapes, masks, ids, SDPA, the float64 truth, words."""
