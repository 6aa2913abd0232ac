"""Large constants: made of parts that are joined late, compared by samples."""
