"""One file an encoding: from bytes to spans."""
