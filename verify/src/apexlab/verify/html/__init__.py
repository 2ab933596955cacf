"""Pages of one file, for all of apexlab: their pieces, and the document around them."""
