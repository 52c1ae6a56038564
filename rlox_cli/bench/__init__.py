"""`rlox bench`: measuring processes, a record of their results, and a gate against an earlier record."""
