"""`rlox bench`: processes that measure, a record of what they found, and a gate against an earlier one."""
