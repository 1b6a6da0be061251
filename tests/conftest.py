import os
import signal

# Before Numba is imported: three and four real threads run even on a machine of two cores.
os.environ.setdefault("NUMBA_NUM_THREADS", "4")

from hypothesis import settings

# Jobs in the background of a shell ignore interrupts, and so would all that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The first example may compile; and a test that fails today must fail tomorrow.
settings.register_profile("vivace", deadline=None, max_examples=60, derandomize=True, database=None)
settings.load_profile("vivace")
