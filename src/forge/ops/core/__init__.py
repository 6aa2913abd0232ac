"""What operators are made of: the operator class, type inference, lowering, the NumPy meaning of arithmetic."""
