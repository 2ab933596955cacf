"""Which widths the fused norms take: all of them."""


def fits(width):
    return True
