"""Shims: each loads its library and gives its functions their old names."""
