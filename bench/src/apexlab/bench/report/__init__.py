"""What a result is written into: the terminal, Markdown, CSV, the page, other tools."""
