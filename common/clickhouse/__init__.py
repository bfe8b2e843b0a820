"""ClickHouse: two engines behind one interface, the tables, and the columns of a span."""
