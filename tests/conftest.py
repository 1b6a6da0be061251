import os

# Before Numba is imported: three and four real threads run even on a machine of two cores.
os.environ.setdefault("NUMBA_NUM_THREADS", "4")

from hypothesis import settings

# The first example may compile; and a test that fails today must fail tomorrow.
settings.register_profile("vivace", deadline=None, max_examples=60, derandomize=True, database=None)
settings.load_profile("vivace")
