"""Time rlox beside other libraries in one run, and report where it is faster and where it is slower."""
