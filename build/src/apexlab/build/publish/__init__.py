"""Publishing: from a digest and its verify reports to tags, attestations and a signature."""
