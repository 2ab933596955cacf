"""The side that imports torch: one scenario, measured in a process of its own."""
