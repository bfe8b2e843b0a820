"""How many machines a rate of spans needs: measured figures, a plan, and a model of the limits."""
