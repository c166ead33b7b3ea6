"""What programs that tests run in processes of their own begin with."""

# `each(f, n)` calls f(0) .. f(n - 1) in n blocks.
EACH = """
A = np.arange(1_000_000.0)
SUM = A.sum()
ITEM = np.zeros((), "V524288")      # beside it, each element is a block
def each(f, n):
    blocks = lambda ks, _: np.array([f(int(k)) for k in ks])
    out = np.zeros(n, int)
    return pb.par_map(blocks, np.arange(n), np.broadcast_to(ITEM, n), out=out).tolist()
"""
