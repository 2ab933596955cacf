"""Plans a cell of the matrix, compiles Apex for it and drives the container engine."""
