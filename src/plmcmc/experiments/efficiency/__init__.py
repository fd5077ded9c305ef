"""Studies of chains on one digit: efficiency, and decisions overturned."""
