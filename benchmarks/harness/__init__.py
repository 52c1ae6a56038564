"""Times rlox beside other libraries in one run and says where it is faster and where it is not."""
