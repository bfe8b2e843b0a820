"""What Clearspan costs, beside what the engine alone costs: `make bench`."""
