"""The language of filters: shape, tree, legality and meaning. Both processes speak it."""
