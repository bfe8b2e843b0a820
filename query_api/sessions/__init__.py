"""Sessions and users: the distinct ids that spans carry, in the order of their activity."""
