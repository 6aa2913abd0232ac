"""What samples show: statistics of values, ranges, Gram matrices."""
